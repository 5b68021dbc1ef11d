"""R-Precision within one modality, by class: how well images retrieve images of their class."""

import numpy as np
import torch
from jaxtyping import Float64, Int

from pcme.embedding import Embedding
from pcme.retrieval import metrics
from pcme.retrieval.matches import Matches
from pcme.scores.base import Score

__all__ = ["within"]


def within(score: Score, items: Embedding, classes: Int[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    """R-Precision of each item among the others of its modality; NaN for the only item of a class.

    Holds the matrix of all pairs in memory.
    """
    same = classes[:, None] == classes[None]
    np.fill_diagonal(same, False)
    matrix = score(items, items)
    matrix.fill_diagonal_(-torch.inf)  # the query itself comes last
    return metrics.r_precision(matrix, Matches.from_dense(same))

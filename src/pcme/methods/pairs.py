"""The pairs of a batch: whether they match, and which of them a loss takes for matches."""

from typing import Literal

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

Images = Shaped[Tensor, "b ..."]
PairLoss = Float[Tensor, "b c"]
Truth = Bool[Tensor, "b c"]
"""Whether caption j is true of image i, for every pair of a batch."""
SoftTruth = Truth | Float[Tensor, "b c"]
"""The same, or from 0 to 1 how far it is true."""
Positives = Literal["diagonal", "matches"]
"""The pairs that count as matches: each item with its own, as in the authors' codes, or all true ones."""


def positive_pairs(matches: Truth, positives: Positives) -> Truth:
    """The pairs that count as matches; all others are negatives, true or not."""
    if positives == "matches":
        return matches
    return torch.eye(*matches.shape, dtype=torch.bool, device=matches.device)

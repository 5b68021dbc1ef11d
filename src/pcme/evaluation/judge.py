"""Metrics of a block of scores, which is ranked once for all of them. Paper: §4.1.1, §C.1."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Float64, Int64

from pcme.evaluation.ground_truth import Relation
from pcme.retrieval.blocks import each_block, read_rows
from pcme.retrieval.metrics import average_precision, first_hits, first_rank, share_of_hits, within
from pcme.retrieval.plausible import RADII, Plausible
from pcme.retrieval.ranking import TOP_IDS_BYTES, as_scores, top_ids

KS = (1, 5, 10)
"""The k of recall@k."""

OWN = ""
"""The name of the dataset's own relation."""

Block = Float[np.ndarray, "b g"]
Values = dict[str, Float64[np.ndarray, " b"]]


def block_metrics(scores: Block, rows: slice, relations: Mapping[str, Relation], plausible: Plausible | None) -> Values:
    """Return {metric: values} of the queries `rows`, from their scores of the whole gallery.

    The relation OWN is the dataset's; metrics of another have its name: "eccv map@r".
    """
    block = as_scores(scores)
    count, gallery = block.shape
    collected: Values = {}

    def fill(some: slice) -> None:
        part = read_rows(block, some)
        queries = slice(rows.start + some.start, rows.start + some.stop)
        for name, values in _values(part, queries, relations, plausible).items():
            collected.setdefault(name, np.empty(count))[some] = values

    each_block(fill, count, row_bytes=(TOP_IDS_BYTES + 24) * gallery)
    return collected


def _best(part: Block, depth: int) -> Int64[np.ndarray, "b k"]:
    """`top_ids` for a small depth: items below the best of `depth` groups are skipped.

    The least of the `depth` highest maxima of groups is no higher than the score at that depth.
    """
    groups = 8 * max(depth, 32)
    width = part.shape[1] // groups
    if width < 4:
        return top_ids(part, depth)
    highest = part[:, : width * groups].reshape(len(part), width, groups).max(axis=1)
    least = np.partition(highest, groups - depth, axis=1)[:, groups - depth]
    best = np.empty((len(part), depth), np.int64)
    for row, scores in enumerate(part):
        ids = np.flatnonzero(scores >= least[row])
        best[row] = ids[top_ids(scores[ids][None], depth)[0]]
    return best


def _values(part: Block, rows: slice, relations: Mapping[str, Relation], plausible: Plausible | None) -> Values:
    depth = max(*KS, *(int(relation.sizes[rows].max()) for relation in relations.values()))  # the largest R
    ids = _best(part, min(depth, part.shape[1]))
    values = _of_relation(part, ids, rows, relations[OWN])
    values["chance"] = _known(relations[OWN].sizes[rows] / part.shape[1], relations[OWN], rows)
    if plausible is not None:
        shares = plausible.shares(part, rows)
        values["pmrp"] = shares.mean(1)
        values |= {f"pmrp@{radius}": shares[:, i] for i, radius in enumerate(RADII)}
    for name, relation in relations.items():
        if name != OWN:
            others = _of_relation(part, ids, rows, relation)
            values |= {f"{name} {metric}": others[metric] for metric in others if metric != "rank"}
    return values


def _of_relation(part: Block, ids: Int64[np.ndarray, "b k"], rows: slice, relation: Relation) -> Values:
    """The metrics of one relation, from the ranks of its relevant items."""
    sizes = relation.sizes[rows]
    hits = relation.matches.hits(ids[:, : max(*KS, int(sizes.max()))], rows.start)
    ranks = first_hits(hits)
    for row in np.flatnonzero(np.isinf(ranks)).tolist():  # below the ids: counted, not sorted
        (relevant,) = relation.matches.rows(rows.start + row, 1)
        ranks[row] = first_rank(part[row], relevant)
    least = np.maximum(sizes, 1)
    hits = within(hits, sizes)
    values = {
        "r_precision": share_of_hits(hits, least),
        **{f"recall@{k}": (ranks <= k).astype(np.float64) for k in KS},
        "map@r": average_precision(hits, least),
        "rank": ranks,
    }
    return {name: _known(each, relation, rows) for name, each in values.items()}


def _known(values: Float64[np.ndarray, " b"], relation: Relation, rows: slice) -> Float64[np.ndarray, " b"]:
    """NaN for queries without any relevant item."""
    return np.where(relation.sizes[rows] > 0, values, np.nan)

"""Queries made of queries: all of these, any of these, this but not that (docs/guide/combine.md).

A query is a small tree. Its leaves are texts and images, until `encoded` turns them into Gaussians (or points). The
result for a gallery is a match probability again, so trees nest.

- `all_of`: Π pᵢ, every part must match; or, as a Gaussian, the product of the densities.
- `any_of`: 1 − Π (1 − pᵢ), one part is enough.
- `but_not`: p (1 − q).

All treat the parts as independent given the item. Paper: §4.4, Fig. 8 shows that embeddings intersect and include each
other; here a user can ask for it.

>>> query = all_of(["a red bird", but_not("a long tail", "water")])
>>> query
("a red bird" and ("a long tail" but not "water"))
>>> [leaf.item for leaf in query.leaves()]
['a red bird', 'a long tail', 'water']
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float64
from numpy.typing import ArrayLike

from pcme.embedding import Embedding, Gaussian, Points
from pcme.errors import ConfigError, ShapeError
from pcme.scores.base import Score

Log = Float64[np.ndarray, "*n"]
Calibrate = Callable[[ArrayLike], Log]
"""From log p to calibrated log p: `Confidence.log_probability`."""

Encode = Callable[[object], Embedding]
"""From a text or an image to its embedding, of one row."""


class Query(ABC):
    """Something to search for; a leaf of q rows makes it a batch of q queries."""

    @abstractmethod
    def leaves(self) -> Iterator["One"]:
        """The leaves, from left to right."""

    @abstractmethod
    def encoded(self, encode: Encode) -> "Query":
        """The same query with embeddings as leaves; leaves that have one keep it."""

    @abstractmethod
    def proposals(self) -> list[Embedding]:
        """Embeddings near which every match is found: an index takes its shortlist there."""

    @abstractmethod
    def combine(self, log_p: Callable[["One"], Log]) -> Log:
        """The log match probability, from that of the leaves."""

    def log_probabilities(
        self, score: Score, gallery: Embedding, *, calibrate: Calibrate | None = None
    ) -> Float64[np.ndarray, "q g"]:
        """The log match probability of each query with every item.

        With `calibrate`, the probability of every leaf is calibrated before they are combined: 1 − p means little when
        p is only an order.
        """
        score.require_log_probability("combining queries")

        def of_leaf(leaf: "One") -> Log:
            log_p = np.minimum(score(leaf.embedding, gallery).cpu().double().numpy(), 0.0)
            return log_p if calibrate is None else calibrate(log_p)

        return self.combine(of_leaf)

    def log_probability(
        self, score: Score, gallery: Embedding, *, calibrate: Calibrate | None = None
    ) -> Float64[np.ndarray, " g"]:
        """The log match probability of a single query with every item."""
        rows = self.log_probabilities(score, gallery, calibrate=calibrate)
        if len(rows) != 1:
            raise ShapeError(f"log_probability: one query, got {len(rows)}. Use log_probabilities.")
        only: Float64[np.ndarray, " g"] = rows[0]
        return only


@dataclass(frozen=True, eq=False, repr=False)
class One(Query):
    """A leaf: a text or an image, or the embedding of one."""

    item: object

    def leaves(self) -> Iterator["One"]:
        """Itself."""
        yield self

    def encoded(self, encode: Encode) -> "One":
        """With the embedding of its item."""
        return self if isinstance(self.item, Gaussian | Points) else One(encode(self.item))

    def proposals(self) -> list[Embedding]:
        """Its embedding."""
        return [self.embedding]

    @property
    def embedding(self) -> Embedding:
        """The embedding, or an error when it has not been encoded."""
        if not isinstance(self.item, Gaussian | Points):
            raise ConfigError(f"{self!r}: not encoded. Call query.encoded(...) first, or search an index.")
        return self.item

    def combine(self, log_p: Callable[["One"], Log]) -> Log:
        """Its own."""
        return log_p(self)

    def __repr__(self) -> str:
        return f'"{self.item}"' if isinstance(self.item, str) else f"<{type(self.item).__name__}>"


@dataclass(frozen=True, eq=False, repr=False)
class _Tree(Query):
    parts: tuple[Query, ...]

    def leaves(self) -> Iterator[One]:
        """Those of all parts, from left to right."""
        return (leaf for part in self.parts for leaf in part.leaves())


@dataclass(frozen=True, eq=False, repr=False)
class Combined(_Tree):
    """Parts whose match probabilities are combined, item by item."""

    how: Literal["and", "or", "but not"]

    def encoded(self, encode: Encode) -> "Combined":
        """With every part encoded."""
        return replace(self, parts=tuple(part.encoded(encode) for part in self.parts))

    def proposals(self) -> list[Embedding]:
        """Those of the wanted parts; where all must match, also their product if there is one."""
        wanted = self.parts[:1] if self.how == "but not" else self.parts
        proposals = [part.proposals() for part in wanted]
        single = [part[0] for part in proposals if len(part) == 1 and isinstance(part[0], Gaussian)]
        whole = [product(single)] if self.how == "and" and len(single) == len(proposals) else []
        return [*whole, *chain.from_iterable(proposals)]

    def combine(self, log_p: Callable[[One], Log]) -> Log:
        """All: Π p; any: 1 − Π (1 − p); the first but not the second: p (1 − q)."""
        return reduce(_PAIRWISE[self.how], (part.combine(log_p) for part in self.parts))

    def __repr__(self) -> str:
        return f"({f' {self.how} '.join(map(repr, self.parts))})"


@dataclass(frozen=True, eq=False, repr=False)
class Product(_Tree):
    """All parts as one Gaussian: the product of their densities, normalised."""

    def encoded(self, encode: Encode) -> One:
        """A single Gaussian."""
        return One(product([_gaussian(part.encoded(encode)) for part in self.parts]))

    def proposals(self) -> list[Embedding]:
        """The Gaussian."""
        return self.encoded(_not_encoded).proposals()

    def combine(self, log_p: Callable[[One], Log]) -> Log:
        """That of the Gaussian."""
        return log_p(self.encoded(_not_encoded))

    def __repr__(self) -> str:
        return f"({' × '.join(map(repr, self.parts))})"


def all_of(parts: Sequence[object], *, how: Literal["probability", "density"] = "probability") -> Query:
    """Items that match all parts; parts are texts, images, embeddings or queries.

    "probability" is Π p. "density" is one Gaussian, which any index of Gaussians can search; its parts must be
    Gaussians themselves. docs/guide/combine.md compares them.

    >>> all_of(["a red bird"])
    "a red bird"
    >>> all_of(["a red bird", "a long tail"], how="density")
    ("a red bird" × "a long tail")
    """
    queries = _queries(parts, "all_of")
    if how not in ("probability", "density"):
        raise ConfigError(f'all_of: unknown how, got "{how}". Use one of: probability, density.')
    if len(queries) == 1:
        return queries[0]
    return Product(queries) if how == "density" else Combined(queries, "and")


def any_of(parts: Sequence[object]) -> Query:
    """Items that match at least one of the parts.

    >>> any_of(["a red bird", "a blue bird"])
    ("a red bird" or "a blue bird")
    """
    queries = _queries(parts, "any_of")
    return queries[0] if len(queries) == 1 else Combined(queries, "or")


def but_not(wanted: object, unwanted: object) -> Query:
    """Items that match one and not the other.

    >>> but_not("a red bird", any_of(["water", "sky"]))
    ("a red bird" but not ("water" or "sky"))
    """
    return Combined(_queries([wanted, unwanted], "but_not"), "but not")


def product(parts: Sequence[Gaussian]) -> Gaussian:
    """The normalised product of densities: precisions add, means are weighted by them.

    1/σ² = Σ 1/σᵢ², μ = σ² Σ μᵢ/σᵢ². Where the means differ it is shorter than they are (docs/guide/combine.md).

    >>> one = Gaussian(torch.tensor([[0.0]]), torch.tensor([[0.0]]))
    >>> two = product([one, Gaussian(torch.tensor([[2.0]]), torch.tensor([[0.0]]))])
    >>> two.mean.item(), round(two.variance.item(), 4)
    (1.0, 0.5)
    """
    if not parts or len({(len(part), part.dim) for part in parts}) > 1:
        shapes = [list(part.mean.shape) for part in parts]
        raise ShapeError(f"product: needs one or more Gaussians of one shape, got {shapes}.")
    wide = max(part.log_sigma.shape[1] for part in parts)
    log_precision = torch.stack([-2 * part.log_sigma.expand(-1, wide) for part in parts])
    means = torch.stack([part.mean for part in parts])
    mean = (torch.softmax(log_precision, 0) * means).sum(0)
    return Gaussian(mean, -torch.logsumexp(log_precision, 0) / 2)


def _either(log_p: Log, log_q: Log) -> Log:
    """log(p + q (1 − p)): never above 0 but for rounding."""
    either: Log = np.minimum(np.logaddexp(log_p, log_q + _log_complement(log_p)), 0.0)
    return either


def _first_only(log_p: Log, log_q: Log) -> Log:
    """log(p (1 − q))."""
    only: Log = log_p + _log_complement(log_q)
    return only


_PAIRWISE: dict[str, Callable[[Log, Log], Log]] = {"and": np.add, "or": _either, "but not": _first_only}


def _log_complement(log_p: Log) -> Log:
    """log(1 − p), finite: certainty is the nearest number to it."""
    nearly = np.minimum(log_p, -np.finfo(np.float64).tiny)
    complement: Log = np.log(-np.expm1(nearly))
    return complement


def _queries(parts: Sequence[object], name: str) -> tuple[Query, ...]:
    if isinstance(parts, str) or not len(parts):
        raise ConfigError(f"{name}: takes a list of at least one part, got {parts!r}.")
    return tuple(part if isinstance(part, Query) else One(part) for part in parts)


def _gaussian(query: Query) -> Gaussian:
    item = query.item if isinstance(query, One) else query
    if not isinstance(item, Gaussian):
        raise ConfigError(f'{query!r}: has no density to multiply. Use all_of(..., how="probability").')
    return item


def _not_encoded(item: object) -> Embedding:
    return One(item).embedding  # says what is missing

"""Which scores a model's embeddings can be compared with, and with which parameters."""

from collections.abc import Sequence
from dataclasses import dataclass

from pcme import scores
from pcme.embedding import Embedding, Points
from pcme.errors import ConfigError, ShapeError
from pcme.evaluation.passes import name_of, parameters_of
from pcme.scores.base import Score

__all__ = ["ALL", "Chosen", "chosen", "names_of", "suits"]

ALL = "all"

ORDERS_LIKE = {"overlap": "elk", "csd_prob": "csd"}
"""Probabilities that rank as another score does, whatever their scale and shift are."""


@dataclass(frozen=True)
class Chosen:
    """Scores, and what is to be said of their parameters or of those left out."""

    scores: tuple[Score, ...]
    notes: tuple[str, ...] = ()


def chosen(
    asked: str | Sequence[str] | None, own: Score, images: Embedding, captions: Embedding
) -> Chosen:
    """The scores a user means: None is the model's `own`, "all" every one that suits, or names.

    A score that the model has learned keeps what it has learned; others take their defaults, and a
    note says so.
    """
    if asked is None:
        return Chosen((own,))
    every = _made(scores.names(), own, images)
    fitting = {name: score for name, score in every.items() if suits(score, images, captions)}
    kind = type(images).__name__
    if asked == ALL:
        missing = [name for name in every if name not in fitting]
        left = [f"left out, since they do not compare {kind}: {', '.join(missing)}"]
        return Chosen(tuple(fitting.values()), (*_notes(fitting, own), *(left if missing else [])))
    named = _made(names_of(asked), own, images)
    for name in named:
        if name not in fitting:
            raise ConfigError(
                f'score "{name}" does not compare {kind}, which this model makes of items - use '
                f"one of: {', '.join(fitting)}"
            )
    return Chosen(tuple(named.values()), _notes(named, own))


def suits(score: Score, images: Embedding, captions: Embedding) -> bool:
    """Whether a score can compare these embeddings, either way.

    >>> import torch
    >>> points = Points(torch.zeros(1, 2, 3))
    >>> suits(scores.create("nearest"), points, points), suits(scores.create("kl"), points, points)
    (True, False)
    """
    try:
        score.plan(images[:1], captions[:1])
        score.plan(captions[:1], images[:1])
    except ShapeError:
        return False
    return True


def names_of(asked: str | Sequence[str]) -> list[str]:
    """Canonical names, each once, in the order given; text is split at its commas.

    >>> names_of("mean,js,mean")
    ['mean', 'jeffreys']
    """
    given = asked.split(",") if isinstance(asked, str) else asked
    names = [name.strip() for name in given if name.strip()]
    if not names:
        raise ConfigError('no score was named - give "all", or names as in "mean,csd"')
    return list(dict.fromkeys(name_of(scores.create(name)) for name in names))


def _made(names: Sequence[str], own: Score, images: Embedding) -> dict[str, Score]:
    """The scores of these names: the model's own as it has learned it, the others as they come."""
    return {name: own if name == name_of(own) else _default(name, images) for name in names}


def _default(name: str, images: Embedding) -> Score:
    if name == "match_prob" and isinstance(images, Points):  # points stand for their samples
        return scores.create(name, method="sampled")
    return scores.create(name)


def _notes(made: dict[str, Score], own: Score) -> tuple[str, ...]:
    return tuple(
        note for name, score in made.items() if score is not own and (note := _note(name, score))
    )


def _note(name: str, score: Score) -> str:
    """What is to be said of a score with a scale and shift that nobody has learned."""
    learnable = parameters_of(score)
    if "scale" not in learnable:
        return ""
    given = f"{name}: this model has not learned its scale and shift"
    if name in ORDERS_LIKE:
        return f"{given}, which do not change the order: it ranks as {ORDERS_LIKE[name]} does"
    return (
        f"{given}; {learnable['scale']:g} and {learnable['shift']:g} are the paper's start on CUB"
    )

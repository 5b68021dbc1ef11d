"""The scores that a model's embeddings can be compared with, and their parameters."""

from collections.abc import Sequence
from dataclasses import dataclass

from pcme import scores
from pcme.embedding import Embedding
from pcme.errors import ConfigError
from pcme.scores.base import Score

ALL = "all"
LEARNED = ("scale", "shift")
"""Parameters that a method may learn in training."""


@dataclass(frozen=True)
class Chosen:
    """Scores, with notes on parameters that were not learned and on scores left out."""

    scores: tuple[Score, ...]
    notes: tuple[str, ...] = ()


def chosen(selection: str | Sequence[str] | None, learned: Score, images: Embedding, captions: Embedding) -> Chosen:
    """The scores a user means: None is the model's own, "all" every one that fits, or names.

    The score that the model has learned keeps its parameters; others take their defaults, and a note says so.
    """
    if selection is None:
        return Chosen((learned,))
    every = {
        name: learned if name == learned.name else scores.create(name).suited_to(images) for name in scores.names()
    }
    fitting = [name for name, score in every.items() if score.takes(images) and score.takes(captions)]
    missing, kind = [name for name in every if name not in fitting], type(images).__name__
    names = fitting if selection == ALL else names_of(selection)
    for name in names:
        if name not in fitting:
            raise ConfigError(
                f'score "{name}": does not compare {kind}, which this model encodes items as. '
                f"Use one of: {', '.join(fitting)}."
            )
    notes = [note for name in names if (note := _note(every[name], learned))]
    if selection == ALL and missing:
        notes.append(f"left out, since they do not compare {kind}: {', '.join(missing)}")
    return Chosen(tuple(every[name] for name in names), tuple(notes))


def names_of(selection: str | Sequence[str]) -> list[str]:
    """Canonical names, each once, in the order given; text is split at its commas.

    >>> names_of("mean,js,mean")
    ['mean', 'jeffreys']
    """
    parts = selection.split(",") if isinstance(selection, str) else selection
    names = [name.strip() for name in parts if name.strip()]
    if not names:
        raise ConfigError('scores: no name, got "". Give "all", or names as in "mean,csd".')
    return list(dict.fromkeys(scores.registry.name_of(scores.registry.get(name)) for name in names))


def _note(score: Score, learned: Score) -> str:
    """A remark on a score whose scale and shift the model has not learned; "" where it has."""
    values = {name: score.parameters[name] for name in LEARNED if name in score.parameters}
    if score is learned or not values:
        return ""
    note = f"{score.name}: this model has not learned its {' and '.join(values)}"
    if score.orders_like:
        return f"{note}, which do not change the order: it ranks as {score.orders_like} does"
    return f"{note}; the default is {' and '.join(f'{value:g}' for value in values.values())}"

"""The scores that a model's embeddings can be compared with, and their parameters."""

from collections.abc import Sequence
from dataclasses import dataclass

from pcme import scores
from pcme.embedding import Embedding
from pcme.errors import ConfigError
from pcme.scores.base import Score
from pcme.scores.spec import Spec

ALL = "all"
LEARNED = ("scale", "shift")
"""Parameters that a method may learn in training."""


@dataclass(frozen=True)
class Chosen:
    """Scores, with notes on parameters that were not learned and on scores left out."""

    scores: tuple[Score, ...]
    notes: tuple[str, ...] = ()


def chosen(selection: str | Sequence[str] | None, learned: Score, images: Embedding, captions: Embedding) -> Chosen:
    """The scores a user means: None is the model's own, "all" every one that fits, or specifications (`Spec`).

    The score that the model has learned keeps its parameters, but for those that are set; others take their defaults,
    and a note says so.
    """
    if selection is None:
        return Chosen((learned,))
    every = {name: _suited(Spec(name), learned, images) for name in scores.names()}
    fitting = [name for name, score in every.items() if score.takes(images) and score.takes(captions)]
    missing, kind = [name for name in every if name not in fitting], type(images).__name__
    specs = [Spec(name) for name in fitting] if selection == ALL else Spec.parse_all(selection)
    found = [_suited(spec, learned, images) for spec in specs]
    for spec, score in zip(specs, found, strict=True):
        if not (score.takes(images) and score.takes(captions)):
            raise ConfigError(
                f'score "{spec.name}": does not compare {kind}, which this model encodes items as. '
                f"Use one of: {', '.join(fitting)}."
            )
    notes = [note for spec in specs if (note := _note(spec, every[spec.name], learned))]
    if selection == ALL and missing:
        notes.append(f"left out, since they do not compare {kind}: {', '.join(missing)}")
    return Chosen(tuple(found), tuple(notes))


def _suited(spec: Spec, learned: Score, items: Embedding) -> Score:
    """The score of a specification, suited to such items as far as what is set allows."""
    score = spec.of(learned)
    if spec.name == learned.name:
        return score
    suited = score.suited_to(items)
    return suited if all(suited.parameters[name] == value for name, value in spec.params) else score


def _note(spec: Spec, score: Score, learned: Score) -> str:
    """A remark on a score whose scale and shift are neither learned nor set; "" where they are."""
    given = dict(spec.params)
    values = {name: score.parameters[name] for name in LEARNED if name in score.parameters and name not in given}
    if spec.name == learned.name or not values:
        return ""
    note = f"{spec.name}: this model has not learned its {' and '.join(values)}"
    if score.orders_like:
        return f"{note}, which do not change the order: it ranks as {score.orders_like} does"
    return f"{note}; the default is {' and '.join(f'{value:g}' for value in values.values())}"

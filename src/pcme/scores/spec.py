"""Specifications: a score as a user writes it, by its name and the parameters that are not to be the defaults.

"match_prob:samples=3,method=sampled" is one score, "mean,csd" are two. Every place that takes a score's name reads it
here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pcme.core.parameters import assigned
from pcme.errors import ConfigError
from pcme.scores.base import Score, registry


@dataclass(frozen=True)
class Spec:
    """A score by its canonical name, with some parameters set.

    >>> spec = Spec.parse("match_prob:samples=3,method=sampled")
    >>> spec.make()
    MatchProbability(scale=10.0, shift=10.0, method='sampled', samples=3, seed=0)
    """

    name: str
    params: tuple[tuple[str, object], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Spec":
        """Read one score; a wrong name, parameter or value is an error that names what there is."""
        specs = cls.parse_all(text)
        if len(specs) > 1:
            raise ConfigError(f"score: must be one, got {len(specs)} in {text!r}. Name one of them.")
        return specs[0]

    @classmethod
    def parse_all(cls, selection: str | Sequence[str]) -> tuple["Spec", ...]:
        """Read some scores, each once, in the order given; text is split at its commas.

        A part with "=" and without a name before ":" is a parameter of the score before it.

        >>> Spec.parse_all("js,match_prob:samples=3,seed=1,jeffreys")
        (Spec(name='jeffreys', params=()), Spec(name='match_prob', params=(('samples', 3), ('seed', 1))))
        """
        texts: list[list[str]] = []
        for part in selection.split(",") if isinstance(selection, str) else selection:
            name, colon, first = part.partition(":")
            if texts and "=" in name:
                texts[-1].append(part)
            elif part.strip():
                texts.append([name, *([first] if colon else [])])
        if not texts:
            raise ConfigError('scores: no name, got "". Give "all", or names as in "mean,csd".')
        return tuple(dict.fromkeys(cls._of(name.strip(), assignments) for name, *assignments in texts))

    @classmethod
    def _of(cls, name: str, assignments: Sequence[str]) -> "Spec":
        canonical = registry.name_of(registry.get(name))
        parts = [part for text in assignments for part in text.split(",")]  # of a list, a spec may hold commas
        spec = cls(canonical, tuple(assigned(registry, canonical, parts, option=f'score "{name}"').items()))
        spec.make()  # refuses parameters and values
        return spec

    def make(self) -> Score:
        """The score; what is not set has its default."""
        return registry.create(self.name, **dict(self.params))

    def of(self, learned: Score) -> Score:
        """The score, which keeps what a model has learned of it."""
        if learned.name != self.name:
            return self.make()
        return replace(learned, **dict(self.params))  # type: ignore[type-var]  # all are dataclasses

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

        >>> Spec.parse_all("js,match_prob:samples=3,seed=1,jeffreys")
        (Spec(name='jeffreys', params=()), Spec(name='match_prob', params=(('samples', 3), ('seed', 1))))
        """
        texts = split(selection)
        if not texts:
            raise ConfigError('scores: no name, got "". Give "all", or names as in "mean,csd".')
        return tuple(dict.fromkeys(map(cls._of, texts)))

    @classmethod
    def _of(cls, text: str) -> "Spec":
        name, colon, rest = text.partition(":")
        canonical = registry.name_of(registry.get(name.strip()))
        parts = rest.split(",") if colon else []
        spec = cls(canonical, tuple(assigned(registry, canonical, parts, option=f'score "{name.strip()}"').items()))
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


def split(selection: str | Sequence[str]) -> list[str]:
    """The text of each score: a part with "=" and without a name before ":" is a parameter of the score before it.

    >>> split("cosine, match_prob:samples=3,seed=1,mean")
    ['cosine', 'match_prob:samples=3,seed=1', 'mean']
    """
    texts: list[str] = []
    for part in selection.split(",") if isinstance(selection, str) else selection:
        if texts and "=" in part.partition(":")[0]:
            texts[-1] += f",{part}"
        elif part.strip():
            texts.append(part.strip())
    return texts

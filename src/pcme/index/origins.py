"""Where items come from: by that, two items of one id are told apart."""

from collections.abc import Sequence
from dataclasses import dataclass

from pcme.index.rows import Kind

__all__ = ["Origin", "origins_of"]


@dataclass(frozen=True)
class Origin:
    """What is known of an item before it is embedded.

    >>> photo = Origin("image", "/a/1.jpg")
    >>> photo.contradicts(Origin("image", "/b/1.jpg")), photo.agrees(Origin("image", "/a/1.jpg"))
    (True, True)
    >>> nothing = Origin("image")
    >>> nothing.contradicts(photo), nothing.agrees(photo)
    (False, False)
    """

    kind: Kind
    path: str | None = None
    text: str | None = None

    def __str__(self) -> str:
        text = None if self.text is None else f'"{self.text:.60}"'
        return f"the {self.kind} {self.path or text or 'without path or text'}"

    def contradicts(self, other: "Origin") -> bool:
        """Whether these are certainly two items."""
        return self.kind != other.kind or any(a != b for a, b in self._compared(other))

    def agrees(self, other: "Origin") -> bool:
        """Whether these are certainly one item."""
        return bool(self._compared(other)) and not self.contradicts(other)

    def _compared(self, other: "Origin") -> list[tuple[str, str]]:
        """What is known of both."""
        pairs = ((self.path, other.path), (self.text, other.text))
        return [(a, b) for a, b in pairs if a is not None and b is not None]


def origins_of(
    kinds: Sequence[Kind],
    paths: Sequence[str | None] | None,
    texts: Sequence[str | None] | None,
) -> list[Origin]:
    """Those of items of which this is known."""
    nothing = [None] * len(kinds)
    return [Origin(*one) for one in zip(kinds, paths or nothing, texts or nothing, strict=True)]

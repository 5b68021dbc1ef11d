"""Canvas: a square picture from 0 to 1 + i, drawn larger and then reduced to smooth its edges.

A point is a complex number x + iy, as in `shapes`. Nothing here is transparent: blending a whole
frame would cost more than all the rest of a picture.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex128
from PIL import Image, ImageDraw

Colour = tuple[int, int, int]
Points = Complex128[np.ndarray, " p"]

OVERSAMPLING = 4
"""Each pixel is the mean of 4 x 4."""


def mixed(one: Colour, other: Colour, share: float) -> Colour:
    """The colour at `share` of the way from one to another.

    >>> mixed((0, 0, 0), (200, 100, 50), 0.5)
    (100, 50, 25)
    """
    (r, g, b), (x, y, z) = one, other
    return int(r + (x - r) * share), int(g + (y - g) * share), int(b + (z - b) * share)


@dataclass(frozen=True, eq=False)
class Canvas:
    """A picture being drawn; `side` is its size in the pixels that will be reduced."""

    image: Image.Image
    draw: ImageDraw.ImageDraw
    side: int

    @classmethod
    def shaded(cls, pixels: int, *bands: tuple[float, Colour, Colour]) -> "Canvas":
        """A canvas of bands from top to bottom: each ends at a height and has two colours.

        Its colour runs from the first, at its upper edge, to the second.
        """
        side = pixels * OVERSAMPLING
        rows, start = [], 0
        for height, upper, lower in bands:
            end = round(height * side)
            step = (np.array(lower) - upper) / (end - start)
            rows.append(np.arange(end - start)[:, None] * step + upper)
            start = end
        column = Image.fromarray(np.concatenate(rows).astype(np.uint8)[:, None])
        image = column.resize((side, side), Image.Resampling.NEAREST)
        return cls(image, ImageDraw.Draw(image), side)

    def area(self, outline: Points, colour: Colour) -> None:
        """Fill a polygon."""
        self.draw.polygon((outline * self.side).view(np.float64).tolist(), fill=colour)

    def line(self, points: Points, width: float, colour: Colour) -> None:
        """Draw a line of the width given, at least one pixel of the large picture."""
        path = (points * self.side).view(np.float64).tolist()
        self.draw.line(path, fill=colour, width=max(1, round(width * self.side)))

    def disc(self, centre: complex, radius: float, colour: Colour, flat: float = 1.0) -> None:
        """Fill a circle, or an ellipse `flat` times as high as it is wide."""
        at, reach = centre * self.side, complex(radius, radius * flat) * self.side
        low, high = at - reach, at + reach
        self.draw.ellipse((low.real, low.imag, high.real, high.imag), fill=colour)

    def finished(self, *, mirrored: bool) -> Image.Image:
        """The picture in its final size, as it is or with left and right exchanged."""
        image = self.image.reduce(OVERSAMPLING)
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if mirrored else image

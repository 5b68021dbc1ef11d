"""Canvas: a square picture from 0 to 1 + i, drawn larger and then reduced to smooth its edges.

A point is a complex number x + iy. Nothing is transparent: blending a whole frame would cost more than the rest.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Complex128
from PIL import Image, ImageDraw

Colour = tuple[int, int, int]
Points = Complex128[np.ndarray, " _"]

WHITE: Colour = (255, 255, 255)
OVERSAMPLING = 4
"""Each pixel is the mean of 4 x 4."""


def mix(start: Colour, end: Colour, share: float) -> Colour:
    """The colour at `share` of the distance from one colour to another.

    >>> mix((0, 0, 0), (200, 100, 50), 0.5)
    (100, 50, 25)
    """
    (r, g, b), (x, y, z) = start, end
    return int(r + (x - r) * share), int(g + (y - g) * share), int(b + (z - b) * share)


@dataclass(frozen=True, eq=False)
class Canvas:
    """A picture being drawn; `side` is its size before it is reduced."""

    image: Image.Image
    draw: ImageDraw.ImageDraw
    side: int

    @classmethod
    def shaded(cls, pixels: int, *bands: tuple[float, Colour, Colour]) -> "Canvas":
        """A canvas of bands from top to bottom: the height each ends at, and its upper and lower colour."""
        side = pixels * OVERSAMPLING
        rows, start = [], 0
        for height, upper, lower in bands:
            end = round(height * side)
            rows.append(np.linspace(upper, lower, end - start, endpoint=False))
            start = end
        column = Image.fromarray(np.concatenate(rows).astype(np.uint8)[:, None])
        image = column.resize((side, side), Image.Resampling.NEAREST)
        return cls(image, ImageDraw.Draw(image), side)

    def area(self, outline: Points, colour: Colour) -> None:
        """Fill a polygon."""
        self.draw.polygon((outline * self.side).view(np.float64).tolist(), fill=colour)

    def line(self, points: Points, width: float, colour: Colour) -> None:
        """Draw a line, at least one pixel of the large picture wide."""
        path = (points * self.side).view(np.float64).tolist()
        self.draw.line(path, fill=colour, width=max(1, round(width * self.side)))

    def disc(self, centre: complex, radius: float, colour: Colour, flat: float = 1.0) -> None:
        """Fill a circle, or an ellipse `flat` times as high as it is wide."""
        middle, reach = centre * self.side, complex(radius, radius * flat) * self.side
        low, high = middle - reach, middle + reach
        self.draw.ellipse((low.real, low.imag, high.real, high.imag), fill=colour)

    def reduced(self, *, mirrored: bool) -> Image.Image:
        """The picture in its final size, as it is or with left and right exchanged."""
        image = self.image.reduce(OVERSAMPLING)
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if mirrored else image

"""The three backgrounds: leaves behind a branch, water with a horizon, a sky with clouds."""

import cmath

import numpy as np

from pcme.data.aviary.canvas import WHITE, Canvas, Colour, mix
from pcme.data.aviary.shapes import smooth

BARK: Colour = (104, 72, 48)
LEAF: Colour = (96, 144, 60)
HAZE: Colour = (236, 230, 188)
WATER: tuple[Colour, Colour] = ((104, 170, 192), (48, 118, 164))
FOAM: Colour = (190, 224, 232)
ALMOND = smooth([-1.0, -0.3 - 0.42j, 1.0, -0.3 + 0.42j], steps=3)
VEIN = np.array([-0.8, 0.8 + 0j])
WAVE = np.linspace(-1, 1, 9) + 0.13j * np.sin(np.linspace(0, 4 * np.pi, 9))
RIPPLE = np.linspace(-1, 1, 7) + 0.16j * (1 - np.linspace(-1, 1, 7) ** 2)


def behind(background: int, foot: complex, pixels: int, generator: np.random.Generator) -> Canvas:
    """A canvas with the background of a bird whose feet, or waterline, are at `foot`."""
    return (_leaves, _lake, _clouds)[background](foot, pixels, generator)


def in_front(canvas: Canvas, background: int, foot: complex, breadth: float, generator: np.random.Generator) -> None:
    """Draw the foreground: the rings that the bird makes in the water, a leaf at its feet."""
    if background == 0:
        side = 1 if generator.random() < 0.5 else -1
        _leaf(canvas, foot + side * (0.9 * breadth + 0.06) + 0.04j, generator)
    if background == 1:
        canvas.disc(foot, breadth, FOAM, flat=0.08)
        for reach, depth in ((1.35, 0.02j), (0.85, 0.24j)):
            canvas.line(foot + breadth * (reach * RIPPLE + depth), 0.012, FOAM)


def _leaves(foot: complex, pixels: int, generator: np.random.Generator) -> Canvas:
    top = mix((172, 198, 128), (204, 214, 150), generator.random())
    canvas = Canvas.shaded(pixels, (1.0, top, HAZE))
    for x, y, radius, share in generator.uniform((0, 0, 0.04, 0.15), (1, 0.9, 0.14, 0.5), (6, 4)).tolist():
        canvas.disc(complex(x, y), radius, mix(mix(top, HAZE, y), (112, 172, 84), share))
    slope, bend = generator.uniform(-0.06, 0.06, 2).tolist()
    x = np.linspace(-0.05, 1.05, 7) - foot.real
    branch = foot + 0.02j + x + 1j * x * (slope + bend * x)
    for centre in (branch[1] - 0.03j, branch[2] + 0.05j, branch[5] - 0.03j):
        _leaf(canvas, centre, generator)
    canvas.line(branch, 0.055, BARK)
    canvas.line(branch - 0.012j, 0.014, mix(BARK, WHITE, 0.25))
    return canvas


def _leaf(canvas: Canvas, centre: complex, generator: np.random.Generator) -> None:
    size, angle, tint = generator.random(3).tolist()
    turn = cmath.rect(0.045 + 0.025 * size, 1.8 * angle - 0.9)
    colour = mix(LEAF, (150, 178, 74), tint)
    canvas.area(centre + turn * ALMOND, colour)
    canvas.line(centre + turn * VEIN, 0.006, mix(colour, WHITE, 0.3))


def _lake(foot: complex, pixels: int, generator: np.random.Generator) -> Canvas:
    horizon = generator.uniform(0.2, max(0.24, foot.imag - 0.16))
    sky = mix((186, 222, 234), (234, 220, 204), generator.random())
    canvas = Canvas.shaded(pixels, (horizon, mix(sky, WHITE, 0.4), sky), (1.0, *WATER))
    hills = np.linspace(0, 1, 9) + 1j * (horizon - 0.06 * generator.random(9))
    shore = np.array([1 + 1j * horizon, 1j * horizon])
    canvas.area(np.concatenate([hills, shore]), mix(sky, (92, 134, 124), 0.5))
    for x, y, length in generator.uniform((0, horizon + 0.06, 0.04), (1, 0.98, 0.09), (6, 3)).tolist():
        canvas.line(complex(x, y) + length * WAVE, 0.011, mix(WATER[0], FOAM, 0.5))
    return canvas


def _clouds(foot: complex, pixels: int, generator: np.random.Generator) -> Canvas:
    top = mix((88, 158, 226), (120, 186, 240), generator.random())
    canvas = Canvas.shaded(pixels, (1.0, top, (220, 238, 250)))
    for x, y, size in generator.uniform((0, 0.06, 0.04), (1, 0.94, 0.075), (3, 3)).tolist():
        for shade, drop in (((212, 226, 242), 0.014j), ((250, 252, 255), 0)):
            for offset, radius in ((-1.5, 0.75), (-0.5 - 0.45j, 1.0), (0.7 - 0.2j, 0.9), (1.7, 0.65)):
                canvas.disc(complex(x, y) + drop + size * offset, size * radius, shade, flat=0.8)
    return canvas

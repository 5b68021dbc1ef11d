"""Draw a bird from its facts: the same pixels from the same generator, in less than a millisecond.

The attributes are large and never hidden: the whole bird lies within the frame, whatever its bill and tail. Pictures of
the same facts differ in direction, tilt and nod, position and shades, and in the clouds, leaves and waves.
"""

import cmath
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int
from PIL import Image

from pcme.data.aviary import shapes
from pcme.data.aviary.canvas import WHITE, Canvas, Colour, Points, mix
from pcme.data.aviary.scenery import behind, in_front
from pcme.data.aviary.shapes import Part

DRAWING_VERSION = 1
"""Raised whenever pictures change, so that nothing cached for the older ones is used."""
MIN_PIXELS = 16

PALETTE: tuple[Colour, ...] = (
    (212, 44, 40), (42, 96, 204), (250, 204, 44), (46, 150, 70), (54, 52, 60), (248, 246, 240)
)  # fmt: skip
INK: Colour = (36, 30, 40)
CREAM: Colour = (255, 248, 226)
MARKINGS = (CREAM, CREAM, INK, CREAM, CREAM, INK)
"""The colour of stripes and spots on each colour of the breast, chosen to stand out."""
ORANGE: Colour = (240, 150, 40)
WARM: Colour = (255, 128, 0)
COLD: Colour = (0, 128, 255)

BRANCH, WATER, SKY = range(3)
LEAN = (0.0, 0.0, 0.3)
TAIL_TURN = (-0.45, 0.3, -0.1)
"""On each background: how far the bird leans forward, and its tail turns up."""
HEIGHT = (0.56, 0.55, 0.5)
UNITS = (0.128, 0.198)
"""The length of a template unit, small and large: the longest large bird just fits the frame."""
MARGIN = 0.015


@dataclass(frozen=True)
class Pose:
    """The position of a part: the template's point z goes to the frame's point turn * z + shift."""

    turn: complex
    shift: complex = 0

    def __call__(self, points: Points) -> Points:
        """The points in the frame."""
        return points * self.turn + self.shift

    def at(self, point: complex) -> complex:
        """One point in the frame."""
        return point * self.turn + self.shift

    def bent(self, angle: float, about: complex) -> "Pose":
        """The pose of a part that is rotated about a point of the template."""
        bend = cmath.rect(1, angle)
        return Pose(self.turn * bend, self.shift + self.turn * about * (1 - bend))

    def moved(self, by: complex) -> "Pose":
        """The pose elsewhere in the frame."""
        return Pose(self.turn, self.shift + by)

    @property
    def unit(self) -> float:
        """The length of a template unit in the frame."""
        return abs(self.turn)


@dataclass(frozen=True)
class Bird:
    """A bird about to be drawn: the facts by name, its shades, and the poses of its parts."""

    bill: int
    pattern: int
    tail: int
    background: int
    crown: Colour
    breast: Colour
    wing: Colour
    marking: Colour
    body: Pose
    head: Pose
    rump: Pose

    @property
    def foot(self) -> complex:
        """The point where the bird meets the branch or the water."""
        depth = shapes.WATERLINE if self.background == WATER else 1.3
        return self.body.at(0.1 + 1j * depth)


def draw(facts: Int[np.ndarray, " a"], generator: np.random.Generator, *, pixels: int = 64) -> Image.Image:
    """A picture of a bird of which `facts` are true, square, in RGB.

    >>> from pcme.data.aviary.attributes import facts_of
    >>> draw(facts_of(crown="red", bill="long"), np.random.default_rng(0)).size
    (64, 64)
    """
    bird = _bird(facts.tolist(), generator)
    canvas = behind(bird.background, bird.foot, pixels, generator)
    _paint(canvas, bird)
    in_front(canvas, bird.background, bird.foot, bird.body.unit, generator)
    return canvas.reduced(mirrored=generator.random() < 0.5)


def _bird(facts: list[int], generator: np.random.Generator) -> Bird:
    crown, breast, wing, bill, pattern, tail, size, background = facts
    nod, wag, right, down = generator.uniform(-1, 1, 4).tolist()
    stretch, tilt = generator.uniform(-1, 1, 2).tolist()
    lean = LEAN[background] + (0.04 if background == WATER else 0.1) * tilt
    body = Pose(cmath.rect(UNITS[size] * (1 + 0.04 * stretch), lean))
    head = body.bent(0.14 * nod, shapes.NECK)
    rump = body.bent(TAIL_TURN[background] + 0.1 * wag, shapes.RUMP)
    trunk = shapes.FLYING_REACH if background == SKY else shapes.STANDING_REACH
    extent = np.concatenate([body(trunk), head(shapes.FACE_REACH[bill]), rump(shapes.TAILS[tail].outer)])
    move = complex(
        _shift_into_frame(extent.real, 0.5 + 0.15 * right),
        _shift_into_frame(extent.imag, HEIGHT[background] + 0.15 * down),
    )
    return Bird(
        bill, pattern, tail, background,
        _shade(crown, generator), _shade(breast, generator), _shade(wing, generator),
        MARKINGS[breast],
        body.moved(move), head.moved(move), rump.moved(move),
    )  # fmt: skip


def _shade(value: int, generator: np.random.Generator) -> Colour:
    """A shade of a colour: a little lighter or darker, a little warmer or colder."""
    light, warm = generator.uniform(-0.06, 0.06, 2).tolist()
    colour = mix(PALETTE[value], WHITE if light > 0 else INK, abs(light))
    return mix(colour, WARM if warm > 0 else COLD, abs(warm))


def _shift_into_frame(extent: Float64[np.ndarray, " p"], middle: float) -> float:
    """The shift that brings the extent's middle as near to `middle` as the frame allows."""
    low, high = float(extent.min()), float(extent.max())
    return min(max(middle - (low + high) / 2, MARGIN - low), 1 - MARGIN - high)


def _paint(canvas: Canvas, bird: Bird) -> None:
    body, flying = bird.body, bird.background == SKY
    if flying:
        _part(canvas, body, shapes.FAR_WING, mix(bird.wing, INK, 0.3))
    tail, feathers = shapes.TAILS[bird.tail], shapes.TAIL_FEATHERS[bird.tail]
    _part(canvas, bird.rump, tail, mix(bird.wing, INK, 0.1), feathers)
    if bird.background == BRANCH:
        for leg in shapes.LEGS:
            canvas.line(body(leg), 0.1 * body.unit, mix(ORANGE, INK, 0.3))
    _torso(canvas, bird)
    wing, feathers = (shapes.RAISED, shapes.RAISED_FEATHERS) if flying else (shapes.FOLDED, shapes.FEATHERS)
    _part(canvas, body, wing, bird.wing, feathers)
    _face(canvas, bird)


def _part(canvas: Canvas, pose: Pose, part: Part, colour: Colour, feathers: Iterable[Points] = ()) -> None:
    """Draw a part with its rim, and the lines of its feathers."""
    canvas.area(pose(part.outer), INK)
    canvas.area(pose(part.inner), colour)
    ink = mix(colour, INK, 0.4) if sum(colour) > 240 else mix(colour, WHITE, 0.25)
    for line in feathers:
        canvas.line(pose(line), 0.05 * pose.unit, ink)


def _torso(canvas: Canvas, bird: Bird) -> None:
    """Draw body and head in the breast's colour: both rims first, so that no line parts them."""
    torso = shapes.AFLOAT if bird.background == WATER else shapes.STANDING
    head, unit = bird.head.at(shapes.HEAD), bird.head.unit
    canvas.area(bird.body(torso.body.outer), INK)
    canvas.disc(head, (shapes.HEAD_RADIUS + shapes.RIM) * unit, INK)
    canvas.area(bird.body(torso.body.inner), bird.breast)
    if bird.pattern == 1:
        for stripe in torso.stripes:
            canvas.area(bird.body(stripe), bird.marking)
    canvas.disc(head, shapes.HEAD_RADIUS * unit, bird.breast)
    if bird.pattern == 2:
        for spot in bird.body(torso.spots).tolist():
            canvas.disc(spot, 0.13 * unit, bird.marking)


def _face(canvas: Canvas, bird: Bird) -> None:
    pose, unit = bird.head, bird.head.unit
    _part(canvas, pose, shapes.BILLS[bird.bill], ORANGE)
    canvas.line(pose(shapes.MOUTHS[bird.bill]), 0.05 * unit, mix(ORANGE, INK, 0.6))
    _part(canvas, pose, shapes.CROWN, bird.crown)
    eye = pose.at(shapes.EYE)
    canvas.disc(eye, 0.17 * unit, WHITE)
    canvas.disc(eye, 0.125 * unit, INK)
    canvas.disc(eye - 0.045 * unit * (1 + 1j), 0.045 * unit, WHITE)

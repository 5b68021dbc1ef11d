"""The outlines of a bird's parts, in a frame of its own.

A point is a complex number x + iy: x grows to the front, y downwards, the body is about two units long and its middle
is 0. So a rotation or a scaling is one multiplication, and a polygon is one array.
"""

from dataclasses import dataclass

import numpy as np

from pcme.data.aviary.canvas import Points

RIM = 0.075
"""The width of the dark rim around each part."""


@dataclass(frozen=True, eq=False)
class Part:
    """A closed outline and the larger one of its rim."""

    inner: Points
    outer: Points


def smooth(corners: list[complex], steps: int = 4) -> Points:
    """A closed curve through all the corners (a uniform Catmull-Rom spline).

    >>> smooth([0, 1, 1 + 1j, 1j], steps=1)
    array([0.+0.j, 1.+0.j, 1.+1.j, 0.+1.j])
    """
    here = np.array(corners, np.complex128)
    before, after, beyond = (np.roll(here, shift)[:, None] for shift in (1, -1, -2))
    here, t = here[:, None], np.arange(steps) / steps
    curve = (
        2 * here
        + (after - before) * t
        + (2 * before - 5 * here + 4 * after - beyond) * t**2
        + (3 * here - before - 3 * after + beyond) * t**3
    )
    return curve.ravel() / 2


def _rimmed(inner: Points) -> Part:
    """The part with its outline moved outwards by RIM; sharp corners are cut off."""
    following = np.roll(inner, -1)
    edge = following - inner
    area = float(np.sum(np.conj(inner) * following).imag)  # twice, negative where the outline runs the other way
    inward = 1j * edge / np.abs(edge) * np.sign(area)
    mitre = inward + np.roll(inward, 1)
    reach = np.maximum(np.abs(mitre) ** 2, 0.35)
    return Part(inner, inner - 2 * RIM * mitre / reach)


def _below(outline: Points, slope: complex, level: float) -> Points:
    """The part of a polygon that reaches at most to `level` in the direction of `slope`."""
    depth = (outline * np.conj(slope)).real - level
    corners: list[complex] = []
    for k in range(len(outline)):
        if depth[k - 1] * depth[k] < 0:
            share = depth[k - 1] / (depth[k - 1] - depth[k])
            corners.append(outline[k - 1] + share * (outline[k] - outline[k - 1]))
        if depth[k] <= 0:
            corners.append(outline[k])
    return np.array(corners, np.complex128)


def _arc(centre: complex, radius: float, start: float, end: float, count: int) -> list[complex]:
    angles = np.deg2rad(np.linspace(start, end, count))
    return list(centre + radius * np.exp(1j * angles))


BODY = _rimmed(
    smooth(
        [0.86 - 0.5j, 1.04 + 0.1j, 0.8 + 0.64j, 0.15 + 0.9j, -0.55 + 0.66j, -1.0 + 0.1j, -0.72 - 0.3j, -0.05 - 0.62j]
    )
)
HEAD, HEAD_RADIUS = 0.52 - 0.84j, 0.6
CROWN = _rimmed(
    np.array([
        *_arc(HEAD, HEAD_RADIUS + 0.02, -14, -118, 11),
        -0.2 - 1.52j, -0.06 - 1.2j, -0.34 - 1.16j, *_arc(HEAD, HEAD_RADIUS + 0.02, -178, -202, 4),
        0.3 - 0.84j, 0.62 - 1.06j, 0.9 - 1.08j,
    ])
)  # fmt: skip
"""The cap over the eye, with two loose feathers behind."""

BILLS = tuple(
    _rimmed(np.array(corners))
    for corners in (
        [1.02 - 0.96j, 1.2 - 0.9j, 1.42 - 0.72j, 1.2 - 0.6j, 1.0 - 0.58j],
        [1.02 - 0.98j, 1.3 - 0.9j, 2.1 - 0.72j, 1.3 - 0.6j, 1.0 - 0.56j],
        smooth([
            0.98 - 1.04j, 1.34 - 1.16j, 1.7 - 1.0j, 1.82 - 0.6j, 1.68 - 0.06j, 1.48 - 0.4j, 1.26 - 0.5j, 1.0 - 0.48j,
        ]),
    )
)  # fmt: skip
MOUTHS = (
    np.array([1.02 - 0.75j, 1.3 - 0.72j]),
    np.array([1.02 - 0.76j, 1.8 - 0.71j]),
    np.array([1.02 - 0.74j, 1.26 - 0.76j, 1.5 - 0.6j]),
)

TAILS = tuple(
    _rimmed(np.array(corners))
    for corners in (
        [-0.7 - 0.16j, -1.12 - 0.22j, -1.22 + 0.04j, -1.1 + 0.28j, -0.7 + 0.3j],
        [-0.7 - 0.16j, -1.98 - 0.28j, -2.12 - 0.14j, -2.12 + 0.22j, -1.98 + 0.36j, -0.7 + 0.32j],
        [-0.7 - 0.16j, -1.25 - 0.3j, -1.94 - 0.86j, -1.86 - 0.5j, -1.34 + 0.05j, -1.86 + 0.6j,
         -1.94 + 0.96j, -1.25 + 0.42j, -0.7 + 0.32j],
    )
)  # fmt: skip
TAIL_FEATHERS = (
    (np.array([-0.9 + 0.05j, -1.1 + 0.04j]),),
    (np.array([-0.9 + 0.0j, -1.92 - 0.04j]), np.array([-0.9 + 0.16j, -1.92 + 0.14j])),
    (np.array([-1.1 - 0.05j, -1.8 - 0.5j]), np.array([-1.1 + 0.15j, -1.8 + 0.6j])),
)

FOLDED = _rimmed(
    smooth([0.22 - 0.42j, 0.34 - 0.02j, 0.04 + 0.34j, -0.5 + 0.42j, -1.04 + 0.36j, -0.76 - 0.1j, -0.3 - 0.46j])
)
FEATHERS = (
    np.array([0.06 + 0.08j, -0.36 + 0.22j, -0.86 + 0.26j]),
    np.array([0.0 - 0.16j, -0.36 - 0.0j, -0.78 + 0.06j]),
)
RAISED = _rimmed(
    smooth([
        0.12 - 0.3j, -0.02 + 0.08j, -0.46 + 0.14j, -0.84 - 0.26j, -1.24 - 0.86j, -1.62 - 1.5j, -1.02 - 1.42j,
        -0.38 - 0.96j,
    ])
)  # fmt: skip
FAR_WING = _rimmed(0.1 - 0.2j + np.exp(0.4j) * (RAISED.inner - 0.1 + 0.2j))
RAISED_FEATHERS = (
    np.array([-0.14 - 0.24j, -0.62 - 0.78j, -1.28 - 1.3j]),
    np.array([-0.34 - 0.1j, -0.7 - 0.46j, -1.14 - 0.96j]),
)


@dataclass(frozen=True, eq=False)
class Torso:
    """A body with the stripes and the spots that fit on it."""

    body: Part
    stripes: tuple[Points, ...]
    spots: Points


def _torso(body: Part) -> Torso:
    slant = np.exp(0.3j)
    levels = np.arange(-0.6, 0.85, 0.34)
    rows = 0.72 - 0.3 * np.arange(5)
    grid = np.arange(-0.52, 0.9, 0.4) + 0.2 * (np.arange(5) % 2)[:, None] + 1j * rows[:, None]
    fits = (np.abs(grid - 0.1 - 0.1j) < 0.75) & (grid.imag <= body.inner.imag.max() - 0.14)
    stripes = tuple(_below(_below(body.inner, slant, level + 0.15), -slant, -level) for level in levels)
    return Torso(body, stripes, grid[fits])


WATERLINE = 0.56
STANDING = _torso(BODY)
AFLOAT = _torso(Part(_below(BODY.inner, 1j, WATERLINE), _below(BODY.outer, 1j, WATERLINE)))

NECK, RUMP = 0.4 - 0.5j, -0.7 + 0.08j
"""The pivots of the head and of the tail."""
EYE = 0.76 - 0.84j
LEGS = tuple(np.array([hip + 0.82j, hip - 0.03 + 1.28j, hip + 0.2 + 1.32j]) for hip in (-0.04, 0.34))

FACE_REACH = tuple(np.concatenate([CROWN.outer, bill.outer]) for bill in BILLS)
STANDING_REACH = np.append(BODY.outer, 0.1 + 1.65j)
FLYING_REACH = np.concatenate([BODY.outer, RAISED.outer, FAR_WING.outer])
"""The outermost points of the head, of the body with the branch below it, and of the body in flight."""

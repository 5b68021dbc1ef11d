"""ellipses: the numbers against loops, the plane of a run in two dimensions, who can have the figure."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from scipy import stats

from pcme import Gaussian
from pcme.analysis import Subject
from pcme.analysis.ellipses import EllipsesAnalysis
from pcme.analysis.geometry import radius
from pcme.evaluation.embed import Embedded
from tests.analysis.subjects import untrained, world
from tests.helpers import random_gaussians

GENERIC = EllipsesAnalysis().generic
LOOSE = random_gaussians(120, 2, seed=2, log_sigma=-2.4)


def model(dim):
    return untrained(f"dim={dim}")


def planted(images, captions):
    """The world's 24 images of eight classes and 120 captions, embedded like this."""
    return Subject.of(model(images.dim), Embedded(world(), images, captions))


@cache
def somewhere(dim):
    return planted(random_gaussians(24, dim, seed=1), random_gaussians(120, dim, seed=2, log_sigma=-2.4, spread=0.5))


def numbers(items):
    """[(mean, σ)] as lists, and the mean log σ of each."""
    pairs = list(zip(items.mean.double().tolist(), items.sigma.double().tolist(), strict=True))
    return pairs, [sum(row) / len(row) for row in items.log_sigma.double().tolist()]


def covers(item, point):
    mean, sigma = item
    square = sum(((p - m) / s) ** 2 for p, m, s in zip(point, mean, sigma, strict=True))
    return square <= stats.chi2.ppf(0.99, len(point))


@pytest.mark.parametrize("dim", [2, 6])
def test_the_numbers_against_loops(dim):
    subject = somewhere(dim)
    found = EllipsesAnalysis().compute(subject)
    (generic,), (width,) = numbers(subject.model.encode_captions([GENERIC]))
    captions, widths = numbers(subject.captions)
    assert 0 < found.narrower == sum(w < width for w in widths) / 120 < 1
    assert found.wider == pytest.approx(math.exp(width - sum(widths) / 120), rel=1e-6)
    assert found.covered == sum(covers(generic, mean) for mean, _ in captions) / 120
    others = [covers(one, mean) for one in captions for mean, _ in captions if mean is not one[0]]
    assert found.covered_by_others == pytest.approx(sum(others) / (120 * 119), abs=1e-12)
    labels, owner = world().classes.values.tolist(), world().caption_image.tolist()
    centre = {k: subject.images.mean[[n for n in range(24) if labels[n] == k]].mean(0) for k in set(labels)}
    nearest = [min(centre, key=lambda k: float((mean - centre[k]).norm())) for mean in subject.captions.mean]
    assert found.own == sum(k == labels[image] for k, image in zip(nearest, owner, strict=True)) / 120
    assert (found.dim, found.chance) == (dim, 1 / 8)


def test_in_two_dimensions_nothing_is_projected_and_every_class_has_its_share_of_the_figure():
    subject = somewhere(2)
    found = EllipsesAnalysis(classes=3, items=2).compute(subject)
    labels, names = world().classes.values, world().classes.names
    own = {"images": labels, "captions": labels[world().caption_image]}
    for side in ("images", "captions"):
        items, shapes = getattr(subject, side), getattr(found, side)
        assert [shape.label for shape in shapes] == [name for name in names[:3] for _ in range(2)]
        assert len({shape.mean for shape in shapes}) == 6
        for shape in shapes:
            row = int((items.mean.double() - torch.tensor(shape.mean)).norm(dim=1).argmin())
            assert names[own[side][row]] == shape.label
            (xx, yy) = items.variance[row].double().tolist()
            assert (*shape.mean, *shape.covariance) == pytest.approx((*items.mean[row].tolist(), xx, 0, yy), abs=1e-7)
    for number, centre in enumerate(found.centres):
        assert centre.name == names[number]
        mean = subject.images.mean[torch.from_numpy(labels == number)].mean(0).tolist()
        assert (centre.x, centre.y) == pytest.approx(tuple(mean), abs=1e-6)


def test_a_caption_that_is_wide_and_in_the_middle_covers_all_and_a_narrow_one_none():
    """The generic caption is the model's; the others are put about it."""
    generic = model(2).encode_captions([GENERIC])
    ring = 1.5 * generic.sigma * torch.nn.functional.normalize(LOOSE.mean, dim=1)
    narrow = Gaussian(generic.mean + ring, torch.full((120, 2), -14.0))
    found = EllipsesAnalysis().compute(planted(random_gaussians(24, 2, seed=1), narrow))
    assert (found.narrower, found.covered, found.covered_by_others) == (1, 1, 0)
    assert found.wider > 100
    wide = Gaussian(generic.mean + 100 * ring, torch.full((120, 2), 5.0))
    found = EllipsesAnalysis().compute(planted(random_gaussians(24, 2, seed=1), wide))
    assert (found.narrower, found.covered, found.covered_by_others) == (0, 0, 1)
    assert found.wider < 0.01


def test_captions_at_the_centre_of_their_class_are_nearest_to_it():
    labels = torch.from_numpy(world().classes.values)
    angle = labels * (2 * math.pi / 8)
    images = Gaussian(torch.stack([angle.cos(), angle.sin()], 1).float(), torch.full((24, 2), -3.0))
    captions = images[world().caption_image.tolist()]
    assert EllipsesAnalysis().compute(planted(images, captions)).own == 1
    turned = Gaussian(-captions.mean, captions.log_sigma)
    assert EllipsesAnalysis().compute(planted(images, turned)).own == 0


def test_both_panels_show_the_same_frame_and_all_that_is_drawn_lies_in_it():
    found = EllipsesAnalysis().compute(somewhere(2))
    left, right = EllipsesAnalysis().draw(found).axes
    assert (left.get_xlim(), left.get_ylim()) == (right.get_xlim(), right.get_ylim())
    low, high = np.transpose([left.get_xlim(), left.get_ylim()])
    for shape, share in [*((s, 0.5) for s in (*found.images, *found.captions)), (found.generic, 0.99)]:
        half = radius(share) * np.sqrt([shape.covariance[0], shape.covariance[2]])
        assert (low < shape.mean - half).all()
        assert (shape.mean + half < high).all()
    assert len(left.patches) == len(found.images) + 1
    assert len(right.patches) == len(found.captions) + 1


def test_it_needs_classes_and_a_plane():
    subject = somewhere(2)
    nameless = replace(subject.embedded, dataset=replace(world(), classes=None))
    assert EllipsesAnalysis().obstacle(Subject.of(subject.model, nameless)) == "needs classes, aviary/test has none"
    line = Subject.of(untrained("dim=1", "caption.hidden=2"), subject.embedded)
    assert EllipsesAnalysis().obstacle(line) == "needs two dimensions, the space has one"

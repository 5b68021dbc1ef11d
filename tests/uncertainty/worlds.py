"""What the tests of confidence share: a part of embedded captions and images, and a confidence."""

import numpy as np
import torch
from scipy.special import expit, log_expit

from pcme import Gaussian, Matches, scores
from pcme.uncertainty import Basis, Confidence, EvaluationSet
from pcme.uncertainty.curve import Curve, Histogram
from pcme.uncertainty.no_match import NoMatchRule
from pcme.uncertainty.risk_coverage import RiskCoverage

SCORE = scores.create("csd_prob", scale=4.0, shift=4.0)
RULE = NoMatchRule(1000, 1.2, (-4.0, -2.0, 0.0, 3.0), (1.0, 3.0, 5.0), 0.1)


def drawn(count, seed, *, true=lambda x: x):
    """Log-odds, and truths that come true with the odds `true` makes of them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 3, count)
    return x, rng.random(count) < expit(true(x))


def histogram(x, truth):
    counted = Histogram()
    counted.add(log_expit(x), truth)
    return counted


def part(captions=60, images=24, *, seed=0, dim=2):
    """Captions near images of a few kinds; a caption matches all images of its kind."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 6, images)
    wanted = kinds[rng.integers(0, images, captions)]
    centres = 1.5 * rng.normal(size=(6, dim))

    def around(which, spread):
        mean = centres[which] + spread * rng.normal(size=(len(which), dim))
        log_sigma = rng.normal(-1.5, 0.3, (len(which), dim))
        return Gaussian(torch.tensor(mean).float(), torch.tensor(log_sigma).float())

    matches = Matches.from_classes(wanted, kinds)
    return EvaluationSet("toy/val", around(wanted, 0.4), around(kinds, 0.4), matches)


def some_confidence(**changes):
    """A small one, made by hand."""
    values = {
        "model": "0" * 64,
        "basis": Basis("toy/val", "isotonic", 60, 24, 0.2),
        "curve": Curve((-4.0, 0.0, 3.0), (-3.0, -1.0, 2.0), 0.8),
        "presence": NoMatchRule(1000, 1.0, (-4.0, -2.0, 0.0), (0.0, 3.0, 5.0), 0.1),
        "by_p": RiskCoverage(tuple(np.linspace(5, -5, 100)), tuple(np.linspace(0, 0.3, 100))),
        "by_sigma": None,
        "captions": (0.1, 0.2, 0.4),
        "images": None,
    }
    return Confidence(**{**values, **changes})

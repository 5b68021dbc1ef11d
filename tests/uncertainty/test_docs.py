"""What docs/science/calibration.md and docs/guide/combine.md show runs."""

import re
from pathlib import Path

import numpy as np
import pytest

from pcme import Gaussian
from pcme.uncertainty import Confidence, fingerprint
from tests.uncertainty.worlds import SCORE, part, some_confidence

DOCS = Path(__file__).parents[2] / "docs"


def example(page):
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    return compile(code, page, "exec")


@pytest.fixture
def sure(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (run := tmp_path / "runs" / "aviary").mkdir(parents=True)
    (run / "weights.safetensors").write_bytes(b"weights")
    some_confidence(model=fingerprint(run)).save(run)
    return Confidence.load(run)


def test_confidence(sure):
    space = {"log_p": np.log([0.9, 0.1]), "items": range(2), "query": part().captions[0]}
    exec(example("science/calibration.md"), space)
    assert space["sure"] == sure
    assert space["p"].shape == (2,)


class Encoder:
    """A model that knows one caption."""

    def encode_captions(self, texts: list[str]) -> Gaussian:
        assert len(texts) == 1
        return part().captions[0]

    def score(self):
        return SCORE


def test_algebra(sure):
    space = {"model": Encoder(), "images": part().images, "sure": sure}
    exec(example("guide/combine.md"), space)
    assert space["log_p"].shape == (24,)
    assert np.all(space["log_p"] < 0)

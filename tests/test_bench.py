import subprocess
import sys

import numpy as np

from bench import evaluation
from bench.measure import peak_memory


def test_the_shape_of_coco_is_judged_by_all_its_readings(monkeypatch):
    monkeypatch.setattr(evaluation, "DIM", 2)
    images, captions, rules = evaluation.coco_shape()
    assert (len(images), len(captions), rules.notes) == (5_000, 25_000, ())
    for truth in (rules.i2t, rules.t2i):
        assert len(truth.folds) == 5
        assert truth.plausible is not None


def test_the_peak_of_a_process_is_its_own():
    """getrusage gives a child the peak of the parent that started it."""
    held = np.ones(1 << 30, np.uint8)
    assert peak_memory() > held.nbytes
    del held
    child = "from bench.measure import peak_memory; print(peak_memory())"
    done = subprocess.run([sys.executable, "-c", child], check=True, capture_output=True, text=True)
    assert 1 << 20 < int(done.stdout) < 1 << 30

"""Every method trains aviary-tiny, and a run that was cut short ends as one that was not."""

import json
import math

import pytest
import torch

from pcme import methods
from pcme.training import train
from tests.training.trained import SHORT, Interrupt, logged, same_run, weights

SETTINGS = [
    *((name, {}) for name in methods.names()),
    ("vse++", {"warmup_steps": 4}),
    ("pvse", {"warmup_steps": 4}),
    ("pvse", {"embeddings": 1}),
    ("pvse", {"embeddings": 4, "negatives": "semi-hard", "warmup_steps": 0}),
    ("pcme++", {"mixing": 0.9}),
    ("hib", {"side": "both"}),
]


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """The networks here are so small that threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def recipe(name, **params):
    return SHORT.changed([f"method={json.dumps({'kind': name, **params})}"])


def test_an_average_of_the_weights_keeps_the_count_of_steps(tmp_path):
    """A count has no mean: the average has that of the last step."""
    averaged = recipe("vse++", warmup_steps=4).changed(["average=0.9"])
    model = train(averaged, tmp_path, workers=0)
    steps = int(model.objective.triplets.steps)
    last = weights(tmp_path / "last")["objective.triplets.steps"]
    assert steps == int(last) == sum("loss" in record for record in logged(tmp_path))


@pytest.mark.parametrize(("name", "params"), SETTINGS, ids=str)
def test_it_trains_and_resumes_to_the_bit(name, params, tmp_path):
    straight, cut = tmp_path / "straight", tmp_path / "cut"
    train(recipe(name, **params), straight, workers=0)
    losses = [record["loss"] for record in logged(straight) if "loss" in record]
    assert len(losses) >= 2
    assert all(map(math.isfinite, losses))
    middle = Interrupt(len(losses) - 1, KeyboardInterrupt)  # which saves the state as it is there
    with pytest.raises(KeyboardInterrupt):
        train(recipe(name, **params), cut, workers=0, reporter=middle)
    train(recipe(name, **params), cut, workers=0, resume=True)
    assert same_run(straight, cut)

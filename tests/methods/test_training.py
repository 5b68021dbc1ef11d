"""Every method trains aviary-tiny, and a run that was cut short ends as one that was not."""

import json
import math

import pytest

from pcme import methods
from pcme.training import train
from tests.training.trained import SHORT, Interrupt, logged, same_run, weights

CAPTIONER = {"caption_hidden": 8, "caption_words": 4}
SETTINGS = [
    *((name, CAPTIONER if name.startswith("vsrn") else {}) for name in methods.names()),
    ("vse++", {"warm_start": 0.0}),
    ("pvse", {"warm_start": 0.0}),
    ("pvse", {"embeddings": 1}),
    ("pvse", {"embeddings": 4, "negatives": "semi-hard", "warm_start": 0.0}),
    ("pcme++", {"mixing": 0.9}),
    ("hib", {"side": "both"}),
    ("vsrn", {"caption_weight": 0.0, "positives": "diagonal"}),
    ("vsrn-aoq", {**CAPTIONER, "offline_from": 0.0, "candidates": 3}),
    ("pcme", {"pooling": "gpo"}),
    ("vse++", {"pooling": "gpo", "mean_attention": False, "mean_norm": False}),
]


def recipe(name, **params):
    return SHORT.changed([f"method={json.dumps({'kind': name, **params})}"])


def test_an_average_of_the_weights_keeps_the_count_of_steps(tmp_path):
    """A count has no mean: the average has that of the last step."""
    averaged = recipe("vse++", warm_start=0.5).changed(["average=0.9"])
    model = train(averaged, tmp_path, workers=0)
    steps = int(model.objective.triplets.steps)
    last = weights(tmp_path / "last")["objective.triplets.steps"]
    assert steps == int(last) == sum("loss" in record for record in logged(tmp_path))


def test_a_warm_start_is_a_share_of_however_short_a_run(tmp_path):
    train(recipe("vse++", warm_start=0.5), tmp_path, workers=0)
    hardest = [record["hardest"] for record in logged(tmp_path) if "hardest" in record]
    half = round(len(hardest) / 2)
    # what is logged with a step is what the next will do
    assert hardest == [0.0] * (half - 1) + [1.0] * (len(hardest) - half + 1)


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

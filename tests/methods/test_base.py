"""What methods have in common: the bounds of log σ."""

import json

import pytest

from pcme import methods
from pcme.errors import ConfigError
from tests.models import build


@pytest.mark.parametrize("kind", ["pcme", "pcme-overlap", "pcme++", "hib"])
@pytest.mark.parametrize(("given", "bounds"), [([-9, 1], (-9.0, 1.0)), ("none", None), ([-8.0, 2.0], (-8.0, 2.0))])
def test_the_bounds_of_log_sigma_reach_the_heads_from_json(kind, given, bounds):
    method = methods.create(kind, log_sigma_bounds=json.loads(json.dumps(given)))
    assert method.heads(4).bounds == bounds
    assert (method == methods.create(kind)) == (given == [-8.0, 2.0])
    assert isinstance(hash(method), int)


@pytest.mark.parametrize(
    "wrong", [[2, -8], [-8, -8], [-8], [-8, 0, 2], "free", None, -8, ["low", 2], [float("nan"), 2], [-8, float("inf")]]
)
def test_bounds_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ConfigError, match=r'^log_sigma_bounds: must be two rising numbers, or "none", got '):
        methods.create("pcme", log_sigma_bounds=wrong)


def test_a_start_outside_of_the_bounds_is_refused():
    with pytest.raises(ConfigError, match=r"^log_sigma: must be within \(-3.0, 2.0\), got -3.5"):
        methods.create("pcme", log_sigma_bounds=[-3, 2]).heads(4)


@pytest.mark.parametrize(("bounds", "expected"), [("none", None), ("[-9,1]", (-9.0, 1.0))])
def test_the_bounds_are_set_on_the_command_line(bounds, expected):
    model = build("aviary-tiny", 'method={"kind":"pcme"}', f"method.log_sigma_bounds={bounds}")
    assert {side.heads.sigma.bounds for side in (model.images, model.captions)} == {expected}

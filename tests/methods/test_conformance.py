"""What every method must do, for every name in the registry: a new method is tested by existing."""

import dataclasses
import inspect
import json

import pytest
import torch

from pcme import methods
from pcme.errors import ShapeError
from pcme.methods.base import Method, SigmoidObjective
from pcme.nn.heads import HeadOptions
from pcme.scores.base import Score
from tests.helpers import generator
from tests.methods.batches import ALL, MATCHES, NONE, embedded, points, tensors


def has_pair_probability(name):
    return isinstance(methods.create(name).objective(), SigmoidObjective)


every_method = pytest.mark.parametrize("name", methods.names())


def batch(method):
    """Random embeddings of images and of captions."""
    return embedded(method, 1), embedded(method, 2)


@every_method
def test_its_first_line_says_what_it_is(name):
    cls = methods.registry.get(name)
    assert cls.__doc__ != inspect.getdoc(Method)
    assert len(methods.registry.summary(name)) > 10


def test_the_heads_are_the_papers():
    assert methods.create("pcme").heads(8) == HeadOptions(8)
    assert methods.create("infonce").heads(8) == HeadOptions(8, covariance="none")


@every_method
def test_its_fields_rebuild_it(name):
    method = methods.create(name)
    fields = json.loads(json.dumps(dataclasses.asdict(method)))
    assert methods.create(name, **fields) == method


@every_method
def test_whole_numbers_do_for_its_settings(name):
    """`--set method.scale=20` is JSON's 20, not 20.0."""
    fields = dataclasses.asdict(methods.create(name))
    whole = {k: int(v) for k, v in fields.items() if isinstance(v, float) and v == int(v) and v != 0}
    method = methods.create(name, **whole)
    assert bool(method.objective()(*batch(method), MATCHES, generator()).total.isfinite())


@pytest.mark.parametrize("matches", [NONE, ALL, MATCHES], ids=["none", "all", "some"])
@every_method
def test_any_truth_gives_a_finite_loss_and_finite_gradients(name, matches):
    """The objective's own parameters learn."""
    method = methods.create(name)
    objective, items = method.objective().double(), batch(method)
    leaves = [t.requires_grad_() for side in items for t in tensors(side)]
    total = objective(*items, matches, generator()).total
    total.backward()
    assert bool(total.isfinite())
    assert all(bool(t.grad.isfinite().all()) for t in leaves if t.grad is not None)
    assert all(bool(p.grad.isfinite().all()) for p in objective.parameters())


@every_method
def test_gradients_are_those_of_finite_differences(name):
    method = methods.create(name)
    objective = method.objective().double().eval()
    items = batch(method)
    leaves = [t.requires_grad_() for side in items for t in tensors(side)]

    def total(*given):
        mine = iter(given)
        sides = [type(side)(*(next(mine) for _ in tensors(side))) for side in items]
        return objective(*sides, MATCHES, generator()).total

    # `breadth` takes the other terms' probabilities as given; finite differences do not
    if "breadth_weight" in dataclasses.asdict(method):
        objective.method = dataclasses.replace(method, breadth_weight=0.0)
    assert torch.autograd.gradcheck(total, tuple(leaves), eps=1e-6, atol=1e-4)


@every_method
def test_its_score_compares_what_its_heads_give_and_prefers_a_copy(name):
    """What is trained as alike is scored as alike."""
    method = methods.create(name)
    score, items = method.objective().score(), embedded(method, 1)
    assert isinstance(score, Score)
    assert score(items, items).argmax(1).tolist() == list(range(5))
    assert bool(score(*batch(method)).isfinite().all())


@pytest.mark.parametrize("name", [n for n in methods.names() if has_pair_probability(n)])
def test_the_score_is_the_probability_that_was_trained(name):
    """exp(−nll of a match) = score().probability with the learned a and b, up to sampling."""
    method = methods.create(name)
    if "samples" in dataclasses.asdict(method):
        method = dataclasses.replace(method, samples=600)
    objective = method.objective().double()
    with torch.no_grad():
        objective.scale.fill_(3.0)
        objective.shift.fill_(2.0)
    items = batch(method)
    yes, no = (objective.pair_nll(*items, matches, generator()) for matches in (ALL, NONE))
    p = objective.score().probability(*items)
    drawn = getattr(method, "likelihood", "sampled") == "sampled" and name != "pcme++"
    torch.testing.assert_close((-yes).exp(), p, rtol=0, atol=0.01 if drawn else 1e-6)
    torch.testing.assert_close((-no).exp(), 1 - (-yes).exp())


@every_method
def test_a_term_of_weight_0_is_not_computed(name):
    """Whatever it were, 0 · inf included; and the rest is as it was."""
    method = methods.create(name)
    weights = [key for key in dataclasses.asdict(method) if key.endswith("_weight")]
    none = dataclasses.replace(method, **dict.fromkeys(weights, 0.0))
    items = batch(method)
    terms = none.objective().double()(*items, MATCHES, generator())
    assert all(terms.weights.get(name, 1) for name in terms.values)
    full = method.objective().double()(*items, MATCHES, generator())
    assert not weights or [terms.total] == [*terms.values.values()]
    assert all(value == full.values[name] for name, value in terms.values.items())


@pytest.mark.parametrize("name", ["hib", "pcme-overlap", "pcme++"])
def test_points_are_refused_where_sigma_is_needed(name):
    with pytest.raises(ShapeError, match="Gaussians"):
        methods.create(name).objective()(points(), points(), MATCHES, generator())


@every_method
def test_its_state_goes_on_where_it_was(name):
    """Two steps and a copy of the state give the third step of three, to the bit."""
    method = methods.create(name)
    straight, resumed = method.objective().double(), method.objective().double()
    items = batch(method)
    for step in range(2):
        straight(*items, MATCHES, generator(step))
    resumed.load_state_dict(straight.state_dict())
    assert straight.report() == resumed.report()
    assert all(isinstance(value, float) or value.ndim == 0 for value in resumed.report().values())
    left, right = (o(*items, MATCHES, generator(2)).total for o in (straight, resumed))
    assert torch.equal(left, right)


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("pcme", {"scale": 0.5, "samples": 1, "kl_weight": 0}),
        ("hib", {"scale": 0.5, "samples": 1}),
        ("pcme++", {"scale": 0.5, "smoothing": 0, "mixing": 0, "mixing_alpha": 0.5}),
        ("pcme++", {"mixing": 1, "smoothing": 0.49}),
        ("pvse", {"embeddings": 1, "margin": 0.5, "warm_start": 0}),
        ("vse++", {"margin": 0.01, "warm_start": 0.99}),
    ],
)
def test_parameters_at_their_limits_are_taken(kind, params):
    method = methods.create(kind, **params)
    method.objective()
    assert params.items() <= dataclasses.asdict(method).items()

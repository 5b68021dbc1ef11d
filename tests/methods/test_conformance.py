"""What every method must do, for every name in the registry: a new method is tested by existing."""

import dataclasses
import inspect
import json

import pytest
import torch

from pcme import methods
from pcme.methods.base import Method, SigmoidObjective
from pcme.scores.base import Score
from tests.methods.batches import ALL, MATCHES, NONE, embedded, generator, tensors


def has_pair_probability(name):
    return isinstance(methods.create(name).objective(), SigmoidObjective)


every_method = pytest.mark.parametrize("name", methods.names())


def loss(method, matches, leaves=False, seeds=(1, 2)):
    """(terms, everything that may have a gradient) of random embeddings."""
    objective = method.objective().double()
    items = [embedded(method, seed) for seed in seeds]
    given = [t.requires_grad_(leaves) for side in items for t in tensors(side)]
    return objective(*items, matches, generator()), [*given, *objective.parameters()]


def test_the_promised_methods_exist():
    assert {"vse0", "vse++", "pvse", "infonce", "pcme", "pcme++", "hib"} <= set(methods.names())


@every_method
def test_its_first_line_says_what_it_is(name):
    cls = methods.registry.get(name)
    assert cls.__doc__ != inspect.getdoc(Method)
    assert len(methods.registry.summary(name)) > 10


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
    terms = method.objective()(embedded(method, 1), embedded(method, 2), MATCHES, generator())
    assert bool(terms.total.isfinite())


@pytest.mark.parametrize("matches", [NONE, ALL, MATCHES], ids=["none", "all", "some"])
@every_method
def test_any_truth_gives_a_finite_loss_and_finite_gradients(name, matches):
    terms, given = loss(methods.create(name), matches, leaves=True)
    terms.total.backward()
    assert bool(terms.total.isfinite())
    assert all(bool(t.grad.isfinite().all()) for t in given if t.grad is not None)


@every_method
def test_gradients_are_those_of_finite_differences(name):
    method = methods.create(name)
    objective = method.objective().double().eval()
    items = [embedded(method, seed) for seed in (1, 2)]
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
def test_its_own_parameters_learn(name):
    terms, given = loss(methods.create(name), MATCHES, leaves=True)
    terms.total.backward()
    own = list(methods.create(name).objective().parameters())
    assert all(p.grad is not None for p in given[len(given) - len(own) :])


@every_method
def test_its_score_compares_what_its_heads_give(name):
    method = methods.create(name)
    score = method.objective().score()
    assert isinstance(score, Score)
    found = score(embedded(method, 1), embedded(method, 2))
    assert found.shape == (5, 5)
    assert bool(found.isfinite().all())


@every_method
def test_its_score_prefers_a_copy(name):
    """What is trained as alike is scored as alike."""
    method = methods.create(name)
    items = embedded(method, 1)
    found = method.objective().score()(items, items)
    assert found.argmax(1).tolist() == list(range(5))


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
    items = embedded(method, 1), embedded(method, 2)
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
    items = embedded(method, 1), embedded(method, 2)
    terms = none.objective().double()(*items, MATCHES, generator())
    assert all(terms.weights.get(name, 1) for name in terms.values)
    full = method.objective().double()(*items, MATCHES, generator())
    assert not weights or [terms.total] == [*terms.values.values()]
    assert all(value == full.values[name] for name, value in terms.values.items())


@every_method
def test_what_it_reports_is_a_number(name):
    report = methods.create(name).objective().report()
    assert all(isinstance(value, float) for value in report.values())


@every_method
def test_its_state_goes_on_where_it_was(name):
    """Two steps and a copy of the state give the third step of three, to the bit."""
    method = methods.create(name)
    straight, resumed = method.objective().double(), method.objective().double()
    items = embedded(method, 1), embedded(method, 2)
    for step in range(2):
        straight(*items, MATCHES, generator(step))
    resumed.load_state_dict(straight.state_dict())
    left, right = (o(*items, MATCHES, generator(2)).total for o in (straight, resumed))
    assert torch.equal(left, right)

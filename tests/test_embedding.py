"""Gaussian and Points: shapes, sampling statistics, gradients, indexing, and files that survive."""

import json
import math
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
import safetensors.torch
import torch

from pcme import Gaussian, PcmeError, Points, embedding
from pcme.errors import DataError, FormatError, ShapeError
from tests.helpers import random_gaussians, unless_annotations_are_enforced

STANDARD_ERRORS = 5  # a seeded test; two-sided, this fails by chance once in 1.7 million


def isotropic(n, dim, *, seed, dtype=torch.float32):
    items = random_gaussians(n, dim, seed=seed, dtype=dtype)
    return Gaussian(items.mean, items.log_sigma[:, :1])


def points(n, k, dim, *, seed, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return Points(torch.randn(n, k, dim, generator=generator, dtype=dtype))


def same(a, b):
    """Equal to the bit, in type and shape."""
    parts = [(getattr(a, part), getattr(b, part)) for part in a.STORED]
    return type(a) is type(b) and all(p.dtype == q.dtype and torch.equal(p, q) for p, q in parts)


def test_both_kinds_know_their_size_type_and_points():
    items, vectors = isotropic(3, 4, seed=0, dtype=torch.float64), points(3, 2, 4, seed=1)
    assert torch.equal(items.points(), items.mean[:, None])
    assert vectors.points() is vectors.x
    for one, part, dtype in ((items, "mean", torch.float64), (vectors, "x", torch.float32)):
        assert (len(one), one.dtype, one.device, one.dim) == (3, dtype, torch.device("cpu"), 4)
        assert one.to(torch.float16).dtype == one.to(dtype=torch.float16).dtype == torch.float16
        with pytest.raises(FrozenInstanceError):
            setattr(one, part, None)
    assert items.to(torch.float16).log_sigma.dtype == torch.float16


@pytest.mark.parametrize("items", [isotropic(9000, 3, seed=0), random_gaussians(9000, 3, seed=0)])
def test_spread_variance_volume_and_uncertainty(items):
    log_sigma = items.log_sigma.double().expand(-1, 3)
    torch.testing.assert_close(items.sigma.double(), log_sigma.exp())
    torch.testing.assert_close(items.variance.double(), (2 * log_sigma).exp())
    torch.testing.assert_close(items.log_volume(), log_sigma.sum(1), rtol=1e-12, atol=0)
    torch.testing.assert_close(items.uncertainty().double(), log_sigma.exp().prod(1) ** (1 / 3))
    torch.testing.assert_close(items.mean_log_sigma(), items.uncertainty().log())
    assert points(3, 2, 4, seed=1).uncertainty() is None


MISFITS = [
    (Gaussian, (torch.zeros(3), torch.zeros(3)), r"\[3\]"),
    (Gaussian, (torch.zeros(2, 3, 4), torch.zeros(2, 3, 4)), r"\[2, 3, 4\]"),
    (Gaussian, (torch.zeros(2, 0), torch.zeros(2, 0)), r"\[2, 0\]"),
    (Gaussian, (torch.zeros(2, 3), torch.zeros(2, 4)), r"\[2, 4\]"),
    (Gaussian, (torch.zeros(2, 3), torch.zeros(3)), r"\[3\]"),
    (Gaussian, (torch.zeros(2, 3), torch.zeros(1, 3)), r"\[1, 3\]"),
    (Gaussian, (torch.zeros(2, 3), torch.zeros(1, 1)), r"\[1, 1\]"),
    (Gaussian, (torch.zeros(2, 3), torch.zeros(2, 3).double()), "float64"),
    (Gaussian, (torch.zeros(2, 3).long(), torch.zeros(2, 3)), "mean.*int64"),
    (Gaussian, (torch.zeros(2, 3), torch.zeros(2, 3).bool()), "log_sigma.*bool"),
    (Gaussian, (np.zeros((2, 3)), torch.zeros(2, 3)), "mean.*ndarray"),
    (Points, (torch.zeros(2, 3),), r"\[2, 3\]"),
    (Points, (torch.zeros(2, 0, 3),), r"\[2, 0, 3\]"),
    (Points, (torch.zeros(2, 3, 0),), r"\[2, 3, 0\]"),
    (Points, (torch.zeros(2, 3, 4).int(),), "int32"),
    (Points, ([[[0.0]]],), "list"),
    (Gaussian.cat, ([],), "none"),
    (Points.cat, ([],), "none"),
    (Gaussian.cat, ([isotropic(2, 3, seed=0), isotropic(2, 4, seed=0)],), r"\[3, 4\]"),
    (Points.cat, ([points(2, 1, 3, seed=0), points(2, 1, 5, seed=0)],), r"\[3, 5\]"),
]


@unless_annotations_are_enforced
@pytest.mark.parametrize(("build", "parts", "given"), MISFITS)
def test_what_does_not_fit_is_refused(build, parts, given):
    with pytest.raises(ShapeError, match=given):
        build(*parts)


def test_samples_have_the_stated_mean_and_variance():
    items = random_gaussians(3, 4, seed=0, log_sigma=-0.5, spread=1.0, dtype=torch.float64)
    draws = 100_000
    x = items.sample(draws, torch.Generator().manual_seed(0)).x
    variance = (2 * items.log_sigma).exp()
    mean_error = (variance / draws).sqrt()
    assert x.shape == (3, draws, 4)
    assert ((x.mean(1) - items.mean).abs() < STANDARD_ERRORS * mean_error).all()
    variance_error = variance * math.sqrt(2 / (draws - 1))
    assert ((x.var(1) - variance).abs() < STANDARD_ERRORS * variance_error).all()


def test_samples_are_independent_across_items_draws_and_dimensions():
    items = Gaussian(torch.zeros(2, 2), torch.zeros(2, 1))
    draws = 20_000
    x = items.sample(draws, torch.Generator().manual_seed(1)).x.permute(0, 2, 1).reshape(4, -1)
    streams = torch.cat((x[:, 1:], x[:, :-1]))  # each item and dimension, and itself one draw later
    correlation = torch.corrcoef(streams) - torch.eye(8)
    assert correlation.abs().max() < STANDARD_ERRORS / math.sqrt(draws)


def test_samples_come_from_a_generator_or_the_global_stream():
    """And isotropic ones are those of equal σs."""
    items = isotropic(4, 3, seed=0)
    all_equal = Gaussian(items.mean, items.log_sigma.expand(-1, 3).contiguous())
    first, again, other, equal = (
        each.sample(5, torch.Generator().manual_seed(seed)).x
        for each, seed in ((items, 1), (items, 1), (items, 2), (all_equal, 1))
    )
    assert torch.equal(first, again)
    assert torch.equal(first, equal)
    assert not torch.equal(first, other)
    state = torch.random.get_rng_state()
    first = items.sample(5).x
    torch.random.set_rng_state(state)
    assert torch.equal(items.sample(5).x, first)
    for n in (0, -1):
        with pytest.raises(PcmeError, match=str(n)):
            items.sample(n)


@pytest.mark.parametrize("make", [random_gaussians, isotropic])
def test_gradients_reach_mean_and_log_sigma_through_the_samples(make):
    items = make(3, 4, seed=0, dtype=torch.float64)
    mean, log_sigma = items.mean.requires_grad_(), items.log_sigma.requires_grad_()
    x = Gaussian(mean, log_sigma).sample(5, torch.Generator().manual_seed(0)).x
    weight = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype)
    (x * weight).sum().backward()
    # x = μ + σ ε, so ∂x/∂μ = 1 and ∂x/∂log σ = σ ε = x - μ
    slope = (weight * (x - mean[:, None])).detach().sum(1)
    assert torch.allclose(mean.grad, weight.sum(1))
    assert torch.allclose(log_sigma.grad, slope.sum(1, keepdim=True) if slope.shape != log_sigma.shape else slope)


ROWS = [
    (2, [2]),
    (-1, [4]),
    (slice(1, 4), [1, 2, 3]),
    (slice(None, None, 2), [0, 2, 4]),
    ([3, 0, 3], [3, 0, 3]),
    ([], []),
    ((0, 1), [0, 1]),
    (range(2), [0, 1]),
    (torch.tensor(3), [3]),
    (torch.tensor([4, 1]), [4, 1]),
    (torch.tensor([True, False, False, True, False]), [0, 3]),
]


@pytest.mark.parametrize(("rows", "expected"), ROWS, ids=[repr(rows) for rows, _ in ROWS])
def test_rows_are_chosen_and_the_leading_axis_stays(rows, expected):
    diagonal, one, several = (random_gaussians(5, 3, seed=0), isotropic(5, 3, seed=1), points(5, 2, 3, seed=2))
    assert same(diagonal[rows], Gaussian(diagonal.mean[expected], diagonal.log_sigma[expected]))
    assert same(one[rows], Gaussian(one.mean[expected], one.log_sigma[expected]))
    assert same(several[rows], Points(several.x[expected]))


def test_cat_keeps_the_order_of_items_walked_one_by_one():
    for items in (isotropic(3, 2, seed=0), points(3, 2, 2, seed=0)):
        assert same(type(items).cat(list(items)), items)
        with pytest.raises(IndexError):
            items[3]
    a, b = random_gaussians(2, 3, seed=0), random_gaussians(4, 3, seed=1)
    joined = Gaussian.cat([a, b])
    assert same(joined[:2], a)
    assert same(joined[2:], b)
    one = isotropic(2, 3, seed=0)
    assert Gaussian.cat([one, one]).log_sigma.shape == (4, 1)
    assert torch.equal(Gaussian.cat([a, one]).log_sigma[2:], one.log_sigma.expand(-1, 3))
    x, y = points(2, 5, 3, seed=0), points(1, 5, 3, seed=1)
    assert same(Points.cat([x, y])[:2], x)
    assert same(Points.cat([x, y])[2], y)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("part", ["mean", "log_sigma"])
def test_non_finite_values_are_named_by_part_and_item(part, bad):
    items = random_gaussians(6, 3, seed=0)
    getattr(items, part)[4, 1] = bad
    getattr(items, part)[2, 0] = bad
    with pytest.raises(DataError, match=rf"captions\.{part}.* 2 of 6 items, first item 2\b"):
        items.require_finite("captions")
    vectors = points(4, 2, 3, seed=0)
    vectors.require_finite("gallery")
    vectors.x[3, 1, 2] = bad
    with pytest.raises(DataError, match=r"gallery\.x.* 1 of 4 items, first item 3\b"):
        vectors.require_finite("gallery")
    Gaussian(torch.full((2, 3), 3e38), torch.zeros(2, 1)).require_finite("images")  # though their sum is not


def embeddings():
    for dtype in (torch.float32, torch.float64):
        name = str(dtype).removeprefix("torch.")
        yield pytest.param(random_gaussians(5, 3, seed=0, dtype=dtype), id=f"diagonal-{name}")
        yield pytest.param(isotropic(5, 3, seed=1, dtype=dtype), id=f"isotropic-{name}")
        yield pytest.param(points(5, 2, 3, seed=2, dtype=dtype), id=f"points-{name}")
    stacked = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(3))
    yield pytest.param(Gaussian(stacked[0], stacked[1]), id="parts of one tensor")
    yield pytest.param(Gaussian(*stacked.transpose(0, 2).unbind(2)), id="strided")
    yield pytest.param(random_gaussians(50, 3, seed=0)[10:12], id="a slice")
    yield pytest.param(Gaussian(stacked[0], stacked[0]), id="one tensor twice")
    yield pytest.param(random_gaussians(5, 3, seed=0)[[]], id="no items")


@pytest.mark.parametrize("items", list(embeddings()))
def test_what_is_saved_is_loaded_bit_for_bit(tmp_path, items):
    path = tmp_path / "items.safetensors"
    items.save(path)
    assert same(type(items).load(path), items)
    assert same(type(items).load(str(path)), items)
    assert [file.name for file in tmp_path.iterdir()] == ["items.safetensors"]


def test_special_values_survive_and_history_does_not(tmp_path):
    values = torch.tensor([[math.nan, math.inf, -0.0, 1e-45]], requires_grad=True)
    items = Gaussian(values, values.clone())
    items.save(tmp_path / "items")
    loaded = Gaussian.load(tmp_path / "items").mean
    assert torch.equal(loaded.view(torch.int32), values.detach().view(torch.int32))
    assert not loaded.requires_grad
    assert not items.detach().mean.requires_grad
    assert not items.detach().log_sigma.requires_grad


def test_the_file_is_safetensors_and_says_what_it_is(tmp_path):
    isotropic(2, 3, seed=0).save(tmp_path / "items")
    content = (tmp_path / "items").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert header["__metadata__"]["kind"] == "gaussian"
    assert header["__metadata__"]["format_version"]
    assert header["log_sigma"]["shape"] == [2, 1]
    with pytest.raises(FormatError, match=r"items.*points.*log_sigma"):
        Points.load(tmp_path / "items")


def test_a_save_that_fails_halfway_leaves_the_old_file(tmp_path, monkeypatch):
    old, path = isotropic(2, 3, seed=0), tmp_path / "items"
    old.save(path)

    def disk_full(tensors, filename, **_):
        with open(filename, "wb") as file:
            file.write(b"half")
        assert same(Gaussian.load(path), old)  # what readers see meanwhile
        raise OSError("no space left on device")

    monkeypatch.setattr(embedding, "save_file", disk_full)
    with pytest.raises((OSError, PcmeError), match="no space left"):
        random_gaussians(7, 4, seed=1).save(path)
    assert same(Gaussian.load(path), old)
    assert [file.name for file in tmp_path.iterdir()] == ["items"]


def test_a_save_that_cannot_be_put_in_place_leaves_nothing_behind(tmp_path):
    target = tmp_path / "items"
    target.mkdir()
    with pytest.raises((OSError, PcmeError)):
        isotropic(2, 3, seed=0).save(target)
    assert list(tmp_path.iterdir()) == [target]
    with pytest.raises(PcmeError, match="nowhere"):
        isotropic(2, 3, seed=0).save(tmp_path / "nowhere" / "items")


def damaged(change):
    """Write a Gaussian, and change its bytes."""

    def write(path):
        random_gaussians(20, 3, seed=0).save(path)
        path.write_bytes(change(path.read_bytes()))

    return write


def foreign(*names, **metadata):
    """Write tensors of these names."""
    tensors = {name: torch.zeros(2, 3) for name in names}
    return lambda path: safetensors.torch.save_file(tensors, path, metadata=metadata or None)


OURS = {"format": "pcme", "kind": "gaussian", "format_version": "1"}
FOREIGN = {
    "missing": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("a small red bird " * 10),
    "torn": damaged(lambda content: content[:-7]),
    "cut in the header": damaged(lambda content: content[:30]),
    "lengthened": damaged(lambda content: content + b"more"),
    "points": lambda path: points(2, 1, 3, seed=0).save(path),
    "not ours": foreign("mean", "log_sigma"),
    "without a part": foreign("mean", **OURS),
    "of the future": foreign("mean", "log_sigma", **{**OURS, "format_version": "999"}),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_that_is_not_a_gaussian_is_refused(tmp_path, name):
    path = tmp_path / "items.safetensors"
    FOREIGN[name](path)
    with pytest.raises(FormatError, match=r"items\.safetensors"):
        Gaussian.load(path)


@unless_annotations_are_enforced
def test_a_file_whose_parts_do_not_fit_is_refused(tmp_path):
    parts = {"mean": torch.zeros(2, 3), "log_sigma": torch.zeros(5, 3)}
    safetensors.torch.save_file(parts, tmp_path / "items", metadata=OURS)
    with pytest.raises(PcmeError, match=r"\[5, 3\]"):
        Gaussian.load(tmp_path / "items")


class Bomb:
    """Creates a file when unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("write", [torch.save, lambda bomb, path: path.write_bytes(pickle.dumps(bomb))])
def test_a_pickle_is_refused_and_never_run(tmp_path, write):
    path = tmp_path / "items"
    write(Bomb(tmp_path / "harm"), path)
    with pytest.raises(FormatError):
        Gaussian.load(path)
    assert not (tmp_path / "harm").exists()

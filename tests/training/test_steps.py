"""A training step without an accelerator, on the meta device: see `tests.one_device`."""

import pytest
import torch

from pcme import methods
from pcme.data.loading.batches import Loader
from pcme.kernels.devices import torch_only
from pcme.nn import images as image_networks
from pcme.nn.backbone import Build
from pcme.training.optim import AdamP
from pcme.training.phases import trained_groups
from pcme.training.prepare import loader, prepare_run
from pcme.training.runs import Reporter
from pcme.training.steps import apply_gradients, gradients_of, train_step
from tests.helpers import generator
from tests.models import SHORT
from tests.one_device import OneDevice


def begun(folder, *changes, average=None):
    """A run at its first step, its batch, and its optimiser."""
    settings = ["phases.0.backbone=all", *changes, *([f"average={average}"] if average else [])]
    run = prepare_run(SHORT.changed(settings), folder, None, workers=0, strict=False, reporter=Reporter())
    batch = next(iter(loader(run).epoch(0)))
    return run, batch


def optimiser_of(run):
    return AdamP(trained_groups(run.model, run.probe, run.phase, words=True), lr=1e-3)


@pytest.mark.parametrize("name", methods.names())
def test_a_step_stays_on_its_device_and_waits_for_nothing(tmp_path, name):
    run, batch = begun(tmp_path, f"method.kind={name}")
    for part in (run.model, run.model.objective):
        part.to("meta")
    optimiser = optimiser_of(run)
    with OneDevice() as device:
        values, norm = gradients_of(run, batch, optimiser)
        apply_gradients(run, optimiser, 1e-3)
    assert values.loss.is_meta
    assert norm.is_meta
    assert device.operations > 500


def test_a_step_that_names_labels_does_too(tmp_path):
    run, batch = begun(tmp_path, "phases.0.task=labels")
    run.model.to("meta")
    run.probe.to("meta")
    optimiser = optimiser_of(run)
    with OneDevice():
        gradients_of(run, batch, optimiser)
        apply_gradients(run, optimiser, 1e-3)


@pytest.mark.parametrize("name", methods.names())
def test_a_step_on_other_devices_gives_the_same_numbers(tmp_path, name):
    logged = []
    for number, path in enumerate((None, torch_only)):
        run, batch = begun(tmp_path / str(number), f"method.kind={name}")
        if path is None:
            logged.append(train_step(run, batch, optimiser_of(run), 1.0))
        else:
            with path():
                logged.append(train_step(run, batch, optimiser_of(run), 1.0))
    assert logged[1] == pytest.approx(logged[0], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("kind", ["convnet", "efficientnet-lite", "resnet"])
def test_an_image_backbone_stays_on_its_device(kind):
    network = image_networks.create(kind).without_weights().build(Build(generator())).to("meta")
    with OneDevice():
        assert network(torch.empty(2, 3, 64, 64, device="meta")).is_meta


def test_the_mode_notices_two_devices_and_what_waits():
    x = torch.ones(3, device="meta")
    for wrong in (lambda: x + torch.ones(3), lambda: x.nonzero(), lambda: x[x > 0], lambda: bool(x.sum())):
        with pytest.raises((AssertionError, RuntimeError, NotImplementedError)), OneDevice():
            wrong()


def test_batches_for_a_gpu_lie_in_pinned_memory(tmp_path, monkeypatch):
    run, _ = begun(tmp_path)
    pinned = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: (pinned.append(tuple(tensor.shape)), tensor)[1])
    part = Loader(run.train_set, run.sampler, run.model.tokeniser, run.model.transform, seed=0, workers=0, pinned=True)
    batch = next(iter(part.epoch(0)))
    assert pinned == [tuple(each.shape) for each in (batch.tokens.ids, batch.images, batch.matches)]

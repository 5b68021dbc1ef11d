import os

import pytest
import torch

from pcme.errors import ConfigError
from pcme.kernels import devices


@pytest.fixture
def machine(monkeypatch):
    """A machine with these accelerators."""

    def pretend(cuda=0, mps=False):
        monkeypatch.delenv(devices.VARIABLE, raising=False)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)

    return pretend


@pytest.mark.parametrize(
    ("cuda", "mps", "auto"), [(0, False, "cpu"), (0, True, "mps"), (2, False, "cuda:0"), (1, True, "cuda:0")]
)
def test_auto_takes_an_accelerator(machine, cuda, mps, auto):
    machine(cuda, mps)
    assert str(devices.choose("auto")) == auto


def test_a_device_is_chosen_by_name(machine):
    machine(cuda=2)
    assert [str(devices.choose(name)) for name in ("cpu", "cuda", "cuda:1")] == ["cpu", "cuda", "cuda:1"]
    assert devices.choose(torch.device("cuda:1")) == torch.device("cuda:1")


@pytest.mark.parametrize("name", ["cuda", "cuda:2", "mps", "tpu", "", "cpu:3"])
def test_a_device_that_is_not_there_is_refused(machine, name):
    machine(cuda=0)
    with pytest.raises(ConfigError, match="device: must be auto or one of cpu, got"):
        devices.choose(name)


def test_auto_is_what_a_block_prefers_also_in_new_processes(machine):
    machine(cuda=2)
    with devices.preferred("cuda:1"):
        assert devices.choose() == torch.device("cuda:1")
        with devices.preferred("cpu"):
            assert os.environ[devices.VARIABLE] == str(devices.choose()) == "cpu"
        assert devices.choose() == torch.device("cuda:1")
    assert devices.VARIABLE not in os.environ


def test_compiled_loops_serve_the_cpu_alone():
    cpu = torch.device("cpu")
    assert devices.uses_compiled(cpu)
    assert not devices.uses_compiled(torch.device("meta"))
    with devices.torch_only():
        assert not devices.uses_compiled(cpu)
    assert devices.uses_compiled(cpu)


def test_a_mac_has_no_double_precision():
    assert devices.widest(torch.device("mps")) == torch.float32
    assert devices.widest(torch.device("cuda")) == torch.float64

import inspect

import pytest

from pcme.cli import COMPUTING
from pcme.kernels import devices
from tests.helpers import printed, record, refused


@pytest.mark.parametrize("verb", sorted(COMPUTING, key=lambda verb: verb.__name__))
def test_every_verb_that_computes_takes_a_device(verb):
    assert "--device" in printed(verb.__name__, "--help", width=200)
    assert "device" not in inspect.signature(verb).parameters


@pytest.mark.parametrize("words", [["evaluate", "nowhere"], ["train", "aviary-tiny", "--out", "x"]])
def test_a_device_that_is_not_there_is_refused_first(words):
    message = refused(*words, "--device", "cuda:7")
    assert "device: must be auto or one of cpu, got cuda:7" in message


def test_a_verb_computes_on_its_device(monkeypatch, sigma_run):
    seen = []
    monkeypatch.setattr(
        devices, "available", lambda: (seen.append(devices.os.environ.get(devices.VARIABLE)), ("cpu",))[1]
    )
    printed("evaluate", sigma_run, "--device", "cpu")
    assert seen[-1] == "cpu"
    assert devices.VARIABLE not in devices.os.environ


def test_the_doctor_reports_the_machine_and_compares_its_devices():
    known = record("doctor")
    assert known["devices"].keys() == {"cpu"}
    assert known["versions"]["torch"]
    assert known["differing"] == []
    assert all(check["difference"] < 1e-5 for check in known["parity"]["cpu"].values())


def test_the_doctor_says_which_numbers_differ(monkeypatch):
    monkeypatch.setattr("pcme.evaluation.parity.TOLERANCE", -1.0)
    assert "other numbers than the CPU's: score average_l2 on cpu" in refused("doctor")


def test_the_doctor_prints_tables_without_parity(tmp_path, monkeypatch):
    monkeypatch.setenv("PCME_CACHE", str(tmp_path / "cache"))
    text = printed("doctor", "--no-parity")
    assert "threads of torch (auto)" in text
    assert "empty" in text

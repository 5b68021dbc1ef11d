"""pcme analyze and pcme list analyses, as people and programs call them."""

import json
import math

import pytest
from typer.testing import CliRunner

from pcme import analysis
from pcme.analysis.bins import SigmaBins
from pcme.cli import app
from tests.analysis.subjects import MEANS_ONLY, WORLD, untrained


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    untrained(_data()).save(folder)
    return folder


@pytest.fixture(scope="module")
def means_only(tmp_path_factory):
    folder = tmp_path_factory.mktemp("means")
    untrained(_data(), MEANS_ONLY).save(folder)
    return folder


def _data():
    return f"data={json.dumps({'kind': 'aviary', **WORLD})}"


def run(*args):
    plain = CliRunner(env={"FORCE_COLOR": None, "TTY_COMPATIBLE": None, "COLUMNS": "100"})
    return plain.invoke(app, ["analyze", *map(str, args)])


def test_one_analysis_prints_its_numbers_and_writes_three_files(run_folder, tmp_path):
    done = run(run_folder, "bins", "--set", "bins=4", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    assert "95 % interval" in done.stdout
    assert "R-Precision, captions → images, over bins" in done.stdout
    assert f"wrote {tmp_path / 'out'}: bins" in "".join(done.stdout.splitlines())
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "bins.json", "bins.svg", "bins.png",
    }  # fmt: skip
    stored = analysis.read(tmp_path / "out" / "bins.json")
    assert len(stored.result.ways[0].width) == 4
    assert stored.about == {"run": str(run_folder), "split": "test", "method": "pcme-overlap"}


def test_several_share_one_embedding_and_programs_get_json(run_folder, tmp_path):
    done = run(run_folder, "variances", "truth", "--json", "--numbers-only", "--out", tmp_path)
    assert done.exit_code == 0, done.stderr
    record = json.loads(done.stdout)
    assert [found["analysis"] for found in record["analyses"]] == ["variances", "truth"]
    assert record["analyses"][1]["files"] == [str(tmp_path / "truth.json")]
    numbers = record["analyses"][0]["numbers"]
    assert {"name", "value", "meaning", "low", "high"} == set(numbers[0])


def test_a_number_that_is_none_is_null_in_json_and_a_dash_in_the_table(run_folder, tmp_path, monkeypatch):
    none = (analysis.Number("ρ", math.nan, "constant", math.nan, math.nan),)
    monkeypatch.setattr(SigmaBins, "numbers", lambda self: none)
    done = run(run_folder, "bins", "--json", "--numbers-only", "--out", tmp_path)
    (number,) = json.loads(done.stdout)["analyses"][0]["numbers"]
    assert (number["value"], number["low"], number["high"]) == (None, None, None)
    shown = run(run_folder, "bins", "--numbers-only", "--out", tmp_path).stdout
    assert "–  " in shown
    assert "nan" not in shown


def test_results_go_to_the_run_by_default(run_folder):
    done = run(run_folder, "variances", "--numbers-only")
    assert done.exit_code == 0, done.stderr
    assert (run_folder / "analysis" / "test" / "variances.json").is_file()


def test_all_means_all_that_fit_and_says_what_does_not(means_only, tmp_path):
    done = run(means_only, "all", "--numbers-only", "--out", tmp_path)
    assert done.exit_code == 0, done.stderr
    written = {path.stem for path in tmp_path.iterdir()}
    assert written == {"calibration", "toy", "truth"}
    assert "left out: bins needs a sigma, method pcme-mu has none" in done.stderr


def test_the_toy_needs_no_data(run_folder, tmp_path):
    args = ("--split", "none", "--data-root", tmp_path / "none", "--set", "steps=2")
    done = run(run_folder, "toy", "--numbers-only", "--out", tmp_path, *args)
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["bin"], 'Did you mean "bins"'),
        (["bins", "--split", "nowhere"], 'no split "nowhere"'),
        (["bins", "--set", "bins=x"], "bins: must be a whole number"),
        (["bins", "words", "--set", "bins=3"], "--set: changes one analysis"),
        (["all", "--set", "bins=3"], "--set: changes one analysis"),
        (["extremes", "--set", "tail=5"], "tail: must be above 0 and at most 1, got 5"),
        (["extremes", "--set", "tail=-1"], "tail: must be above 0 and at most 1, got -1"),
    ],
)
def test_mistakes_are_explained(run_folder, tmp_path, args, message):
    done = run(run_folder, *args, "--out", tmp_path)
    assert (done.exit_code, message in done.stderr) == (2, True), done.stderr


def test_a_model_without_sigma_is_told_what_would_work(means_only, tmp_path):
    done = run(means_only, "erasing", "--out", tmp_path)
    said = " ".join(done.stderr.split())
    assert done.exit_code == 2
    assert 'analysis "erasing": needs a sigma, method pcme-mu has none.' in said
    assert "For this run: calibration, toy, truth." in said


def test_a_folder_that_cannot_be_made_is_an_error_to_mend(run_folder, tmp_path):
    (tmp_path / "file").write_text("")
    done = run(run_folder, "toy", "--out", tmp_path / "file" / "out", "--set", "steps=1")
    assert (done.exit_code, "Give another folder (--out)" in done.stderr) == (2, True)


def test_analyses_are_listed():
    listed = CliRunner().invoke(app, ["list", "analyses", "--json"])
    records = json.loads(listed.stdout)
    assert [record["name"] for record in records] == analysis.names()
    assert all(record["summary"] and record["reading"] for record in records)
    assert "calibration" in CliRunner().invoke(app, ["list", "analyses"]).stdout

"""pcme analyze, as people and programs call it."""

import math

from pcme import analysis
from pcme.analysis.bins import SigmaBins
from tests.helpers import call, printed, record


def test_one_analysis_prints_its_numbers_and_writes_three_files(run_folder, tmp_path):
    text = printed("analyze", run_folder, "bins", "--set", "bins=4", "--out", tmp_path / "out")
    assert "95 % interval" in text
    assert "R-Precision, captions → images, over bins" in text
    assert f"wrote {tmp_path / 'out'}: bins" in "".join(text.splitlines())
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"bins.json", "bins.svg", "bins.png"}
    stored = analysis.read(tmp_path / "out" / "bins.json")
    assert len(stored.result.ways[0].width) == 4
    assert stored.about == {"run": str(run_folder), "split": "test", "method": "pcme-overlap"}


def test_several_share_one_embedding_and_programs_get_json(run_folder, tmp_path):
    found = record("analyze", run_folder, "variances", "truth", "--numbers-only", "--out", tmp_path)
    assert [each["analysis"] for each in found["analyses"]] == ["variances", "truth"]
    assert found["analyses"][1]["files"] == [str(tmp_path / "truth.json")]
    assert {"name", "value", "meaning", "low", "high"} == set(found["analyses"][0]["numbers"][0])


def test_a_number_that_is_none_is_null_in_json_and_a_dash_in_the_table(run_folder, tmp_path, monkeypatch):
    none = (analysis.Number("ρ", math.nan, "constant", math.nan, math.nan),)
    monkeypatch.setattr(SigmaBins, "numbers", lambda self: none)
    words = ("analyze", run_folder, "bins", "--numbers-only", "--out", tmp_path)
    (number,) = record(*words)["analyses"][0]["numbers"]
    assert (number["value"], number["low"], number["high"]) == (None, None, None)
    assert "–  " in printed(*words)
    assert "nan" not in printed(*words)


def test_results_go_to_the_run_by_default(run_folder):
    printed("analyze", run_folder, "variances", "--numbers-only")
    assert (run_folder / "analysis" / "test" / "variances.json").is_file()


def test_all_means_all_that_fit_and_says_what_does_not(means_only, tmp_path):
    done = call("analyze", means_only, "all", "--numbers-only", "--out", tmp_path)
    assert done.exit_code == 0, done.stderr
    assert {path.stem for path in tmp_path.iterdir()} == {"calibration", "soft-weights", "toy", "truth"}
    assert "left out: bins needs a sigma, method pcme-mu has none" in done.stderr


def test_the_toy_needs_no_data(run_folder, tmp_path):
    args = ("--split", "none", "--data-root", tmp_path / "none", "--set", "steps=2")
    printed("analyze", run_folder, "toy", "--numbers-only", "--out", tmp_path, *args)

"""A reproduction as a whole: files, reuse across experiments, seeds, what cannot be made."""

import json
from unittest.mock import Mock

import pytest

from pcme import PcmeError
from pcme.errors import ConfigError
from pcme.reproduce import jobs, reproduce
from pcme.reproduce.jobs import perform
from pcme.reproduce.outcome import read
from pcme.reproduce.planning import select
from pcme.reproduce.setups import SETUPS
from pcme.reproduce.tables import markdown
from tests.reproduce.tiny import SETUP


def again(out, names=("dof",), launch=perform, **options):
    """The results, and (missing, total) of the runs."""
    told = []
    results = reproduce(
        names, data=SETUP, quick=True, out=out, jobs=1, launch=launch,
        progress=lambda _, done, total: told.append((total - done, total)), **options,
    )  # fmt: skip
    return results, told[0]


def test_each_experiment_gets_a_table_a_record_and_pictures(dof):
    out, result = dof
    written = {path.name.removeprefix("aviary-quick-dof") for path in (out / "results").iterdir()}
    assert written == {".json", ".md", "-1.svg", "-1.png"}
    assert read(out / "results" / "aviary-quick-dof.json") == result
    text = (out / "results" / "aviary-quick-dof.md").read_text()
    assert all(row.label in text for row in result.tables[0].rows)


def test_the_record_says_how_every_value_was_made(dof):
    out, result = dof
    assert (result.seeds, result.world, result.quick) == (1, "aviary", True)
    assert {"pcme", "torch", "python"} <= set(result.versions)
    assert all(run.seconds > 0 for run in result.trainings.values())
    for row in result.tables[0].rows:
        figures = json.loads((out / "runs" / row.runs[0].digest / "figures.json").read_text())
        values = figures["figures"][f"retrieval unseen {row.score}"]
        assert row.values[0] == (values["i2t r_precision"],)
        assert SETUP.recipe(row.changes) == jobs.load(out / "runs" / row.runs[0].digest).recipe
    table = result.tables[0]
    points, isotropic, _ = ([seeds[0] for seeds in row.values[:2]] for row in table.rows)
    expected = 100 * (sum(isotropic) - sum(points)) / 2
    assert table.differences[0].values == pytest.approx([expected])
    assert table.differences[0].paper == pytest.approx(((25.7 - 24.7) + (26.0 - 25.6)) / 2)


def test_what_is_done_is_not_done_again_for_this_or_another_experiment(dof, monkeypatch):
    out, first = dof
    trainings = Mock(side_effect=jobs.train)
    monkeypatch.setattr(jobs, "train", trainings)
    assert again(out) == ([first], (0, 3))
    trainings.assert_not_called()
    (result,), missing = again(out, ["regularisation"])
    assert (missing, trainings.call_count) == ((5, 6), 5)
    assert result.tables[0].rows[-1].label == "both"


def test_seeds_are_runs_of_their_own(tmp_path):
    launched = []

    def launch(job):
        launched.append(job.recipe.seed)
        pretend(job, dict.fromkeys(NAMES, float(job.recipe.seed)))

    (result,), _ = again(tmp_path, launch=launch, seeds=2)
    assert launched == [0, 0, 0, 1, 1, 1]
    assert all(row.values[0] == (0.0, 1.0) for row in result.tables[0].rows)
    assert all(len(set(row.runs)) == 2 for row in result.tables[0].rows)
    assert result.command == "pcme reproduce dof --data aviary --quick --seeds 2"
    assert [run.seconds for run in result.trainings.values()] == [1.0] * 6


NAMES = (
    "i2t r_precision", "t2i r_precision", "images log_sigma", "captions log_sigma", "images",
    "captions", "i2t chance", "t2i chance",
)  # fmt: skip
"""What dof asks for."""


def pretend(job, figures):
    """Write that a job is done, with the same figures for all that it is asked."""
    job.folder.mkdir(parents=True, exist_ok=True)
    jobs.JobState(1.0, False, {each.key: figures for each in job.measurements}).write(job.folder)


def test_a_figure_that_the_data_does_not_give_is_a_dash_and_makes_no_claim(tmp_path):
    some = {name: 0.5 for name in NAMES if name != "t2i r_precision"}
    (result,), _ = again(tmp_path, launch=lambda job: pretend(job, some))
    table = result.tables[0]
    assert [row.values[1] for row in table.rows] == [(None,)] * 3
    assert table.differences == ()
    assert "| diagonal | 50.0 | 26.3 | – | 26.8 |" in markdown(table)


def test_what_failed_is_told_after_the_rest_is_written(dof):
    with pytest.raises(PcmeError, match="4 runs failed, 1 of 2 experiments") as caught:
        again(dof[0], ["dof", "architecture"], launch=Mock(side_effect=ConfigError("no room")))
    assert "no room" in str(caught.value)


def test_changes_are_made_in_all_runs_and_told(tmp_path):
    seen = []

    def stop(job):
        seen.append(job.recipe.dim)
        raise ConfigError("enough")

    with pytest.raises(PcmeError, match="enough"):
        again(tmp_path, launch=stop, changes=["dim=8"])
    assert seen == [8, 8, 8]


def test_all_is_what_the_setup_allows_and_other_data_have_to_be_brought():
    aviary, coco = (select(["all"], SETUPS[name]) for name in ("aviary", "coco"))
    assert {"table1", "table2", "dof", "fig6"} <= set(aviary)
    assert "table3" not in aviary
    assert {"table3", "coco-1k", "coco-5k", "pmrp"} <= set(coco)
    with pytest.raises(ConfigError, match="MS-COCO") as caught:
        select(["table3"], SETUPS["aviary"])
    assert "pcme reproduce table3 --data coco --data-root PATH --set image.weights" in str(caught.value)


def test_missing_pretrained_files_are_told_before_anything_is_trained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"image.weights \(resnet152.pth\), words.vectors"):
        reproduce(["table3"], data="coco", data_root=tmp_path)

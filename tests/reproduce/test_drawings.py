"""Drawing experiments: a trained run, an analysis by name, its numbers in a table and its figure beside the records."""

import json
import shutil
from dataclasses import replace

import pytest

from pcme import PcmeError, analysis, recipes
from pcme.errors import ConfigError, DataError
from pcme.evaluation import open_run
from pcme.reproduce import jobs, report, reproduce
from pcme.reproduce.analyses import analyse
from pcme.reproduce.base import Asked, Column, Experiment, Row, Table, registry
from pcme.reproduce.drawings import figure
from pcme.reproduce.jobs import perform
from pcme.reproduce.outcome import read
from pcme.reproduce.parts import PCME
from pcme.reproduce.planning import Request
from pcme.reproduce.setups import SETUPS
from tests.reproduce.tiny import SETUP

EXTREMES = Asked("extremes", {"count": 1, "hits": 2})
ENDS = (Column("widest", "R@1 of the widest 5 % of images", "analysis"),)


@pytest.fixture
def untrained(monkeypatch):
    """Fails where anything is trained: the runs of dof are enough."""
    monkeypatch.setattr(jobs, "train", lambda *_, **__: pytest.fail("trained"))


@pytest.fixture
def added(monkeypatch):
    """A decorator that registers an experiment for one test."""
    monkeypatch.setattr(registry, "_classes", dict(registry._classes))
    return registry.register


@pytest.mark.usefixtures("untrained")
def test_variances_of_one_run_are_drawn_with_the_level_of_another(again):
    folder, result = again("fig-d1")
    names = {path.name.removeprefix("aviary-quick-fig-d1") for path in folder.iterdir()}
    assert names == {".json", ".md", "-1.svg", "-1.png"}
    assert read(folder / "aviary-quick-fig-d1.json") == result
    (drawing,), (table,) = result.drawings, result.tables
    profiles = drawing.content["profiles"]
    for side, profile in zip(("images", "captions"), profiles, strict=True):
        names = {"of the item": "item", "of the dimension": "dimension", "of an item's shape": "shape"}
        for title, share in names.items():
            value = table.rows[0].values[table.index(f"{side}, {title}")][0]
            assert value == pytest.approx(profile["shares"][share])
    levels = [figures_of(folder, row)["profiles"] for row in table.rows]
    assert [profile["isotropic"] for profile in profiles] == [profile["mean"][0] for profile in levels[1]]
    assert [profile["mean"] for profile in profiles] == [profile["mean"] for profile in levels[0]]
    expected = [50 - 100 * profile["shares"]["item"] for profile in profiles]
    assert [difference.values[0] for difference in table.differences] == pytest.approx(expected)
    labels = figure(result, drawing).axes[0].get_legend().get_texts()
    assert "trained with one σ" in {label.get_text() for label in labels}
    text = (folder / "aviary-quick-fig-d1.md").read_text()
    assert "(aviary-quick-fig-d1-1.svg)" in text
    assert drawing.reading in text


def figures_of(folder, row):
    (path,) = (folder.parent / "runs" / row.runs[0].digest / "analyses").glob("*.json")
    return json.loads(path.read_text())["result"]


@pytest.mark.usefixtures("untrained")
def test_a_figure_with_images_is_that_of_the_run_and_none_of_a_report(again, added, tmp_path):
    @added("ends")
    class Ends(Experiment):
        """The widest image."""

        where, differs = "§F.3", "A test."
        content = (Table("Ends", (Row("PCME", PCME),), ENDS, None, drawn=EXTREMES),)

    folder, result = again("ends")
    run = folder.parent / "runs" / result.tables[0].rows[0].runs[0].digest / "analyses"
    made = {path.suffix: path for path in run.iterdir()}
    assert set(made) == {".json", ".svg", ".png"}
    for suffix in (".svg", ".png"):
        assert (folder / f"aviary-quick-ends-1{suffix}").read_bytes() == made[suffix].read_bytes()
    numbers = {number["name"]: number["value"] for number in json.loads(made[".json"].read_text())["numbers"]}
    assert result.tables[0].rows[0].values[0] == (numbers[ENDS[0].metric],)
    assert "(aviary-quick-ends-1.svg)" in (folder / "aviary-quick-ends.md").read_text()
    report(tmp_path / "docs" / "page.md", source=folder)
    assert {path.name for path in (tmp_path / "docs" / "page").iterdir()} == {"aviary-quick-ends.json"}
    page = (tmp_path / "docs" / "page.md").read_text()
    assert "The figure shows images of the data" in page
    assert ".svg" not in page


@pytest.mark.usefixtures("untrained")
def test_what_is_analysed_once_is_not_analysed_again(again, monkeypatch):
    _, first = again("fig-d1")
    monkeypatch.setattr(jobs, "measure", lambda *_: pytest.fail("measured"))
    _, second = again("fig-d1")
    assert second == first


def test_sheets_need_no_run_and_are_drawn_again_from_their_record(tmp_path):
    options = {"data": SETUP, "quick": True, "out": tmp_path / "out", "launch": lambda job: pytest.fail("trained")}
    told = []
    results = reproduce(["fig2", "fig-c2", "fig3"], progress=lambda *counts: told.append(counts), **options)
    folder = tmp_path / "out" / "results"
    assert told == [("runs", 0, 0)]
    for result in results:
        assert result.tables == ()
        assert {f"{result.name}{end}" for end in (".json", ".md", "-1.svg", "-1.png")} <= {
            p.name for p in folder.iterdir()
        }
        assert read(folder / f"{result.name}.json") == result
        text = (folder / f"{result.name}.md").read_text()
        assert "nothing is trained" in text
        assert all(number.name in text for number in result.drawings[0].numbers)
    pages = report(tmp_path / "docs" / "page.md", source=folder)
    drawn = {path.name for path in (tmp_path / "docs" / "page").glob("*.svg")}
    assert drawn == {"aviary-quick-fig2-1.svg", "aviary-quick-fig3-1.svg"}, "C.2 shows images"
    for name in drawn:
        assert (tmp_path / "docs" / "page" / name).read_text() == (folder / name).read_text()
    assert len(pages) == 3
    assert (
        "| [fig2 on aviary, quick](#fig2-on-aviary-quick) | Fig. 2 | – | – |"
        in (tmp_path / "docs" / "page.md").read_text()
    )


@pytest.mark.usefixtures("untrained")
def test_a_drawing_that_cannot_be_made_does_not_keep_the_others(dof, tmp_path, monkeypatch):
    shutil.copytree(dof[0] / "runs", tmp_path / "runs")

    def fail(*_):
        raise DataError("no birds")

    monkeypatch.setattr(registry.get("fig-c2"), "compute", fail)
    with pytest.raises(PcmeError, match=r"1 drawings failed, 1 of 2 experiments.*\n  fig-c2: no birds"):
        reproduce(["fig-c2", "dof"], data=SETUP, quick=True, out=tmp_path, jobs=1, launch=perform)
    assert (tmp_path / "results" / "aviary-quick-dof.md").is_file()


def test_an_analysis_that_does_not_fit_the_row_is_refused(dof, tmp_path):
    out, result = dof
    points = open_run(out / "runs" / result.tables[0].rows[0].runs[0].digest)
    with pytest.raises(ConfigError, match=r'analysis "words": needs a sigma.* Remove the row'):
        analyse(Asked("words"), points, tmp_path / "words")


def test_rows_may_start_from_a_recipe_of_their_own(added, tmp_path):
    @added("own-recipe")
    class Own(Experiment):
        """A recipe as it stands."""

        where, differs = "§C.3", "A test."
        recipes = {"aviary": "aviary-tiny"}  # noqa: RUF012 - a class of one test
        content = (Table("Own", (Row("as it stands", {}),), ENDS, None, drawn=EXTREMES),)

    request = Request(SETUPS["aviary"], True, 2, (), tmp_path, None, "")
    job, other = request.jobs("own-recipe")
    assert job.recipe == recipes.get("aviary-tiny")
    assert other.recipe == recipes.get("aviary-tiny").changed(["seed=1"])
    assert [each.key for each in job.measurements] == ["analysis unseen extremes count=1 hits=2"]
    assert job.splits == {"unseen": "test"}
    usual = next(request.jobs("dof"))
    assert usual.recipe.name == "aviary"
    changed = replace(request, changes=("dim=8",))
    assert next(changed.jobs("own-recipe")).recipe.dim == 8


def test_aliases_are_the_experiments_they_stand_for(again):
    _, result = again("table-d2")
    assert result.experiment == "dof"
    assert result.command == "pcme reproduce dof --data aviary --quick"


def test_every_analysis_that_is_asked_for_exists():
    for name in registry.names():
        for table in registry.create(name).tables(SETUPS[registry.get(name).setups[0]]):
            if table.drawn is not None:
                assert analysis.create(table.drawn.name, **table.drawn.params)

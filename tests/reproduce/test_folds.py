"""Cross-validation in a reproduction: what the paper cross-validates, by default, and anything on request."""

from dataclasses import replace
from statistics import fmean

import pytest

from pcme.data.layout import ClassFold
from pcme.errors import ConfigError, PcmeError
from pcme.reproduce import reproduce
from pcme.reproduce.jobs import JobState, perform
from pcme.reproduce.outcome import read
from pcme.reproduce.planning import Folds, Request, all_jobs
from pcme.reproduce.reporting import text
from pcme.reproduce.setups import SETUPS
from tests.data.formats.birds import folded
from tests.training.trained import SMALL

FOLDS = {ClassFold(f"train{k}", f"val{k}"): f"stamp{k}" for k in (1, 2, 3)}
VALUES = {"val1": 0.1, "val2": 0.2, "val3": 0.6, "test": 0.5, "seen": 0.5}
SETUP = replace(SETUPS["cub"], quick=SMALL)


@pytest.fixture(scope="module")
def birds(tmp_path_factory):
    return folded(tmp_path_factory.mktemp("birds"))


def planned(tmp_path, *, everywhere=False, world="cub"):
    return Request(SETUPS[world], False, 2, (), tmp_path, None, "whole", Folds(FOLDS, "", everywhere))


def splits_of(jobs):
    """{(where it learns, where it is validated, the parts that are measured, digest of the data)}."""
    return {(job.recipe.train_split, job.recipe.validation.split, *job.splits.values(), job.stamp) for job in jobs}


WHOLE = {("train", "val1", "test", "seen", "whole")}
DIVIDED = {(f"train{k}", f"val{k}", f"val{k}", f"stamp{k}") for k in (1, 2, 3)}


@pytest.mark.parametrize("world", ["cub", "cub-pairs"])
def test_what_the_paper_cross_validates_is_on_folds_and_nothing_else(tmp_path, world):
    request = planned(tmp_path, world=world)
    for table in request.tables("regularisation"):
        for row in table.rows:
            assert splits_of(request.jobs_of(table, row, 0)) == DIVIDED
    training, testing = request.tables("samples")
    assert splits_of(job for row in training.rows for job in request.jobs_of(training, row, 0)) == DIVIDED
    assert splits_of(job for row in testing.rows for job in request.jobs_of(testing, row, 0)) == WHOLE
    assert splits_of(request.jobs("table2")) == WHOLE
    both = all_jobs(request, ["samples", "regularisation"])
    labels = [job.label for job in both if job.recipe.train_split == "train2"]
    assert len({job.folder for job in both}) == len(both)
    assert sum("J = 7" in label for label in labels) == request.seeds, "the row with both terms is that with J = 7"
    assert [job.recipe.seed for job in both] == sorted(job.recipe.seed for job in both), "whole seeds first"


def test_on_request_everything_is_on_folds_and_judged_by_the_last_weights(tmp_path):
    request = planned(tmp_path, everywhere=True)
    (table,) = request.tables("table2")
    assert table.split == "unseen", "images of seen classes are no part of a fold"
    jobs = list(request.jobs("table2"))
    assert splits_of(jobs) == DIVIDED
    assert len(jobs) == 2 * 3 * len(table.rows)
    assert all(job.model == job.folder / "last" for job in jobs), "the best were chosen on what judges"
    assert request.command("table2") == "pcme reproduce table2 --data cub --data-root PATH --folds --seeds 2"
    plain = planned(tmp_path)
    assert all(job.model == job.folder for job in plain.jobs("table2"))
    assert plain.command("table2") == "pcme reproduce table2 --data cub --data-root PATH --seeds 2"


def made(names, birds, out, **options):
    """The results of runs that are not trained: what a split gives is known, a seed adds to it."""

    def pretend(job):
        figures = {}
        for each in job.measurements:
            value = VALUES[job.splits[each.split]] + 0.1 * job.recipe.seed
            figures[each.key] = dict.fromkeys(COLUMNS, value) | {"images": 4.0, "captions": 40.0}
        job.folder.mkdir(parents=True, exist_ok=True)
        JobState(60.0, False, figures).write(job.folder)

    return reproduce(names, data=SETUP, data_root=birds, quick=True, out=out, launch=pretend, **options)


COLUMNS = (
    *(f"{way} {name}" for way in ("i2t", "t2i") for name in ("r_precision", "map@r", "recall@1", "chance")),
    "images log_sigma", "captions log_sigma",
)  # fmt: skip


def test_values_are_means_over_the_folds_one_a_seed(birds, tmp_path):
    regularisation, samples = made(["regularisation", "samples"], birds, tmp_path, seeds=2)
    means = pytest.approx([fmean([0.1, 0.2, 0.6]), fmean([0.2, 0.3, 0.7])])
    for table in (*regularisation.tables, samples.tables[0]):
        assert table.folds == ("val1", "val2", "val3")
        assert all(list(values) == means for row in table.rows for values in row.values)
        assert all(len({run.digest for run in row.runs}) == 2 * 3 for row in table.rows)
        assert all(len(difference.values) == 2 for difference in table.differences)
    assert samples.tables[1].folds == ()
    assert samples.tables[1].rows[0].values[0] == pytest.approx((0.5, 0.6))
    assert (regularisation.name, regularisation.folds) == ("cub-quick-regularisation", False)
    assert regularisation.command == "pcme reproduce regularisation --data cub --data-root PATH --quick --seeds 2"
    page = (tmp_path / "results" / "cub-quick-regularisation.md").read_text()
    assert "Cross-validation: values and sizes are means over val1, val2, val3. 4 images, 40 captions" in page
    assert "5 classes judge, 1 of them in more than one fold." in page
    assert "Here it is the unseen ones" not in page
    assert read(tmp_path / "results" / "cub-quick-regularisation.json") == regularisation


def test_on_request_the_result_has_a_name_of_its_own_and_is_not_the_papers_table(birds, tmp_path):
    (result,) = made(["dof"], birds, tmp_path, folds=True)
    assert result.name == "cub-quick-folds-dof"
    assert result.tables[0].rows[0].values[0] == pytest.approx((0.3,))
    full = replace(result, quick=False)
    document = text([full], "results", figures=False)
    assert "### dof on cub, folds" in document
    assert "## On cub, folds\n" in document
    assert "dof" in document.split("* In full on cub: ")[1].splitlines()[0]


def test_data_without_folds_is_judged_on_unseen_classes_and_the_difference_is_told(tmp_path):
    birds = folded(tmp_path / "birds")
    for k in (2, 3):
        (birds / "splits" / f"trainclasses{k}.txt").unlink()
    (result,) = made(["samples"], birds, tmp_path / "out")
    assert [table.folds for table in result.tables] == [(), ()]
    assert result.tables[0].rows[0].values[0] == (0.5,)
    (told,) = (line for line in result.differs if "cross-validates" in line)
    assert told == "The paper cross-validates on the training classes: J in training. Here it is the unseen ones."


@pytest.mark.parametrize("world", ["aviary", "cub"])
def test_folds_that_are_not_there_are_refused_before_anything_is_trained(tmp_path, world):
    birds = folded(tmp_path / "birds")
    for k in (1, 2, 3):
        (birds / "splits" / f"valclasses{k}.txt").unlink()
    root = birds if SETUPS[world].needs else None
    with pytest.raises(ConfigError, match=f"{world}: cross-validation needs folds"):
        reproduce(["dof"], data=world, data_root=root, folds=True, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_fold_is_trained_and_measured(birds, tmp_path):
    seen = []

    def first(job):
        if not seen:
            perform(job)
            seen.append(job)
        raise ConfigError("enough")

    with pytest.raises(PcmeError, match="enough"):
        reproduce(["dof"], data=SETUP, data_root=birds, quick=True, folds=True, out=tmp_path, jobs=1, launch=first)
    (job,) = seen
    (figures,) = (
        values for key, values in JobState.read(job.folder).figures.items() if key.startswith("retrieval unseen")
    )
    assert job.recipe.sampling.kind == "one-per-class"
    assert (figures["images"], figures["captions"]) == (5.0, 50.0), "auk and jay, without the held-out auk"
    assert 0 <= figures["t2i r_precision"] <= 1

"""Jobs: trained once, measured once, reused, resumed; and in processes of their own."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from unittest.mock import Mock

import pytest

from pcme import recipes
from pcme.errors import ConfigError, FormatError
from pcme.reproduce import jobs
from pcme.reproduce.base import OWN, Measurement, Scoring
from pcme.reproduce.jobs import Job, JobState, forget_features, perform, read_job
from pcme.reproduce.parts import PCME
from pcme.reproduce.runner import Processes, run_all
from pcme.reproduce.stamps import data_stamp, digest
from pcme.training import checkpoint, train
from tests.data.formats.test_own import table
from tests.reproduce.tiny import SETUP
from tests.training.trained import Interrupt, same_run

MEASUREMENT = Measurement("retrieval", "unseen", OWN)


def job(runs, *changes, measurements=(MEASUREMENT,), seed=0):
    recipe = SETUP.recipe(SETUP.assignments(PCME, changes, quick=True), seed=seed)
    return Job("PCME", recipe, measurements, SETUP.splits, runs, None, "")


def test_a_job_is_trained_and_measured_once(tmp_path, monkeypatch):
    trainings = Mock(side_effect=train)
    monkeypatch.setattr(jobs, "train", trainings)
    own = job(tmp_path)
    assert own.missing == [MEASUREMENT]
    perform(own)
    perform(own)
    assert (trainings.call_count, own.missing) == (1, [])
    more = replace(own, measurements=(MEASUREMENT, Measurement("retrieval", "unseen", Scoring("w2"))))
    perform(more)
    done = JobState.read(own.folder)
    assert trainings.call_count == 1
    assert set(done.figures) == {each.key for each in more.measurements}
    assert done.seconds > 0
    assert not done.resumed


def test_an_interrupted_job_goes_on_to_the_bit(tmp_path, monkeypatch):
    own = job(tmp_path / "runs")
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "train", partial(train, reporter=Interrupt(3, KeyboardInterrupt)))
        with pytest.raises(KeyboardInterrupt):
            run_all([own], workers=1, launch=perform)
    assert own.missing
    assert run_all([own], workers=1, launch=perform) == []
    train(own.recipe, tmp_path / "whole", workers=0)
    assert same_run(own.folder, tmp_path / "whole")
    assert JobState.read(own.folder).resumed


def test_the_folder_is_named_by_all_that_the_run_depends_on_and_read_again(tmp_path):
    first = job(tmp_path)
    assert first.folder == job(tmp_path, measurements=()).folder
    others = [job(tmp_path, seed=1), job(tmp_path, "dim=8"), replace(first, stamp="other data")]
    assert len({first.folder, *(other.folder for other in others)}) == 4
    assert digest(first.recipe, "") == first.folder.name
    own = job(tmp_path, measurements=(MEASUREMENT, Measurement("cost", "unseen", Scoring("w2", {"samples": 3}))))
    own.write()
    assert read_job(own.folder) == own


@pytest.mark.parametrize(
    ("read", "file", "text", "message"),
    [
        *((read_job, "job.json", text, "not a job") for text in ("", "{}", '{"label": 3}')),
        (JobState.read, "figures.json", '{"seconds": ', "measure the run again"),
    ],
)
def test_a_damaged_file_is_an_error_that_says_what_to_do(tmp_path, read, file, text, message):
    (tmp_path / file).write_text(text)
    with pytest.raises(FormatError, match=message):
        read(tmp_path)


def test_what_is_drawn_needs_no_stamp_and_what_is_brought_has_one(tmp_path):
    assert data_stamp(SETUP.recipe(), None, ["test"]) == ""
    own = recipes.get("own")
    folder = table(tmp_path / "photos")
    stamp = data_stamp(own, folder, ["val"])
    assert stamp == data_stamp(own, folder, ["val"]) != ""
    captions = next(folder.glob("*.csv"))
    captions.write_text(captions.read_text().replace("bird", "fish"))
    assert data_stamp(own, folder, ["val"]) != stamp


def test_one_that_fails_does_not_keep_the_others(tmp_path):
    def launch(own):
        if own.recipe.seed == 1:
            raise ConfigError("it broke")
        own.folder.mkdir(parents=True)

    ended = []
    wanted = [job(tmp_path, seed=seed) for seed in range(3)]
    failures = run_all(wanted, workers=2, launch=launch, ended=ended.append)
    assert failures == ["PCME: it broke"]
    assert sorted(progress.done for progress in ended) == [1, 2, 3]
    assert ended[-1].left == 0
    assert all(wanted[seed].folder.is_dir() for seed in (0, 2))


def test_a_process_keeps_its_state_when_it_is_told_to_stop(tmp_path):
    own = job(tmp_path, "data.train_species=1000")  # an epoch of 125 steps
    log, end = own.folder / "metrics.jsonl", time.monotonic() + 60
    with ThreadPoolExecutor() as pool, Processes() as processes:
        running = pool.submit(processes, own)
        while time.monotonic() < end and not (log.is_file() and log.stat().st_size > 0):
            time.sleep(0.05)
        processes.stop()
    assert "ended with status" in str(running.exception())
    lines = log.read_text().splitlines()
    saved = checkpoint.newest(own.folder / "checkpoints")
    assert saved.step == max(json.loads(line)["step"] for line in lines)
    assert own.missing, "it was stopped long before its end"


def test_a_process_that_fails_shows_the_end_of_its_log(tmp_path):
    with Processes() as processes, pytest.raises(ConfigError, match="pixels"):
        processes(job(tmp_path, "data.pixels=1"))


def test_features_of_backbones_trained_here_are_forgotten_in_the_end(tmp_path):
    (tmp_path / "cache" / "features").mkdir(parents=True)
    perform(job(tmp_path, measurements=()))
    forget_features(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [job(tmp_path).folder.name]
    forget_features(tmp_path)

"""The training bar: on a narrow terminal the count and the time left stay, the values are cut."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from pcme.cli.reporter import training_bar
from pcme.data.problems import Problems
from tests.helpers import unless_annotations_are_enforced

VALUES = {
    "loss": 12.345, "scale": 10.0, "shift": -15.0, "image_log_sigma": -2.6,
    "caption_log_sigma": -2.4, "gradient": 1.0, "kl": 4.0, "uniformity": -2.0,
}  # fmt: skip


def run_at(step, steps):
    recipe, position = SimpleNamespace(name="tiny"), SimpleNamespace(total=step)
    return SimpleNamespace(recipe=recipe, total_steps=steps, position=position, problems=Problems())


@unless_annotations_are_enforced
@pytest.mark.parametrize("width", [70, 80, 200])
def test_what_matters_for_waiting_is_never_cut(width):
    run = run_at(37, 400)
    with training_bar() as reporter:
        reporter.begin(run)
        reporter.step(run, VALUES)
        page = io.StringIO()
        Console(file=page, width=width).print(reporter.bars.get_renderable())
    line = page.getvalue().splitlines()[0]
    assert "tiny" in line
    assert "37/400" in line
    assert ":" in line.split("37/400")[1]  # the time left
    assert "loss 12.3" in line
    assert ("uniformity" in line) == (width == 200)
    assert len(line) <= width


@unless_annotations_are_enforced
def test_a_wait_has_a_bar_until_it_is_over_and_the_problems_are_the_runs_own():
    run = run_at(1, 9)
    with training_bar() as reporter:
        reporter.begin(run)
        run.problems.add("image-empty", "a.jpg", "0 bytes")
        assert reporter.problems.counts == {"image-empty": 1}
        reporter.progress("features of the images", 3, 8)
        shown = {task.description: task.completed for task in reporter.bars.tasks}
        assert shown == {"tiny": 1, "features of the images": 3}
        reporter.progress("features of the images", 8, 8)
        assert [task.description for task in reporter.bars.tasks] == ["tiny"]
        reporter.step(run, VALUES)


@unless_annotations_are_enforced
def test_the_next_fold_has_the_bar_of_the_one_before():
    with training_bar() as reporter:
        for steps in (4, 9):
            reporter.begin(run_at(steps, 10))
            reporter.step(run_at(steps, 10), VALUES)
        assert [(task.description, task.completed) for task in reporter.bars.tasks] == [("tiny", 9)]

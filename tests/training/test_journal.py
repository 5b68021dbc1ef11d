import sys
import time

import pytest
import torch

from pcme.training import Reporter, train
from tests.training.trained import SHORT, TINY, Notes, logged, train_cut


def events(folder):
    """{(step, name): values}: one value each, unless something was written twice."""
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    read = accumulators.EventAccumulator(str(folder / "tensorboard"), size_guidance={accumulators.SCALARS: 0})
    read.Reload()
    values = {}
    for name in read.Tags()["scalars"]:
        for event in read.Scalars(name):
            values.setdefault((event.step, name), []).append(event.value)
    return values


def expected(folder):
    """The values of metrics.jsonl, in the single precision of event files."""
    return {
        (line["step"], name): [torch.tensor(value, dtype=torch.float32).item()]
        for line in logged(folder)
        for name, value in line.items()
        if name != "step"
    }


def test_the_event_files_say_what_the_metrics_say(sigma_run):
    values = events(sigma_run)
    assert {name for step, name in values if step == 1} >= {
        "loss", "match", "fit", "scale", "shift", "image_log_sigma", "gradient",
    }  # fmt: skip
    assert {(3, "val/t2i/r_precision"), (12, "loss")} <= values.keys()
    assert values == expected(sigma_run)


@pytest.mark.parametrize(
    ("after", "error", "files"), [(8, RuntimeError, 2), (5, KeyboardInterrupt, 2), (2, RuntimeError, 1)]
)
def test_after_a_resume_no_step_is_there_twice(tmp_path, after, error, files):
    """What came to no checkpoint is forgotten."""
    train_cut(TINY, tmp_path, after, error)
    time.sleep(1.01 - time.time() % 1)  # event files are told apart by the second in which they were begun
    train(TINY, tmp_path, resume=True)
    assert len(list((tmp_path / "tensorboard").iterdir())) == files
    assert events(tmp_path) == expected(tmp_path)


def test_without_tensorboard_the_run_says_so_once(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    notes = Notes()
    train(SHORT, tmp_path, reporter=notes)
    assert sum("pcme[tensorboard]" in text for text in notes.texts) == 1
    assert not (tmp_path / "tensorboard").exists()
    assert len(logged(tmp_path)) == 8


class Watch(Reporter):
    """Looks at the card after every validation."""

    def __init__(self):
        self.cards = []

    def validated(self, run, figures):
        self.cards.append((run.position.total, (run.folder / "README.md").read_text()))


def test_the_card_has_the_runs_own_figures(tmp_path):
    watch = Watch()
    train(TINY, tmp_path, reporter=watch)
    lines = [line for line in logged(tmp_path) if "val/t2i/r_precision" in line]
    assert [step for step, _ in watch.cards] == [line["step"] for line in lines]
    names = ["r_precision", "map@r", "recall@1", "recall@5", "recall@10", "chance"]
    means = [(r["val/i2t/r_precision"] + r["val/t2i/r_precision"]) / 2 for r in lines]
    for number, (step, card) in enumerate(watch.cards):
        best = means.index(max(means[: number + 1]))
        for name, line in (("last", lines[number]), ("best", lines[best])):
            for direction in ("i2t", "t2i"):
                figures = [f"{100 * line[f'val/{direction}/{metric}']:.2f}" for metric in names]
                assert f"| {name} | {direction} | {' | '.join(figures)} |\n" in card
        assert f"(step {lines[best]['step']})" in card
        assert f"| steps so far | {step} of at most 12 |" in card


def test_the_card_describes_the_run_and_how_to_load_it(tmp_path):
    model = train(SHORT.changed(["seed=5", "method.kl_weight=0.5"]), tmp_path / "birds")
    card = (tmp_path / "birds" / "README.md").read_text()
    assert card.startswith("# aviary-tiny\n")
    for part in (
        "| method | pcme-overlap (kl_weight=0.5) |",
        "| trained on | aviary/train: 72 images, 288 captions |",
        "aviary/val: 18 images, 72 captions",
        "| seed | 5 |",
        f"| words | {len(model.vocab.words)} |",
        f"torch {torch.__version__}",
        'pcme.load("birds")',
        f"`{type(model.score()).__name__}`",
        "Figures are on the validation split",
    ):
        assert part in card
    assert "\n\n\n" not in card
    compile(card.split("```")[1].removeprefix("python\n"), "card", "exec")

"""The terminal's view of a training run: a bar with the terms of the loss, and notes above it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.progress import Progress as Bars
from rich.progress import TaskID

from pcme.cli.output import Movement, make_bars
from pcme.data.problems import Problems
from pcme.training import Reporter, Run

_SHOWN = {
    "loss": "loss",
    "scale": "a",
    "shift": "b",
    "image_log_sigma": "log σ images",
    "caption_log_sigma": "captions",
    "gradient": "gradient",
    "fit": "fit",
    "breadth": "breadth",
    "kl": "kl",
    "uniformity": "uniformity",
}
"""{term: its name beside the bar}, the most telling first."""


class BarReporter(Reporter):
    """Draws with rich; keeps the last validation's metrics and the summary of problems."""

    def __init__(self, bars: Bars) -> None:
        self.bars, self._move = bars, Movement(bars, remove=True)
        self.metrics: Mapping[str, Mapping[str, float]] = {}
        self.problems = Problems()
        self._task: TaskID | None = None

    def begin(self, run: Run) -> None:
        """Show the bar, where the run stands."""
        self.problems = run.problems
        if self._task is not None:
            self.bars.remove_task(self._task)  # the run of the fold before
        self._task = self.bars.add_task(run.recipe.name, total=run.total_steps, completed=run.position.total, values="")

    def step(self, run: Run, values: Mapping[str, float]) -> None:
        """Move the bar, beside which the rate and the values stand."""
        assert self._task is not None
        speed = next(task.speed for task in self.bars.tasks if task.id == self._task)
        rate = [f"{speed:.1f} steps/s"] if speed else []
        shown = [f"{short} {values[name]:.3g}" for name, short in _SHOWN.items() if name in values]
        self.bars.update(self._task, completed=run.position.total, values="  ".join([*rate, *shown]))

    def progress(self, task: str, done: int, total: int | None, /) -> None:
        """Move the bar of a task; it disappears when it is full."""
        self._move(task, done, total)

    def note(self, text: str) -> None:
        """A line above the bar."""
        self.bars.console.print(text, highlight=False)

    def validated(self, run: Run, figures: Mapping[str, Mapping[str, float]]) -> None:
        """A line with R-Precision both ways."""
        self.metrics = figures
        parts = ", ".join(f"{side} {100 * v['r_precision']:.1f}" for side, v in figures.items())
        self.note(f"step {run.position.total}: validation R-Precision {parts}")


@contextmanager
def training_bar() -> Iterator[BarReporter]:
    """A reporter that draws a training run on stderr: step, rate, time left, the loss's terms."""
    with make_bars(values=True) as bars:
        yield BarReporter(bars)

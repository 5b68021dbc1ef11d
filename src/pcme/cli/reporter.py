"""What a training run says on the terminal: a bar with the loss's terms, and notes above it."""

from collections.abc import Mapping

from rich.progress import Progress, TaskID

from pcme.training import Reporter, Run

__all__ = ["BarReporter"]

_SHOWN = ("loss", "match", "scale", "shift", "image_log_sigma", "caption_log_sigma", "gradient")


class BarReporter(Reporter):
    """Draws with rich; keeps the last validation's figures and the summary of problems."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.figures: Mapping[str, Mapping[str, float]] = {}
        self.problems = ""
        self._task: TaskID | None = None

    def begin(self, run: Run) -> None:
        """Show the bar, where the run stands."""
        self._task = self.progress.add_task(
            run.recipe.name, total=run.total_steps, completed=run.position.total
        )

    def step(self, run: Run, values: Mapping[str, float]) -> None:
        """Move the bar; its text has what is worth watching."""
        assert self._task is not None
        text = " ".join(f"{name} {values[name]:.3g}" for name in _SHOWN if name in values)
        self.progress.update(
            self._task, completed=run.position.total, description=f"{run.recipe.name} {text}"
        )
        self.problems = run.problems.summary()

    def note(self, text: str) -> None:
        """A line above the bar."""
        self.progress.console.print(text, highlight=False)

    def validated(self, run: Run, figures: Mapping[str, Mapping[str, float]]) -> None:
        """A line with R-Precision both ways."""
        self.figures = figures
        parts = ", ".join(f"{way} {100 * v['r_precision']:.1f}" for way, v in figures.items())
        self.note(f"step {run.position.total}: validation R-Precision {parts}")

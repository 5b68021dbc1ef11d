"""Journal: the values of every step, in metrics.jsonl and for TensorBoard.

Both hold the same values. On resuming, entries after the checkpoint are dropped: they are written again.
"""

import json
import shutil
import time
from collections.abc import Mapping

from pcme.training.events import Events
from pcme.training.runs import Figures, Reporter, Run


def log(run: Run, values: Mapping[str, float]) -> None:
    """Write the values of the step just made."""
    step, now = run.position.total, round(time.time(), 3)
    with open(run.folder / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps({"step": step, "time": now, **values}) + "\n")
        run.position.logged = file.tell()
    if run.events is not None:
        run.events.add(step, now, values)


def flat(figures: Figures) -> dict[str, float]:
    """A validation's figures under the names of the journal: "val/i2t/recall@1"."""
    return {f"val/{way}/{name}": v for way, part in figures.items() for name, v in part.items()}


def begin(run: Run, reporter: Reporter) -> None:
    """Open the event files, or report why there are none."""
    run.events = Events(run.folder / "tensorboard", after=run.position.total)
    if run.events.missing:
        reporter.note("no event files for TensorBoard: it is not installed (pip install 'pcme[tensorboard]')")


def end(run: Run) -> None:
    """Close the event files."""
    if run.events is not None:
        run.events.close()


def forget(run: Run) -> None:
    """Remove the entries of an earlier run that came to no checkpoint."""
    (run.folder / "metrics.jsonl").unlink(missing_ok=True)
    shutil.rmtree(run.folder / "tensorboard", ignore_errors=True)


def rewind(run: Run) -> None:
    """Drop the entries after the checkpoint that the run resumes from."""
    path = run.folder / "metrics.jsonl"
    if path.is_file() and path.stat().st_size > run.position.logged:
        with open(path, "r+b") as file:
            file.truncate(run.position.logged)

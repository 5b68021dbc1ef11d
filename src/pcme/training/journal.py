"""Journal: the values of every step, in metrics.jsonl and for TensorBoard, where `tensorboard` is installed.

Both hold the same values. On resuming, entries after the checkpoint are dropped: they are written again.
"""

import json
import shutil
import time
from collections.abc import Mapping

from pcme.training.runs import Run


def begin(run: Run) -> None:
    """Open one more event file, or report why there is none."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        run.reporter.note("no event files for TensorBoard: it is not installed (pip install 'pcme[tensorboard]')")
        return
    # TensorBoard drops what older files say of the steps from here on.
    run.events = SummaryWriter(str(run.folder / "tensorboard"), purge_step=run.position.total + 1)


def log(run: Run, values: Mapping[str, float]) -> None:
    """Write the values of the step just made."""
    step, now = run.position.total, round(time.time(), 3)
    with open(run.folder / "metrics.jsonl", "a", encoding="utf-8") as file:
        file.write(json.dumps({"step": step, "time": now, **values}) + "\n")
        run.position.logged = file.tell()
    if run.events is not None:
        for name, value in values.items():
            run.events.add_scalar(name, value, step, walltime=now)


def end(run: Run) -> None:
    """Close the event file."""
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

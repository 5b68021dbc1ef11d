"""Events: the values of a run for TensorBoard, where the package `tensorboard` is installed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Events:
    """A folder of event files; one more is begun whenever a run goes on.

    `after` is the step from which the run goes on: TensorBoard forgets what older files say of
    later steps. Without the package nothing is written and `missing` is True.
    """

    def __init__(self, folder: Path, *, after: int) -> None:
        self._writer = _writer(folder, after)
        self.missing = self._writer is None

    def add(self, step: int, time: float, values: Mapping[str, float]) -> None:
        """The values of one step, at a time in seconds since 1970."""
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(name, value, step, walltime=time)

    def flush(self) -> None:
        """Write the values still in memory."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Write the rest and end."""
        if self._writer is not None:
            self._writer.close()


def _writer(folder: Path, after: int) -> Any:  # noqa: ANN401 - torch's own class, or None
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=after + 1)

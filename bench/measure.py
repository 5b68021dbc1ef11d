"""Timing and the table: best of several, ours and the yardstick taking turns."""

import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch


@dataclass(frozen=True)
class Row:
    """One line of the table; `ratio` is what `limit` speaks of."""

    what: str
    ours: str
    yardstick: str
    ratio: float
    limit: str
    met: bool | None
    note: str = ""


def best(*jobs: Callable[[], object], repeats: int = 5, seconds: float = 20.0) -> list[float]:
    """The least time of each job, in seconds; jobs alternate, so that a busy moment hits all.

    A quick job runs several times in its turn: what the other left in caches and memory fades.
    """
    times = [float("inf")] * len(jobs)
    begin = time.perf_counter()
    for turn in range(repeats):
        for i, job in enumerate(jobs):
            turn_begin = time.perf_counter()
            while True:
                start = time.perf_counter()
                job()
                times[i] = min(times[i], time.perf_counter() - start)
                if time.perf_counter() - turn_begin > 0.3:
                    break
        if turn and time.perf_counter() - begin > seconds:
            break
    return times


def faster(what: str, ours: float, other: float, at_least: float, note: str = "") -> Row:
    """A row where the yardstick should take `at_least` times as long as ours."""
    ratio = other / ours
    return Row(what, _ms(ours), _ms(other), ratio, f"≥ {at_least:g}×", ratio >= at_least, note)


def within(what: str, ours: float, other: float, at_most: float, note: str = "") -> Row:
    """A row where ours should take at most `at_most` times as long as the yardstick."""
    ratio = ours / other
    return Row(what, _ms(ours), _ms(other), ratio, f"≤ {at_most:g}×", ratio <= at_most, note)


def report(rows: list[Row], path: Path) -> None:
    """Print the table and write it with the machine's description."""
    print(f"\n{'what':<58}{'ours':>12}{'yardstick':>12}{'ratio':>9}  {'limit':<9}ok")
    for row in rows:
        mark = {True: "yes", False: "NO", None: "-"}[row.met]
        times = f"{row.ours:>12}{row.yardstick:>12}"
        print(f"{row.what:<58}{times}{row.ratio:>9.2f}  {row.limit:<9}{mark}")
        if row.note:
            print(f"    {row.note}")
    content = {"machine": machine(), "rows": [asdict(row) for row in rows]}
    draft = path.with_suffix(".partial")
    draft.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    draft.replace(path)
    print(f"\nwritten to {path}")


def machine() -> dict[str, object]:
    """Enough to judge the absolute times by."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].split(":", 1)[1].strip() if names else cpu
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "system": f"{platform.system()} {platform.machine()}",
    }


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 10 else f"{seconds:.1f} s"

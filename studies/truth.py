"""`make truth`: every method against the embedded world's exact truth, several seeds each.

Trains with `pcme train aviary` (two runs at a time, one thread each; a run that was interrupted
goes on), measures on the validation and on the test species, and writes truth.json and the tables
of docs/results/aviary.md. Settings were chosen on the validation species only.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

import pcme
from pcme.data.aviary.dataset import Aviary
from pcme.data.problems import Problems
from pcme.evaluation import embed
from pcme.uncertainty.known_truth import measured
from studies.tables import between_marks, spread

HERE = Path(__file__).parent
DOCUMENT = HERE.parent / "docs" / "results" / "aviary.md"
RECORD = HERE / "truth.json"

METHODS: Mapping[str, tuple[str, ...]] = {
    "pcme, J = 7, diagonal positives": (
        "method.kind=pcme", "method.likelihood=sampled", "method.positives=diagonal",
    ),
    "pcme, J = 7": (
        "method.kind=pcme", "method.likelihood=sampled",
    ),
    "pcme, analytic": ("method.kind=pcme",),
    "pcme-isotropic": ("method.kind=pcme-isotropic",),
    "pcme-mu": ("method.kind=pcme-mu",),
    "pcme-mu, uniformity 3": ("method.kind=pcme-mu", "method.uniformity_weight=3"),
    "overlap alone": (
        "method.uniformity_weight=0", "method.fit_weight=0", "method.breadth_weight=0",
    ),
    "pcme-overlap, weighted positives": ("method.positives=matches-weighted",),
    "**pcme-overlap**": (),
}  # fmt: skip
"""What is compared, as changes of the recipe `aviary`."""

RETRIEVAL = {
    "r_precision i2t": "R-P i2t",
    "r_precision t2i": "R-P t2i",
    "recall@1 t2i": "R@1 t2i",
    "calibration error": "ECE",
    "no-match auroc": "no-match AUROC",
    "expected~matches": "Σp ~ matches",
}
SIGMA = {
    "sigma~matches": "σ ~ log matches",
    "off-centre": "off-centre",
    "sigma~unknown": "σ ~ `<unk>` share",
    "rises@unknown": "captions wider at half",
    "sigma~erased": "σ ~ erased share",
    "rises@erased": "images wider at half",
}


def main() -> None:
    """Train what is missing, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, default=Path("runs/truth"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="*", choices=METHODS, help="measure these anew")
    options = parser.parse_args()
    chosen = options.only or list(METHODS)
    tasks = [(name, seed) for seed in range(options.seeds) for name in chosen]
    torch.set_num_threads(1)  # the jobs are the threads
    with ThreadPoolExecutor(options.jobs) as pool:
        rows = list(pool.map(lambda task: trained_and_measured(*task, options.runs), tasks))
    if options.only:
        kept = json.loads(RECORD.read_text())["runs"]
        rows += [row for row in kept if row["method"] not in chosen]
    RECORD.write_text(json.dumps({"torch": torch.__version__, "runs": rows}, indent=1) + "\n")
    write_tables(rows, options.seeds)


def folder(name: str, seed: int, runs: Path) -> Path:
    """Where a run lives."""
    plain = "".join(c if c.isalnum() else "-" for c in name).strip("-")
    return runs / f"{plain}-{seed}"


def trained_and_measured(name: str, seed: int, runs: Path) -> dict[str, object]:
    """The figures of one run, which is trained first unless it has been."""
    train(name, seed, runs)
    return record(name, seed, runs)


def train(name: str, seed: int, runs: Path) -> None:
    """One run, in a process of its own with one thread."""
    changes = [part for change in METHODS[name] for part in ("--set", change)]
    out = folder(name, seed, runs)
    command = [sys.executable, "-m", "pcme", "train", "aviary", "--seed", str(seed)]
    print(f"{name}, seed {seed} ...", file=sys.stderr, flush=True)
    subprocess.run(
        [*command, *changes, "--out", str(out), "--resume", "--workers", "1"],
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
    )


def record(name: str, seed: int, runs: Path) -> dict[str, object]:
    """The figures of one run, on the validation and on the test species."""
    model = pcme.load(folder(name, seed, runs))
    world = Aviary()
    return {
        "method": name,
        "seed": seed,
        **{
            split: measured(model, embed(model, world.load(split), Problems()))
            for split in ("val", "test")
        },
    }


def write_tables(rows: Sequence[Mapping[str, object]], seeds: int) -> None:
    """Put the tables between the document's marks."""
    for mark, columns in (("retrieval", RETRIEVAL), ("sigma", SIGMA)):
        between_marks(DOCUMENT, f"truth:{mark}", table(rows, columns, seeds))


def table(rows: Sequence[Mapping[str, object]], columns: Mapping[str, str], seeds: int) -> str:
    """Mean ± standard deviation over the seeds, on the test species."""
    lines = ["| method |" + "".join(f" {title} |" for title in columns.values())]
    lines.append("|---|" + "---|" * len(columns))
    for name in METHODS:
        found = [row["test"] for row in rows if row["method"] == name]
        assert len(found) == seeds
        cells = [cell([run.get(key) for run in found]) for key in columns]  # type: ignore[attr-defined]
        if any(c != "–" for c in cells):
            lines.append(f"| {name} |" + "".join(f" {c} |" for c in cells))
    return "\n".join(lines) + "\n"


def cell(values: Sequence[float | None]) -> str:
    """Mean ± spread, or a dash for a method that has no such figure."""
    known = [value for value in values if value is not None]
    return spread(known, digits=3) if known else "–"


if __name__ == "__main__":
    main()

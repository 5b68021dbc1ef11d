"""`make truth`: every method against Aviary's exact ground truth, several seeds each.

Trains with `pcme train aviary`, measures on the validation and on the test species, and writes
record.json and the tables of docs/results/aviary.md (`--tables`: from the record alone). Settings
were chosen on the validation species only.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import pcme
from pcme.data.aviary.dataset import Aviary
from pcme.data.problems import Problems
from pcme.evaluation import embed
from pcme.uncertainty.known_truth import measure_against_truth
from studies.runs import TrainingRun, train_all
from studies.tables import DOCS, markdown, read_record, spread, write_record, write_tables

DOCUMENT = DOCS / "results" / "aviary.md"
RECORD = Path(__file__).parent / "record.json"

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
"""{method: its changes of the recipe `aviary`}."""

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
    parser.add_argument("--only", nargs="*", choices=METHODS, help="measure these methods alone, keep the others")
    parser.add_argument("--tables", action="store_true", help="write the tables from the record, measure nothing")
    options = parser.parse_args()
    if not options.tables:
        measure_all(options)
    write_tables(DOCUMENT, tables(read_record(RECORD)))


def measure_all(options: argparse.Namespace) -> None:
    """Train and measure the chosen methods, and write the record."""
    chosen = options.only or list(METHODS)
    tasks = {
        (name, seed): TrainingRun("aviary", folder(name, seed, options.runs), METHODS[name], seed)
        for seed in range(options.seeds)
        for name in chosen
    }
    torch.set_num_threads(1)  # jobs run in parallel, one thread each
    metrics: dict[Path, dict[str, Any]] = {}
    train_all(
        list(tasks.values()), lambda run, _: metrics.__setitem__(run.folder, measure(run.folder)), workers=options.jobs
    )
    rows = [{"method": name, "seed": seed, **metrics[run.folder]} for (name, seed), run in tasks.items()]
    if options.only:
        rows += [row for row in read_record(RECORD).get("runs", []) if row["method"] not in chosen]
    write_record(RECORD, {"torch": torch.__version__, "runs": rows})


def folder(name: str, seed: int, runs: Path) -> Path:
    """The folder of a run."""
    plain = "".join(c if c.isalnum() else "-" for c in name).strip("-")
    return runs / f"{plain}-{seed}"


def measure(run: Path) -> dict[str, Any]:
    """The metrics of one run, on the validation and on the test species."""
    model, dataset = pcme.load(run), Aviary()
    return {
        split: measure_against_truth(model, embed(model, dataset.load(split), Problems())) for split in ("val", "test")
    }


def tables(record: Mapping[str, Any]) -> dict[str, str]:
    """{mark: table}: mean ± standard deviation over the seeds, on the test species."""
    marks = {"truth:retrieval": RETRIEVAL, "truth:sigma": SIGMA}
    return {mark: table(record["runs"], columns) for mark, columns in marks.items()}


def table(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, str]) -> str:
    """One row per method that has any of the metrics."""
    lines = []
    for name in METHODS:
        runs = [row["test"] for row in rows if row["method"] == name]
        cells = [cell([run.get(key) for run in runs]) for key in columns]
        if any(text != "–" for text in cells):
            lines.append([name, *cells])
    return markdown(["method", *columns.values()], lines)


def cell(values: Sequence[float | None]) -> str:
    """Mean ± spread, or a dash for a method that has no such metric."""
    known = [value for value in values if value is not None]
    return spread(known, digits=3) if known else "–"


if __name__ == "__main__":
    main()

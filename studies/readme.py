"""`python -m studies.readme`: write the README's results, from the studies' records and the paper's values."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pcme.reproduce.paper import CUB_UNSEEN
from pcme.reproduce.reporting import read_results
from studies.real.tables import RECORD as REAL
from studies.tables import DOCS, markdown, read_record, write_tables
from studies.truth.__main__ import RECORD as TRUTH

DOCUMENT = DOCS.parent / "README.md"
TRUTH_ROWS = {
    "pcme, J = 7": "PCME, J = 7 samples, as in the paper",
    "pcme, analytic": "PCME, analytic",
    "**pcme-overlap**": "`pcme-overlap` (ours)",
}
TRUTH_COLUMNS = {
    "sigma~matches": ("ρ of σ and matches", "+.2f"),
    "r_precision t2i": ("R-Precision t2i", ".2f"),
    "calibration error": ("calibration error", ".3f"),
    "no-match auroc": ('"nothing matches", AUROC', ".2f"),
}
CUB_ROWS = {
    "InfoNCE": ("InfoNCE, plain cosine", None),
    "VSE0": ("VSE0", "VSE0"),
    "PCME, J = 7": ("PCME, J = 7", "PCME"),
    "PCME, analytic": ("PCME, analytic", None),
    "**PCME, overlap**": ("`pcme-overlap`", None),
}
"""{row of the study: (its name in the README, its row in the paper's Table 2)}."""
FIG6_STUDIES = {
    "CUB, part, frozen backbone": ("cub",),
    "CUB, part, last stages tuned": ("cub-finetune", "cub-joined"),
    "Flickr8k, part": ("flickr8k",),
}
FIG6_ROWS = {
    "PCME, J = 7 and analytic": ("PCME, J = 7", "PCME, analytic", "PCME, analytic (ours)"),
    "`pcme-overlap`": ("**PCME, overlap**", "**PCME, overlap, broad**", "PCME, overlap (ours)"),
}
"""{column of the README: its rows in the studies and in the reproduction}."""


def tables() -> dict[str, str]:
    """{mark: text} of the README."""
    return {
        "readme:truth": truth_table(read_record(TRUTH)["runs"]),
        "readme:findings": findings(),
        "readme:cub": cub_table(read_record(REAL)["cub"]),
        "readme:fig6": fig6_table(read_record(REAL)),
    }


def truth_table(runs: Sequence[Mapping[str, Any]]) -> str:
    """Means over the seeds, on Aviary's test species."""
    lines = []
    for row, name in TRUTH_ROWS.items():
        metrics = [run["test"] for run in runs if run["method"] == row]
        means = {key: np.mean([values[key] for values in metrics]) for key in TRUTH_COLUMNS}
        cells = [f"{means[key]:{form}}".replace("-", "−") for key, (_, form) in TRUTH_COLUMNS.items()]
        lines.append([name, *cells])
    return markdown(["method", *(title for title, _ in TRUTH_COLUMNS.values())], lines)


def cub_table(runs: Sequence[Mapping[str, Any]]) -> str:
    """R-Precision on the unseen classes beside the paper's, in per cent."""
    lines = []
    for row, (name, printed) in CUB_ROWS.items():
        metrics = [run["test"] for run in runs if run["row"] == row]
        sides = ("i2t", "t2i")
        ours = [100 * np.mean([values[side]["r_precision"] for values in metrics]) for side in sides]
        paper = [CUB_UNSEEN.value(printed, f"{side} r_precision") for side in sides] if printed else []
        lines.append([name, " / ".join(f"{value:.1f}" for value in ours), " / ".join(map(str, paper))])
    return markdown(["method", "CUB, part, frozen backbone", "the paper, CUB"], lines)


def fig6_table(studies: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """In how many runs R@1 falls as σ grows, from text to image."""
    correlations = {"Aviary, quick, one seed": aviary_bins()}
    for name, parts in FIG6_STUDIES.items():
        runs = [run for part in parts for run in studies[part] if run["sigma"]]
        correlations[name] = [(run["row"], run["sigma"]["bins~recall t2i"]) for run in runs]
    lines = []
    for name, by_run in correlations.items():
        columns = [[rho for row, rho in by_run if row in rows] for rows in FIG6_ROWS.values()]
        lines.append([name, *(f"{sum(rho < 0 for rho in column)} of {len(column)}" for column in columns)])
    return markdown(["R@1 falls as σ grows, in so many runs", *FIG6_ROWS], lines)


def aviary_bins() -> list[tuple[str, float]]:
    """Each (row, Spearman's ρ of R@1 over the bins of the captions' σ) of the reproduction's runs."""
    results = read_results(DOCS / "results" / "reproduction")
    captions = next(result for result in results if result.experiment == "fig6").tables[1]
    return [(row.label, rho) for row in captions.rows for rho in row.values[-1] if rho is not None]


def findings() -> str:
    """How many of the paper's findings have the same sign on Aviary."""
    results = [each for each in read_results(DOCS / "results" / "reproduction") if each.world == "aviary"]
    means = [d.mean for result in results for table in result.tables for d in table.differences]
    same = sum(mean > 0 for mean in means)
    return f"Of the paper's {len(means)} findings, {same} have the same sign on Aviary, one seed each.\n"


if __name__ == "__main__":
    write_tables(DOCUMENT, tables())

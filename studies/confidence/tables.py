"""The study's tables in docs/results/aviary.md, from its record."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from studies.tables import DOCS, markdown

DOCUMENT = DOCS / "results" / "aviary.md"
RECORD = Path(__file__).parent / "record.json"
COVERAGES = (100, 90, 80, 50, 20)
METHODS = ("isotonic", "platt")
GALLERIES = {"test": "test, 1,000", "fresh": "fresh, 1,000", "large": "fresh, 20,000"}


def tables(rows: Mapping[str, dict]) -> dict[str, str]:
    """{mark: table}."""
    return {
        "confidence:calibration": calibration_table(rows),
        "confidence:tails": tails_table(rows["pcme-overlap"]["tails"]),
        "confidence:rules": rules_table(rows),
        "confidence:sizes": sizes_table(rows["pcme-overlap"]["sizes"]),
        "confidence:species": species_table(rows["pcme-overlap"]["species"]),
        "confidence:refusal": refusal_table(rows),
    }


def calibration_table(rows: Mapping[str, dict]) -> str:
    """Errors before and after calibration, per gallery."""
    head = ("model", "images", "p", "error, all pairs", "error, first hits", "log loss")
    lines = []
    for name, row in rows.items():
        for where in GALLERIES:
            reports = row[where]
            uncalibrated = reports["isotonic"]  # the same in the reports of all methods
            qualities = {"raw": (uncalibrated["raw"], uncalibrated["raw_expected"])}
            qualities |= {m: (reports[m]["calibrated"], reports[m]["expected"]) for m in METHODS}
            for kind, (quality, expected) in qualities.items():
                errors = [f"{quality[k]:.4f}" for k in ("error", "first_error", "log_loss")]
                lines.append([name, GALLERIES[where], kind, *errors, f"{expected:.3f}"])
    return markdown([*head, "Σ p / matches"], lines)


def tails_table(rows: Sequence[Mapping[str, float]]) -> str:
    """Calibration by ranges of the model's own p."""
    head = ["model says", "pairs", "raw, mean", "isotonic, mean", "platt, mean", "true share"]
    lines = [
        [f"{row['from']:g} to {row['to']:g}", f"{row['pairs']:,}"]
        + [f"{row[name]:.2g}" for name in ("raw", *METHODS, "true")]
        for row in rows
    ]
    return markdown(head, lines)


def rules_table(rows: Mapping[str, dict]) -> str:
    """The effect of each rule, per gallery."""
    head = ["model", "images", "answered when", "AUROC"]
    head += ["with a match", "fits nothing", "precision", "matches removed"]
    lines = [
        [name, GALLERIES[where], text, f"{effect['auroc']:.3f}"]
        + [f"{100 * effect[k]:.1f} %" for k in ("answered", "false_alarm", "precision", "removed")]
        for name, row in rows.items()
        for where in GALLERIES
        for text, effect in row["rules"][where].items()
    ]
    return markdown(head, lines)


def sizes_table(rows: Sequence[Mapping[str, float]]) -> str:
    """The threshold for larger galleries."""
    head = ["items", "1 − threshold", "false alarms, by growth"]
    lines = [
        [f"{row['gallery']:,}", f"{1 - row['threshold']:.1e}", f"{100 * row['false_alarm']:.0f} %"] for row in rows
    ]
    return markdown(head, lines)


def species_table(rows: Sequence[Mapping[str, float]]) -> str:
    """Quality by the number of species of a calibration: ranges over the draws."""
    columns = {"growth": "growth", "removed": "matches removed", "false_alarm": "fits nothing"}
    columns |= {"answered": "with a match", "error": "error, all pairs"}
    digits = {"growth": 2, "error": 4}
    lines = []
    for species in dict.fromkeys(row["species"] for row in rows):
        draws = [row for row in rows if row["species"] == species]
        ranges = [value_range([row[key] for row in draws], digits.get(key)) for key in columns]
        lines.append([f"{species:,}", f"{draws[0]['images']:,}", *ranges])
    return markdown(["species", "images", *columns.values()], lines)


def value_range(values: Sequence[float], digits: int | None) -> str:
    """The smallest to the largest value: with so many digits, or in per cent."""
    low, high = min(values), max(values)
    if digits is None:
        return f"{100 * low:.1f} to {100 * high:.1f} %"
    return f"{low:.{digits}f} to {high:.{digits}f}"


def refusal_table(rows: Mapping[str, dict]) -> str:
    """The risk at COVERAGES, refusing by p and by σ."""
    head = ["model", "images", "refused first", *(f"{p} %" for p in COVERAGES), "AURC"]
    lines = [
        [name, GALLERIES[where], text]
        + [f"{100 * risk['risk'][str(p)]:.2f}" for p in COVERAGES]
        + [f"{100 * risk['area']:.2f}"]
        for name, row in rows.items()
        for where in GALLERIES
        for text, risk in {
            "the least best p": row[where]["isotonic"]["by_p"],
            "the widest σ": row[where]["isotonic"]["by_sigma"],
        }.items()
    ]
    return markdown(head, lines)

"""The page: a report as one HTML document without scripts, network or files beside it."""

import base64
import errno
import json
import math
from pathlib import Path

from pcme.core import files
from pcme.errors import ConfigError
from pcme.evaluation import Estimate, intervals
from pcme.showcase.gather import RunReport

SHOWN = {
    "r_precision": "R-Precision",
    "recall@1": "Recall@1",
    "recall@5": "Recall@5",
    "recall@10": "Recall@10",
    "map@r": "mAP@R",
    "median_rank": "median rank",
    "mean_rank": "mean rank",
    "chance": "R-Precision by chance",
}
"""The metrics on the page, in this order; those that were not measured are left out."""

PLAUSIBLE = {"pmrp": "PMRP", "1k pmrp": "PMRP, 1K", "1k recall@1": "Recall@1, 1K"}
"""Shown where the split names the reading; elsewhere labels say less than the known matches."""

RANKS = ("median_rank", "mean_rank")

TILES = {"calibration": (0, 2), "truth": (0,)}
"""{analysis: the indices of its numbers that stand on top of the page}."""


def require_writable(path: str | Path) -> None:
    """Refuse, before a report is gathered, a page that could not be written; its folder is made."""
    target = Path(path)
    draft = files.hidden(target)
    with files.explaining(target, "cannot be written"):
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "a folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        draft.touch()
        draft.unlink()


def write_page(report: RunReport, path: str | Path) -> Path:
    """Write the page, whole or not at all."""
    target = Path(path)
    with files.explaining(target, "cannot be written"):
        target.parent.mkdir(parents=True, exist_ok=True)
        files.write_text(target, page(report))
    return target


def page(report: RunReport) -> str:
    """The document; everything that came from data is escaped."""
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise ConfigError("jinja2: not installed, a report needs it. Run: pip install 'pcme[plots]'.") from error
    environment = Environment(
        loader=PackageLoader("pcme.showcase", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["picture"] = _picture
    environment.filters["probability"] = _probability
    recipe = json.dumps(report.recipe.record(), indent=2, ensure_ascii=False)
    template = environment.get_template("page.html")
    return template.render(report=report, tiles=_tiles(report), rows=_rows(report), recipe=recipe)


def _tiles(report: RunReport) -> list[tuple[str, str, str]]:
    """(value, its name, a note) of the numbers that matter most."""
    result, tiles = report.evaluation, []
    for metrics, text in ((result.i2t.metrics, "images → captions"), (result.t2i.metrics, "captions → images")):
        chance = f"by chance {100 * metrics['chance']:.1f} %"
        tiles.append((f"{100 * metrics['r_precision']:.1f} %", f"R-Precision, {text}", chance))
        tiles.append((f"{100 * metrics['recall@1']:.1f} %", f"Recall@1, {text}", ""))
    for figure in report.figures:
        numbers = [number for n, number in enumerate(figure.numbers) if n in TILES.get(figure.name, ())]
        tiles += [(f"{number.value:.3f}", number.name, number.meaning) for number in numbers]
    return tiles


def _rows(report: RunReport) -> list[tuple[str, list[str]]]:
    """(metric, [images to captions, captions to images]), each with its interval."""
    directions = [(each.metrics, intervals(each)) for each in (report.evaluation.i2t, report.evaluation.t2i)]
    shown = SHOWN | (PLAUSIBLE if "pmrp" in report.readings else {})
    return [
        (title, [_cell(name, metrics.get(name), spans.get(name)) for metrics, spans in directions])
        for name, title in shown.items()
        if any(name in metrics for metrics, _ in directions)
    ]


def _cell(name: str, value: float | None, span: Estimate | None) -> str:
    if value is None or math.isnan(value):
        return "–"
    factor = 1 if name in RANKS else 100
    if span is None or math.isnan(span.low):
        return f"{factor * value:.1f}"
    return f"{factor * value:.1f}  [{factor * span.low:.1f}, {factor * span.high:.1f}]"


def _picture(svg: str) -> str:
    """An SVG as the address of an image: its ids then cannot clash with those of another."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode('utf-8')).decode('ascii')}"


def _probability(value: float) -> str:
    """ "0.934", or ".0004" where three digits would be nothing."""
    return f"{value:.3f}" if value >= 0.0005 else f"{value:.0e}"

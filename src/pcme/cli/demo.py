"""pcme demo: the main job from end to end."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pcme.cli.output import Json, print_json, print_table

if TYPE_CHECKING:
    from pcme.showcase.searches import Search


FIGURES = {
    "r_precision t2i": ("R-Precision, captions to images", "share of the right images found"),
    "r_precision i2t": ("R-Precision, images to captions", "the other way round"),
    "recall@1 t2i": ("Recall@1, captions to images", "the first hit is right"),
    "calibration error": ("calibration error of p", "0 is perfect"),
    "no-match auroc": ("“nothing here matches”, AUROC", "1 is perfect, 0.5 is chance"),
    "expected~matches": ("Σ p against how many match", "Spearman"),
    "sigma~matches": ("σ of a caption against how many match", "Spearman"),
    "sigma~unknown": ("σ of a caption against words erased", "Spearman"),
    "sigma~erased": ("σ of an image against pixels erased", "Spearman"),
}
"""{measure against the truth: (its name, how to read it)}, in the order of the table."""


def demo(
    *,
    out: Annotated[Path, typer.Option(help="The run's folder.")] = Path("runs/demo"),
    recipe: Annotated[str, typer.Option(help="A recipe on Aviary.")] = "aviary",
    as_json: Json = False,
) -> None:
    """Train on a world drawn by code, evaluate on unseen species, and search it.

    An existing run in the folder is reused or resumed.
    """
    from pcme import recipes
    from pcme.cli.reporter import training_bar
    from pcme.showcase.demo import run

    begin = time.monotonic()
    with training_bar() as reporter:
        outcome = run(recipes.get(recipe), out, reporter=reporter)
    minutes, figures = (time.monotonic() - begin) / 60, outcome.figures
    if as_json:
        searches = [_record(search) for search in outcome.searches]
        paths = {"run": str(outcome.folder), "sheet": str(outcome.sheet)}
        print_json({**paths, "minutes": round(minutes, 2), "figures": figures, "searches": searches})
        return
    rows = [(text, f"{figures[name]:.3f}", note) for name, (text, note) in FIGURES.items() if name in figures]
    print_table((f"unseen species, {outcome.images:,} images", "", ""), rows)
    for search in outcome.searches:
        pairs = zip(search.hits, search.relevant, strict=True)
        hits = [f"{hit.match_probability:.3f} {'fits' if relevant else 'no'}" for hit, relevant in pairs]
        typer.echo(f"\n“{search.text}”\n  {search.summary}\n  {'  '.join(hits)}")
    typer.echo(f"\nwrote {out} (the run) and {outcome.sheet} (what was found), {minutes:.1f} minutes")
    typer.echo(f"search on with: pcme search {out / 'index'} 'a small red bird'")


def _record(search: Search) -> dict[str, object]:
    query = search.hits.query
    triples = zip(search.rows, search.hits, search.relevant, strict=True)
    return {
        "caption": search.text,
        "hits": [{"image": row, "p": hit.match_probability, "true": relevant} for row, hit, relevant in triples],
        "expected": query.expected_matches,
        "matches": search.matches,
        "wider": None if query.percentile is None else query.percentile / 100,
        "answerable": query.answerable,
        "verdict": search.verdict,
    }

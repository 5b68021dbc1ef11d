"""`pcme demo`: the main job from end to end, on the embedded world, in a few minutes.

Draws Aviary, trains, calibrates on the validation species, evaluates both directions on species that were never seen,
indexes their images, and searches: for something rare, something common, and something that is not there. Everything
lands in one folder.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from pcme import methods
from pcme.data.dataset import CaptionDataset
from pcme.data.problems import Problems
from pcme.data.sheet import save_sheet
from pcme.errors import ConfigError
from pcme.evaluation import embed_split
from pcme.evaluation.open_run import find_dataset
from pcme.index.lance import engine
from pcme.model import load
from pcme.recipes.schema import Recipe
from pcme.retrieval.matches import Matches
from pcme.showcase.searches import Search, index_items, judge
from pcme.training import Reporter, train
from pcme.uncertainty.calibrate import calibrate
from pcme.uncertainty.known_truth import measure_against_truth

HITS = 6
INDEX = "index"
"""The folder of the index inside the run: the test images, for `pcme search`."""

INK, FAINT, PAPER = (32, 36, 44), (118, 124, 136), (255, 255, 255)
RIGHT, WRONG = (34, 122, 82), (190, 50, 40)
PICTURE, GAP = 128, 10


@dataclass(frozen=True)
class Demo:
    """The outcome of the demo: metrics against the truth, searches and their sheet."""

    folder: Path
    images: int
    """The number of images searched."""
    figures: dict[str, float]
    searches: tuple[Search, ...]
    sheet: Path


def run(recipe: Recipe, folder: Path, *, reporter: Reporter | None = None) -> Demo:
    """Train, calibrate, evaluate on the test species, and search; an existing run in `folder` is reused or resumed."""
    engine()  # a missing library, or a recipe that cannot be shown, is refused before training
    reporter = reporter or Reporter()
    world, problems = find_dataset(recipe), Problems(strict=True)
    _require_shown(recipe, world.splits)
    test = world.load("test", problems)
    texts, matches = _choose_queries(recipe, test)
    train(recipe, folder, resume=True, reporter=reporter)
    model = load(folder)  # the best on the validation species, not the last
    calibrated = calibrate(folder, world.load("val", problems), progress=reporter.progress)
    calibrated.confidence.save(folder)  # for `pcme search` and `pcme report`
    embedded = embed_split(model, test, problems, progress=reporter.progress)
    shutil.rmtree(folder / INDEX, ignore_errors=True)  # that of an earlier demo
    ids = [test.images.id(row) for row in range(len(test.images))]
    index = index_items(folder / INDEX, folder, embedded.images, ids, kind="image")
    searches = judge(index.search_many(texts, HITS), texts, matches)
    sheet = folder / "searches.png"
    save_sheet(draw(searches, test), sheet)
    return Demo(folder, len(test.images), measure_against_truth(model, embedded), tuple(searches), sheet)


def draw(searches: Sequence[Search], dataset: CaptionDataset) -> Image.Image:
    """Draw one row of hits per search, the probability below each, relevant ones in green."""
    big, small = (ImageFont.load_default(size) for size in (15, 13))
    width, height = GAP + HITS * (PICTURE + GAP), 54 + PICTURE + 34
    sheet = Image.new("RGB", (width, GAP + height * len(searches)), PAPER)
    pen = ImageDraw.Draw(sheet)
    for number, search in enumerate(searches):
        top = GAP + number * height
        pen.text((GAP, top), _fitted(f"“{search.text}”", big, width), font=big, fill=INK)
        pen.text((GAP, top + 23), search.summary, font=small, fill=FAINT)
        rows = zip(search.rows, search.hits, search.relevant, strict=True)
        for column, (row, hit, relevant) in enumerate(rows):
            left = GAP + column * (PICTURE + GAP)
            colour = RIGHT if relevant else WRONG
            sheet.paste(dataset.images.load(row).resize((PICTURE, PICTURE)), (left, top + 48))
            box = (left - 2, top + 46, left + PICTURE + 1, top + 49 + PICTURE)
            pen.rectangle(box, outline=colour, width=2)
            text = f"p {hit.match_probability:.3f}  {'fits' if relevant else 'does not fit'}"
            pen.text((left, top + 54 + PICTURE), text, font=small, fill=colour)
    return sheet


def _require_shown(recipe: Recipe, splits: Sequence[str]) -> None:
    """Refuse a recipe without match probabilities, or whose data has not the splits."""
    method = methods.create(recipe.method.kind, **recipe.method.params)
    if not method.objective().score().is_log_probability:
        raise ConfigError(
            f'recipe "{recipe.name}": the demo shows match probabilities, got method '
            f'"{recipe.method.kind}", which has none. Choose another recipe, such as aviary.'
        )
    if missing := {"val", "test"} - set(splits):
        raise ConfigError(
            f'recipe "{recipe.name}": the demo needs the splits val and test, got data without '
            f"{' and '.join(sorted(missing))}. Choose another recipe, such as aviary."
        )


def _choose_queries(recipe: Recipe, dataset: CaptionDataset) -> tuple[list[str], Matches]:
    """A caption that matches few images, one that matches many, and one that matches none; and their matches."""
    counts = dataset.matches().counts
    few = np.flatnonzero((counts > 1) & (counts <= HITS))
    many = np.flatnonzero(counts >= len(dataset.images) // 4)
    written = dataset.unmatched(1)
    if not len(few) or not len(many) or written is None:
        raise ConfigError(
            f'recipe "{recipe.name}": the demo needs captions that match few images, many and '
            f"none, which {dataset.where} lacks. Choose a recipe on aviary."
        )
    chosen = [int(few[0]), int(many[0])]
    said = np.concatenate([dataset.said[chosen], written.said])
    texts = [*(dataset.captions[row] for row in chosen), *written.captions]
    return texts, Matches.from_facts(said, dataset.facts)


def _fitted(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: int) -> str:
    while font.getlength(text) > width - 2 * GAP:
        text = f"{text[:-3]}…”"
    return text

"""`pcme demo`: the main job from end to end, on the embedded world, in a few minutes.

Draws Aviary, trains, calibrates on the validation species, evaluates both directions on species
that were never seen, and searches: for something rare, something common, and something that is not
there. Everything lands in one folder.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64
from PIL import Image, ImageDraw, ImageFont

from pcme import data
from pcme.core.progress import Progress, silent
from pcme.data.problems import Problems
from pcme.data.sheet import save_sheet
from pcme.embedding import Gaussian
from pcme.evaluation import Embedded, embed_split
from pcme.model import Model, load
from pcme.recipes.schema import Recipe
from pcme.retrieval.matches import Matches
from pcme.training import Reporter, train
from pcme.uncertainty import Confidence
from pcme.uncertainty.calibrate import calibrate
from pcme.uncertainty.known_truth import measured

__all__ = ["Demo", "Hit", "Search", "run"]

HITS = 6

INK, FAINT, PAPER = (32, 36, 44), (118, 124, 136), (255, 255, 255)
RIGHT, WRONG = (34, 122, 82), (190, 50, 40)
PICTURE, GAP = 128, 10


@dataclass(frozen=True)
class Hit:
    """An image that was found: its number, the match probability, and whether it is one."""

    image: int
    p: float
    true: bool


@dataclass(frozen=True)
class Search:
    """A caption that was searched for; `wider` is the share of captions that are less wide."""

    caption: str
    hits: tuple[Hit, ...]
    expected: float
    matches: int
    wider: float | None
    answerable: bool

    @property
    def verdict(self) -> str:
        """What a person should be told."""
        if not self.answerable:
            return "nothing here matches"
        return f"about {self.expected:,.0f} images match"


@dataclass(frozen=True)
class Demo:
    """What the demo found."""

    folder: Path
    images: int
    """How many there were to search among."""
    figures: dict[str, float]
    searches: tuple[Search, ...]
    sheet: Path


def run(
    recipe: Recipe,
    folder: Path,
    *,
    reporter: Reporter | None = None,
    progress: Progress = silent,
) -> Demo:
    """Train (or go on with, or take, the run in `folder`), calibrate, evaluate on the test species,
    search.
    """
    train(recipe, folder, resume=True, reporter=reporter)
    model = load(folder)  # the best on the validation species, not the last
    world = data.create(recipe.data.kind, **recipe.data.params)
    sure = calibrate(folder, world.load("val")).confidence
    sure.save(folder)  # for `pcme search` with an index of it
    test = world.load("test")
    found = embed_split(
        model,
        test,
        Problems(strict=True),
        progress=progress,
    )
    searches = tuple(_searched(model, sure, found))
    sheet = folder / "searches.png"
    save_sheet(drawn(searches, found), sheet)
    return Demo(folder, len(test.images), measured(model, found), searches, sheet)


def drawn(searches: Sequence[Search], found: Embedded) -> Image.Image:
    """A row of hits for each search, the probability below each, right ones in green."""
    big, small = (ImageFont.load_default(size) for size in (15, 13))
    height = 54 + PICTURE + 34
    width = GAP + HITS * (PICTURE + GAP)
    sheet = Image.new("RGB", (width, GAP + height * len(searches)), PAPER)
    draw = ImageDraw.Draw(sheet)
    for row, search in enumerate(searches):
        top = GAP + row * height
        draw.text((GAP, top), _fitted(f"“{search.caption}”", big, width), font=big, fill=INK)
        draw.text((GAP, top + 23), _summary(search), font=small, fill=FAINT)
        for place, hit in enumerate(search.hits):
            left = GAP + place * (PICTURE + GAP)
            picture = found.dataset.images.load(hit.image).resize((PICTURE, PICTURE))
            colour = RIGHT if hit.true else WRONG
            sheet.paste(picture, (left, top + 48))
            box = (left - 2, top + 46, left + PICTURE + 1, top + 49 + PICTURE)
            draw.rectangle(box, outline=colour, width=2)
            mark = "fits" if hit.true else "does not fit"
            text = f"p {hit.p:.3f}  {mark}"
            draw.text((left, top + 54 + PICTURE), text, font=small, fill=colour)
    return sheet


def _searched(model: Model, sure: Confidence, found: Embedded) -> list[Search]:
    """Searches for a caption that fits few images, one that fits many, and one that fits none."""
    dataset = found.dataset
    counts = dataset.matches().counts
    few = int(np.flatnonzero((counts > 1) & (counts <= HITS))[0])
    many = int(np.flatnonzero(counts >= len(dataset.images) // 4)[0])
    texts, said = [dataset.captions[few], dataset.captions[many]], dataset.said[[few, many]]
    if (written := dataset.unmatched(1)) is not None:
        texts, said = [*texts, *written.captions], np.concatenate([said, written.said])
    truth = Matches.from_facts(said, dataset.facts)
    queries = model.encode_captions(texts)
    p = sure.probability(model.score()(queries, found.images))
    return [
        Search(
            text,
            tuple(
                Hit(int(i), float(row[i]), bool(true[i]))
                for i in np.argsort(-row, kind="stable")[:HITS]
            ),
            float(row.sum()),
            int(true.sum()),
            wider,
            sure.answerable(float(row.max()), gallery=len(row)),
        )
        for text, row, true, wider in zip(
            texts, p, truth.dense(), _wider(queries, found.captions, len(texts)), strict=True
        )
    ]


def _wider(queries: object, captions: object, count: int) -> list[float | None]:
    """The share of the split's captions that are narrower than each query; None without σ."""
    if not isinstance(queries, Gaussian) or not isinstance(captions, Gaussian):
        return [None] * count
    all_widths = np.sort(captions.uncertainty().numpy())
    places: Float64[np.ndarray, " q"] = np.searchsorted(all_widths, queries.uncertainty().numpy())
    return [float(place) / len(all_widths) for place in places]


def _summary(search: Search) -> str:
    width = "" if search.wider is None else f"; wider than {100 * search.wider:.0f} % of captions"
    return f"{search.verdict} (true: {search.matches:,}){width}"


def _fitted(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: int) -> str:
    while font.getlength(text) > width - 2 * GAP:
        text = f"{text[:-3]}…”"
    return text

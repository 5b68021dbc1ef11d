"""Fig. 4: four captions and four images that all fit each other, of which the data pairs each with one alone."""

import textwrap
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from pcme.analysis import Number, Result
from pcme.analysis.contact_sheet import central_square
from pcme.core.random import numpy_stream
from pcme.data.dataset import CaptionDataset
from pcme.data.sources import ImageSource
from pcme.errors import DataError
from pcme.plots import Figure, style
from pcme.reproduce.base import registry
from pcme.reproduce.sheets import Sheet, Source

FOUR = 4
SIDE, GAP, LINE = 1.46, 0.12, 0.17
"""Inches: the side of an image, the room between two, and the height of a line of text."""
WIDTH = 88
"""Characters of a line."""

Fitting = Callable[[int], Bool[np.ndarray, " n"]]
"""Caption → the images that it fits."""


@dataclass(frozen=True)
class Quartet(Result):
    """Images by their rows, captions in another order, and the image that each caption was written for."""

    images: tuple[int, ...]
    ids: tuple[str, ...]
    captions: tuple[str, ...]
    owner: tuple[int, ...]
    """The place among the images, per caption."""
    fits: tuple[tuple[bool, ...], ...]
    """Whether a caption fits an image, a row per caption."""
    why: str
    """What makes them fit."""
    fitting: float
    """Images that fit a caption of the split, on average."""

    def numbers(self) -> tuple[Number, ...]:
        """The pairs that fit and are not annotated, here and in the whole split."""
        fit = sum(map(sum, self.fits))
        return (
            Number("pairs that fit", float(fit), f"of {len(self.captions) * len(self.images)} pairs here"),
            Number(
                "pairs that fit and are not annotated",
                float(fit - len(self.captions)),
                "wrong where only a caption's own image counts",
            ),
            Number("images that fit a caption, mean of the split", self.fitting, "1: what is annotated is all"),
        )


@registry.register("fig4")
class Figure4(Sheet[Quartet]):
    """Four captions and four images that all fit each other."""

    where = "Fig. 4"
    differs = (
        "Chosen by the data and not by hand: on COCO by equal sets of object classes, on CUB by class, on Aviary by "
        "what a caption says."
    )
    result = Quartet
    title = "Captions and images that all fit"
    reading = "Which caption was written for which image? All sixteen pairs fit; the answer is the last line."
    shows_images = True

    def compute(self, source: Source) -> Quartet:
        """The first four that are found, from the captions that fit the fewest images, though four."""
        dataset = source.unseen
        fits, counts, why = _relation(dataset)
        generator = numpy_stream(0, "fig4")
        order = generator.permutation(len(dataset.captions))
        order = order[counts[order] >= FOUR]
        order = order[np.argsort(counts[order], kind="stable")]
        trials = ((first, apart) for apart in _passes(dataset) for first in order.tolist())
        found = (_four(dataset, fits, first, generator, apart=apart) for first, apart in trials)
        captions = next((four for four in found if four is not None), None)
        if captions is None:
            raise DataError(
                f"{dataset.where}: must have four images and captions that all fit, got none. "
                "Give more of it; on COCO, annotations/instances_val2014.json."
            )
        rows = dataset.caption_image[captions]
        shuffled = generator.permutation(FOUR).tolist()
        return Quartet(
            tuple(rows.tolist()),
            tuple(dataset.images.id(row) for row in rows.tolist()),
            tuple(dataset.captions[captions[place]] for place in shuffled),
            tuple(shuffled),
            tuple(tuple(fits(captions[place])[rows].tolist()) for place in shuffled),
            why(int(rows[0])),
            float(counts[counts > 0].mean()),
        )

    @style.styled
    def draw(self, found: Quartet, images: ImageSource | None = None) -> Figure:
        """The images in a row, the captions below, and the answer."""
        texts = [f"{'abcd'[n]})  {text}" for n, text in enumerate(found.captions)]
        pairs = ", ".join(f"{'ABCD'[owner]}: {'abcd'[n]}" for n, owner in sorted(enumerate(found.owner), key=_by_owner))
        texts.append(f"Annotated are {pairs}. All fit: {found.why}.")
        lines = [textwrap.wrap(text, WIDTH, subsequent_indent="     ") for text in texts]
        height = 0.34 + SIDE + 0.16 + LINE * sum(map(len, lines)) + 0.06 * len(lines)
        figure = style.blank(height, layout=None)
        sheet = figure.add_axes((0, 0, 1, 1))
        for n, row in enumerate(found.images):
            left = GAP + n * (SIDE + GAP)
            if images is not None and (pixels := central_square(images, row)) is not None:
                sheet.imshow(pixels, extent=(left, left + SIDE, 0.28 + SIDE, 0.28), aspect="auto")
            sheet.add_patch(style.patch("Rectangle", (left, 0.28), SIDE, SIDE, fill=False, edgecolor=style.FAINT))
            sheet.text(left, 0.15, "ABCD"[n], fontweight="bold", va="center")
        top = 0.28 + SIDE + 0.14
        for number, wrapped in enumerate(lines):
            answer = number == len(lines) - 1
            sheet.text(GAP, top, "\n".join(wrapped), va="top", color=style.FAINT if answer else style.INK)
            top += LINE * len(wrapped) + 0.06
        sheet.set(xlim=(0, style.WIDTH), ylim=(height, 0))
        sheet.set_axis_off()
        return figure


def _by_owner(pair: tuple[int, int]) -> int:
    return pair[1]


def _relation(dataset: CaptionDataset) -> tuple[Fitting, Int64[np.ndarray, " m"], Callable[[int], str]]:
    """What fits a caption, how many images that are, and why it fits, by the row of an image.

    Where each caption matches one image, equal labels decide, as for plausible matches with ζ = 0.
    """
    matches = dataset.matches()
    if matches.counts.max(initial=0) > 1 or dataset.labels is None:
        of_class = dataset.classes is not None and dataset.writer is None
        reason = _same_class(dataset) if of_class else _said
        return lambda caption: matches[[caption]].dense()[0], matches.counts, reason
    labels = np.asarray(dataset.labels.values, np.bool_)
    kinds, group = np.unique(labels, axis=0, return_inverse=True)
    group = group.reshape(-1)
    sizes = np.bincount(group) * kinds.any(1)  # images without any object fit nothing
    names = dataset.labels.names

    def shown(row: int) -> str:
        return "all show " + ", ".join(name for name, there in zip(names, labels[row], strict=True) if there)

    owner = dataset.caption_image
    return lambda caption: group == group[owner[caption]], sizes[group[owner]], shown


def _passes(dataset: CaptionDataset) -> tuple[bool, ...]:
    """Four of different classes are looked for first, unless captions fit their class alone."""
    return (True, False) if dataset.classes is None or dataset.writer is not None else (False,)


def _said(_: int) -> str:
    return "each caption is true of all four"


def _same_class(dataset: CaptionDataset) -> Callable[[int], str]:
    assert dataset.classes is not None
    classes = dataset.classes
    return lambda row: f"all are of class {classes.names[int(classes.values[row])]}"


def _four(
    dataset: CaptionDataset, fits: Fitting, first: int, generator: np.random.Generator, *, apart: bool
) -> Int64[np.ndarray, " 4"] | None:
    """Captions of different images and texts, the first of them given, of which each fits all images.

    The images are `apart` if no two are of one class.
    """
    owner, allowed = dataset.caption_image, fits(first)
    kind = dataset.clusters[owner] if apart else owner
    chosen, texts = [first], {dataset.captions[first]}
    candidates = generator.permutation(np.flatnonzero(allowed[owner]))
    for caption in candidates.tolist():
        if kind[caption] in kind[chosen] or not allowed[owner[caption]]:
            continue
        there, text = fits(caption), dataset.captions[caption]
        if there[owner[[*chosen, caption]]].all() and text not in texts:
            chosen.append(caption)
            texts.add(text)
            allowed = allowed & there
            if len(chosen) == FOUR:
                return np.array(chosen)
    return None

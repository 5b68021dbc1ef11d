"""algebra: does mixing intersect, and does erasing include? Paper: §4.4, Fig. 8.

The paper shows two images; here each relation is a number of every pair, by `geometry.cover`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64, UInt8
from torch import Tensor

from pcme.analysis import base, geometry
from pcme.analysis.base import CONTENT, PIXELS, SIGMA, WORDS, Analysis, Number, Result, Side, Subject, registry, sides
from pcme.analysis.geometry import Shape
from pcme.core.progress import Progress, silent
from pcme.core.random import numpy_stream
from pcme.data.dataset import CaptionDataset
from pcme.data.images.transforms import cutmix, erase
from pcme.data.text.perturbation import erase_words
from pcme.embedding import Embedding, Gaussian
from pcme.errors import ConfigError
from pcme.evaluation.bootstrap import Estimate, estimate, weighted_mean
from pcme.evaluation.subject import require_sigma
from pcme.plots import charts, style
from pcme.scores.combine import product
from pcme.uncertainty.perturbation import embed_words

FEWEST = 2
"""Fewer pairs say nothing."""
BARS = {"forward": "inner in outer", "backward": "outer in inner", "chance": "another pair's"}


@dataclass(frozen=True)
class Projected:
    """A pair with a score near the median, in the main plane of all items of its kind."""

    shapes: tuple[Shape, ...]
    texts: tuple[str, ...]
    """The captions, or the images' ids."""


@dataclass(frozen=True)
class SetRelation:
    """ "The inner lies in the outer", over many pairs."""

    name: str
    inner: str
    outer: str
    pairs: int
    forward: Estimate
    """cover(inner in outer)."""
    backward: Estimate
    """cover(outer in inner): as large where the two are merely alike."""
    chance: Estimate
    """cover(inner in the outer of another pair)."""
    holds: Estimate
    """The share of pairs whose forward cover is the largest of the three."""
    example: Projected


@dataclass(frozen=True)
class SetRelations(Result):
    """The relations that the data allows to test."""

    relations: tuple[SetRelation, ...]

    def numbers(self) -> tuple[Number, ...]:
        """How often each relation holds, and by how much."""
        return tuple(
            Number.of(
                f"{relation.name}: holds for a share of pairs",
                relation.holds,
                f"cover {relation.forward.value:.3f}, reversed {relation.backward.value:.3f}, "
                f"of another pair {relation.chance.value:.3f}",
            )
            for relation in self.relations
        )


@registry.register("algebra")
@dataclass(frozen=True)
class AlgebraAnalysis(Analysis[SetRelations], at_least={"pairs": 2}):
    """Set algebra: mixing is intersection, erasing is inclusion, each with a score. Paper: Fig. 8.

    An image (caption) should lie in the same one with `erased` of its pixels (words) gone; what two images have in
    common in the two mixed; two captions of an image joined in both.
    """

    needs = (SIGMA, CONTENT)
    reading = (
        "Above, an example of each relation, near the middle of all by its score, in the plane in which items differ "
        "most (50 % ellipses). Below, the share of one's mass that the other covers: the relation holds where the "
        "first bar is longer than the others."
    )

    pairs: int = 200
    erased: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.erased < 1:
            raise ConfigError(f"erased: must lie between 0 and 1, got {self.erased}.")

    def compute(self, subject: Subject, progress: Progress = silent) -> SetRelations:
        """Images and captions, erased and mixed, where there are pixels and words."""
        images, captions = sides(subject)
        jobs: list[tuple[Callable[[Subject, Side], SetRelation | None], Side]] = []
        if PIXELS.lacking(subject) is None:
            jobs += [(self._erased_images, images), (self._mixed_images, images)]
        if WORDS.lacking(subject) is None:
            jobs += [(self._erased_captions, captions), (self._joined_captions, captions)]
        relations = []
        for done, (job, side) in enumerate(jobs, start=1):
            relations.append(job(subject, side))
            progress("queries", done, len(jobs))
        return SetRelations(tuple(relation for relation in relations if relation is not None))

    @style.styled
    def draw(self, result: SetRelations, images: object = None) -> style.Figure:
        """An example of each relation in the plane, and the covers of all pairs below."""
        rows = math.ceil(len(result.relations) / 2)
        figure, (above, below) = style.divided(3.1 * rows + 3.0, heights=(3.1 * rows, 3.0))
        panels = style.panels_of(above, rows, 2)
        for axes, relation in zip(panels, result.relations, strict=False):
            _draw_example(axes, relation)
        for axes in panels[len(result.relations) :]:
            axes.set_axis_off()
        _draw_covers(style.panels_of(below)[0], result.relations)
        return figure

    def _erased_images(self, subject: Subject, side: Side) -> SetRelation:
        rows = base.sample_rows(len(side.queries), self.pairs, "algebra", "erased images")
        erased = [erase(_pixels(subject, i), self.erased, numpy_stream(0, "algebra", "erased", i)) for i in rows]
        names = [(subject.embedded.dataset.images.id(i),) for i in rows]
        return _in_erased("an image", side, rows, subject.model.encode_images(erased), names)

    def _erased_captions(self, subject: Subject, side: Side) -> SetRelation:
        texts, split = subject.embedded.dataset.captions, subject.model.tokeniser.split
        rows = base.sample_rows(len(texts), self.pairs, "algebra", "erased captions")
        erased = [erase_words(split(texts[i]), numpy_stream(0, "algebra", "words", i), self.erased) for i in rows]
        names = [(texts[i],) for i in rows]
        return _in_erased("a caption", side, rows, embed_words(subject.model, erased), names)

    def _mixed_images(self, subject: Subject, side: Side) -> SetRelation | None:
        """None where there are too few images for two pairs that share none."""
        ids = subject.embedded.dataset.images.id
        couples = _couples(len(side.queries), numpy_stream(0, "algebra", "first images"), self.pairs)
        if len(couples) < FEWEST:
            return None
        pixels = [[_pixels(subject, i) for i in pair] for pair in couples.tolist()]
        halves = [cutmix(a, b, 0.5, numpy_stream(0, "algebra", "mixed", i))[0] for i, (a, b) in enumerate(pixels)]
        mixed = require_sigma(subject.model.encode_images(halves))
        one, other = (side.queries[column.tolist()] for column in couples.T)
        names = ("what two images share lies in the two mixed", "their intersection", "mixed")
        operands, shown = (product([one, other]), [mixed]), (("image A", one), ("image B", other), ("mixed", mixed))
        texts = [(ids(i), ids(j)) for i, j in couples.tolist()]
        return related(names, operands, shown, texts, side.clusters[couples[:, 0]], side.queries)

    def _joined_captions(self, subject: Subject, side: Side) -> SetRelation | None:
        """None where no image has two captions."""
        dataset, split = subject.embedded.dataset, subject.model.tokeniser.split
        twins = _twins(dataset, numpy_stream(0, "algebra", "twins"), self.pairs)
        if len(twins) < FEWEST:
            return None
        texts = [(dataset.captions[i], dataset.captions[j]) for i, j in twins.tolist()]
        words = [[*split(first), "and", *split(second)] for first, second in texts]
        joined = require_sigma(embed_words(subject.model, words))
        one, other = (side.queries[column.tolist()] for column in twins.T)
        names = ("two captions of an image, joined, lie in both", "joined", "the caption")
        operands, shown = (joined, [one, other]), (("caption A", one), ("caption B", other), ("joined", joined))
        return related(names, operands, shown, texts, side.clusters[twins[:, 0]], side.queries)


def related(
    names: tuple[str, str, str],
    operands: tuple[Gaussian, Sequence[Gaussian]],
    shown: Sequence[tuple[str, Gaussian]],
    texts: Sequence[tuple[str, ...]],
    clusters: Int64[np.ndarray, " n"],
    among: Gaussian,
) -> SetRelation:
    """The covers of all pairs, and a pair near the median, in the main plane of the items it is `among`.

    The inner should lie in each of several outers: the outer that covers it least counts. No two pairs in succession
    may share an item. `names` are those of the relation, its inner and its outer.
    """
    inner, outers = operands
    covers = geometry.least_favourable([geometry.pair_covers(inner, outer) for outer in outers])
    margin = geometry.cover_margin(covers)
    typical = int(np.argsort(margin, kind="stable")[len(margin) // 2])
    shapes = geometry.project([(label, items[typical]) for label, items in shown], geometry.main_plane(among))
    forward, backward, chance, holds = (estimate(weighted_mean(v), clusters) for v in (*covers, margin > 0))
    example = Projected(shapes, texts[typical])
    return SetRelation(*names, len(inner), forward, backward, chance, holds, example)


def _in_erased(item: str, side: Side, rows: list[int], erased: Embedding, texts: Sequence[tuple[str]]) -> SetRelation:
    """Items ("an image") in the same ones with a part erased."""
    label, whole, spoilt = item.split()[-1], side.queries[rows], require_sigma(erased)
    names = (f"{item} lies in the same one, partly erased", f"the {label}", "erased")
    shown = ((label, whole), ("erased", spoilt))
    return related(names, (whole, [spoilt]), shown, texts, side.clusters[rows], side.queries)


def _pixels(subject: Subject, image: int) -> UInt8[Tensor, "3 h w"]:
    return subject.model.transform(subject.embedded.dataset.images.load(image))


def _couples(items: int, generator: np.random.Generator, count: int) -> Int64[np.ndarray, "n 2"]:
    """Pairs of which no two share an item, so that one can be the control of another."""
    pairs = min(count, items // 2)
    return generator.permutation(items)[: 2 * pairs].reshape(2, pairs).T


def _twins(dataset: CaptionDataset, generator: np.random.Generator, count: int) -> Int64[np.ndarray, "n 2"]:
    """Pairs of different captions of one image, one pair per image."""
    pairs = []
    for image in generator.permutation(len(dataset.images)).tolist():
        rows = np.flatnonzero(dataset.caption_image == image)
        if len(rows) > 1 and dataset.captions[rows[0]] != dataset.captions[rows[1]]:
            pairs.append((rows[0], rows[1]))
        if len(pairs) == count:
            break
    return np.array(pairs, np.int64).reshape(-1, 2)


def _draw_example(axes: style.Axes, relation: SetRelation) -> None:
    handles = [geometry.add_ellipse(axes, shape, n) for n, shape in enumerate(relation.example.shapes)]
    axes.set_title(_wrapped(relation.name), fontsize=8.5)
    axes.set(xlabel="first axis of the plane", ylabel="second axis")
    axes.set_aspect("equal", adjustable="datalim")
    axes.autoscale_view()
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=3)


def _draw_covers(axes: style.Axes, relations: Sequence[SetRelation]) -> None:
    series = [
        base.interval_bars(name, [getattr(relation, field) for relation in relations]) for field, name in BARS.items()
    ]
    groups = [f"{_wrapped(r.name)}\n(holds for {100 * r.holds.value:.0f} % of {r.pairs})" for r in relations]
    charts.add_bars(axes, groups, series, horizontal=True)
    axes.set(xlabel="share of the mass that is covered, mean over dimensions", xlim=(0, 1))
    axes.axvline(0.95, color="black", linestyle=":", linewidth=1.2, label="an item in itself")
    axes.figure.legend(loc="outside lower center", ncols=4)


def _wrapped(name: str) -> str:
    """In two lines, at the space nearest to the middle."""
    spaces = [index for index, letter in enumerate(name) if letter == " "]
    middle = min(spaces, key=lambda index: abs(index - len(name) / 2), default=None)
    return name if middle is None else f"{name[:middle]}\n{name[middle + 1 :]}"

"""The contact sheet: random images of each split with their captions, to look at before any training."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path

import numpy as np
from jaxtyping import Int64
from PIL import Image, ImageDraw, ImageFont

from pcme.core import files
from pcme.core.random import numpy_stream
from pcme.data.dataset import CaptionDataset
from pcme.data.images.decoding import ImageError
from pcme.data.problems import Problems
from pcme.errors import ConfigError

CELL, PICTURE, GAP = 232, 232, 8
CAPTIONS, LINES, READ = 3, 3, 400
TITLE, TEXT, SMALL = 20, 12, 11
INK, FAINT, PAPER, RULE = (32, 36, 44), (118, 124, 136), (255, 255, 255), (214, 218, 224)
ACCENTS = ((36, 94, 166), (176, 84, 20), (34, 122, 82), (140, 46, 120))


def contact_sheet(
    splits: Sequence[CaptionDataset], problems: Problems, *, images: int = 12, columns: int = 6, seed: int = 0
) -> Image.Image:
    """A sheet with `images` random images of each split, and captions with |τ(c)|, how many images of it they fit."""
    bands = []
    for dataset, accent in zip(splits, cycle(ACCENTS)):
        order = numpy_stream(seed, "sheet", dataset.where).permutation(len(dataset.images))
        band = _Band(dataset, dataset.multiplicity(), accent, problems)
        bands.append(band.draw(np.sort(order[:images]), columns))
    return _stacked(bands)


def save_sheet(sheet: Image.Image, path: Path) -> None:
    """Write the sheet in the format its name asks for, whole or not at all."""
    kind = Image.registered_extensions().get(path.suffix.lower())
    if kind not in ("PNG", "JPEG", "WEBP"):
        raise ConfigError(f"{path}: not a name of an image. Use .png, .jpg or .webp.")
    try:
        with files.replacing(path) as draft:
            sheet.save(draft, kind)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written, {error.strerror or error}.") from error


@dataclass(frozen=True, eq=False)
class _Band:
    """One split on the sheet: a header and its cells, in one accent colour."""

    dataset: CaptionDataset
    counts: Int64[np.ndarray, " m"]
    accent: tuple[int, int, int]
    problems: Problems

    def draw(self, indices: Int64[np.ndarray, " n"], columns: int) -> Image.Image:
        cells = [self._cell(index) for index in indices.tolist()]
        width = GAP + columns * (CELL + GAP)
        rows = [self._header(width)]
        for start in range(0, len(cells), columns):
            in_row = cells[start : start + columns]
            row = Image.new("RGB", (width, max(cell.height for cell in in_row)), PAPER)
            for column, cell in enumerate(in_row):
                row.paste(cell, (GAP + column * (CELL + GAP), 0))
            rows.append(row)
        return _stacked(rows)

    def _header(self, width: int) -> Image.Image:
        header = Image.new("RGB", (width, 44), PAPER)
        draw = ImageDraw.Draw(header)
        draw.rectangle((0, 0, width, 3), fill=self.accent)
        draw.text((GAP, 10), self.dataset.where, font=_font(TITLE), fill=self.accent)
        facts = (
            f"{len(self.dataset.images):,} images, {len(self.dataset.captions):,} captions; the number beside a "
            f"caption is how many images it fits: from {self.counts.min():,} to {self.counts.max():,}"
        )
        left = GAP + draw.textlength(self.dataset.where, font=_font(TITLE)) + 16
        draw.text((left, 17), facts, font=_font(TEXT), fill=FAINT)
        return header

    def _cell(self, index: int) -> Image.Image:
        """An image with its id, and its captions with their multiplicity."""
        lines = [
            (line, first, f"{self.counts[caption]:,}")
            for caption in self._captions(index)
            for first, line in _wrapped(self.dataset.captions[caption], CELL - 52)
        ]
        cell = Image.new("RGB", (CELL, PICTURE + 24 + 15 * len(lines) + 14), PAPER)
        draw = ImageDraw.Draw(cell)
        cell.paste(self._picture(index), (0, 0))
        name = _clipped(self.dataset.images.id(index).rpartition("/")[2][:READ], SMALL, CELL)
        draw.text((0, PICTURE + 5), name, font=_font(SMALL), fill=FAINT)
        for number, (line, first, count) in enumerate(lines):
            top = PICTURE + 24 + 15 * number
            if first:
                draw.text((42, top), count, font=_font(TEXT), fill=self.accent, anchor="ra")
            draw.text((50, top), line, font=_font(TEXT), fill=INK)
        return cell

    def _captions(self, index: int) -> list[int]:
        """The most specific caption of the image, a middling and the most general one."""
        captions = np.flatnonzero(self.dataset.caption_image == index)
        ranked = captions[np.argsort(self.counts[captions], kind="stable")]
        return [int(ranked[i]) for i in np.unique(np.linspace(0, len(ranked) - 1, CAPTIONS).round().astype(int))]

    def _picture(self, index: int) -> Image.Image:
        frame = Image.new("RGB", (CELL, PICTURE), (244, 245, 247))
        try:
            image = self.dataset.images.load(index)
        except ImageError as error:
            self.problems.add(error.kind, self.dataset.images.id(index), str(error), meaning=error.meaning)
            draw = ImageDraw.Draw(frame)
            draw.rectangle((0, 0, CELL - 1, PICTURE - 1), outline=RULE)
            draw.text((CELL // 2, PICTURE // 2), error.kind, font=_font(TEXT), fill=FAINT, anchor="mm")
            return frame
        scale = min(CELL / image.width, PICTURE / image.height)
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        frame.paste(image.resize(size, Image.Resampling.LANCZOS), ((CELL - size[0]) // 2, (PICTURE - size[1]) // 2))
        return frame


def _stacked(images: Sequence[Image.Image]) -> Image.Image:
    """One image below the other."""
    stack = Image.new("RGB", (max(image.width for image in images), sum(image.height for image in images)), PAPER)
    top = 0
    for image in images:
        stack.paste(image, (0, top))
        top += image.height
    return stack


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _wrapped(text: str, width: int) -> list[tuple[bool, str]]:
    """(is the first, line) of the text broken at words; cut with an ellipsis after LINES lines."""
    lines = [""]
    for word in text[:READ].split():
        longer = f"{lines[-1]} {word}".strip()
        if _font(TEXT).getlength(longer) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], f"{lines[LINES - 1]} …"]
    return [(number == 0, _clipped(line, TEXT, width)) for number, line in enumerate(lines)]


def _clipped(line: str, size: int, width: int) -> str:
    font = _font(size)
    if font.getlength(line) <= width:
        return line
    while line and font.getlength(f"{line}…") > width:
        line = line[:-1]
    return f"{line}…"

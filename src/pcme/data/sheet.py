"""The contact sheet: some images of each split with their captions, and how much each fits.

A look at the data before any training: are captions and images paired, is the split the right one,
how ambiguous are the captions?
"""

from collections.abc import Sequence
from dataclasses import dataclass
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
INK, FAINT, PAPER, RULE = (32, 36, 44), (118, 124, 136), (255, 255, 255), (214, 218, 224)
ACCENTS = ((36, 94, 166), (176, 84, 20), (34, 122, 82), (140, 46, 120))


@dataclass(frozen=True)
class _Fonts:
    title: ImageFont.FreeTypeFont | ImageFont.ImageFont
    text: ImageFont.FreeTypeFont | ImageFont.ImageFont
    small: ImageFont.FreeTypeFont | ImageFont.ImageFont


def contact_sheet(
    splits: Sequence[CaptionDataset], problems: Problems, *, images: int = 12, columns: int = 6, seed: int = 0
) -> Image.Image:
    """A sheet with `images` random images of each split, a few captions each.

    Beside every caption stands how many images of its split it is true of, |τ(c)|; the captions
    shown are the most specific, a middling and the most general one of the image.
    """
    fonts = _Fonts(*(ImageFont.load_default(size) for size in (20, 12, 11)))
    bands = [
        _band(dataset, problems, fonts, ACCENTS[place % len(ACCENTS)], images, columns, seed)
        for place, dataset in enumerate(splits)
    ]
    width = max(band.width for band in bands)
    sheet = Image.new("RGB", (width, sum(band.height for band in bands)), PAPER)
    top = 0
    for band in bands:
        sheet.paste(band, (0, top))
        top += band.height
    return sheet


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


def _band(
    dataset: CaptionDataset,
    problems: Problems,
    fonts: _Fonts,
    accent: tuple[int, int, int],
    images: int,
    columns: int,
    seed: int,
) -> Image.Image:
    """One split: a header and its cells."""
    order = numpy_stream(seed, "sheet", dataset.where).permutation(len(dataset.images))
    picked = np.sort(order[: min(images, len(order))])
    counts = dataset.multiplicity()
    cells = [_cell(dataset, int(i), counts, problems, fonts, accent) for i in picked]
    rows = [cells[start : start + columns] for start in range(0, len(cells), columns)]
    heights = [max(cell.height for cell in row) for row in rows]
    header = 44
    band = Image.new("RGB", (GAP + columns * (CELL + GAP), header + sum(heights)), PAPER)
    _header(ImageDraw.Draw(band), dataset, counts, fonts, accent, band.width)
    top = header
    for row, height in zip(rows, heights, strict=True):
        for column, cell in enumerate(row):
            band.paste(cell, (GAP + column * (CELL + GAP), top))
        top += height
    return band


def _header(
    draw: ImageDraw.ImageDraw,
    dataset: CaptionDataset,
    counts: Int64[np.ndarray, " m"],
    fonts: _Fonts,
    accent: tuple[int, int, int],
    width: int,
) -> None:
    draw.rectangle((0, 0, width, 3), fill=accent)
    draw.text((GAP, 10), dataset.where, font=fonts.title, fill=accent)
    facts = (
        f"{len(dataset.images):,} images, {len(dataset.captions):,} captions; the number beside a "
        f"caption is how many images it fits: from {counts.min():,} to {counts.max():,}"
    )
    left = GAP + draw.textlength(dataset.where, font=fonts.title) + 16
    draw.text((left, 17), facts, font=fonts.text, fill=FAINT)


def _cell(
    dataset: CaptionDataset,
    index: int,
    counts: Int64[np.ndarray, " m"],
    problems: Problems,
    fonts: _Fonts,
    accent: tuple[int, int, int],
) -> Image.Image:
    """An image with its id, and its captions with their multiplicity."""
    lines = [
        (line, first, f"{counts[caption]:,}")
        for caption in _shown(dataset, index, counts)
        for first, line in _wrapped(dataset.captions[caption], fonts.text, CELL - 52)
    ]
    cell = Image.new("RGB", (CELL, PICTURE + 24 + 15 * len(lines) + 14), PAPER)
    draw = ImageDraw.Draw(cell)
    cell.paste(_picture(dataset, index, problems, fonts), (0, 0))
    name = _clipped(dataset.images.id(index).rpartition("/")[2][:READ], fonts.small, CELL)
    draw.text((0, PICTURE + 5), name, font=fonts.small, fill=FAINT)
    for place, (line, first, count) in enumerate(lines):
        top = PICTURE + 24 + 15 * place
        if first:
            draw.text((42, top), count, font=fonts.text, fill=accent, anchor="ra")
        draw.text((50, top), line, font=fonts.text, fill=INK)
    return cell


def _shown(dataset: CaptionDataset, index: int, counts: Int64[np.ndarray, " m"]) -> Int64[np.ndarray, " k"]:
    own = np.flatnonzero(dataset.caption_image == index)
    ranked = own[np.argsort(counts[own], kind="stable")]
    places = np.unique(np.linspace(0, len(ranked) - 1, CAPTIONS).round().astype(int))
    shown: Int64[np.ndarray, " k"] = ranked[places]
    return shown


def _picture(dataset: CaptionDataset, index: int, problems: Problems, fonts: _Fonts) -> Image.Image:
    frame = Image.new("RGB", (CELL, PICTURE), (244, 245, 247))
    try:
        image = dataset.images.load(index)
    except ImageError as error:
        problems.add(error.kind, dataset.images.id(index), str(error), meaning=error.meaning)
        draw = ImageDraw.Draw(frame)
        draw.rectangle((0, 0, CELL - 1, PICTURE - 1), outline=RULE)
        draw.text((CELL // 2, PICTURE // 2), error.kind, font=fonts.text, fill=FAINT, anchor="mm")
        return frame
    scale = min(CELL / image.width, PICTURE / image.height)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    frame.paste(image.resize(size, Image.Resampling.LANCZOS), ((CELL - size[0]) // 2, (PICTURE - size[1]) // 2))
    return frame


def _wrapped(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: int) -> list[tuple[bool, str]]:
    """(is the first, line) of the text broken at words; cut with an ellipsis after LINES lines."""
    lines = [""]
    for word in text[:READ].split():
        longer = f"{lines[-1]} {word}".strip()
        if font.getlength(longer) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    if len(lines) > LINES:
        lines = [*lines[: LINES - 1], f"{lines[LINES - 1]} …"]
    return [(place == 0, _clipped(line, font, width)) for place, line in enumerate(lines)]


def _clipped(line: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: int) -> str:
    if font.getlength(line) <= width:
        return line
    while line and font.getlength(f"{line}…") > width:
        line = line[:-1]
    return f"{line}…"

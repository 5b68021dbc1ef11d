import numpy as np
import pytest
from PIL import Image

from pcme.data import Problems
from pcme.data.dataset import CaptionDataset
from pcme.data.sheet import CELL, contact_sheet, save_sheet
from pcme.data.sources import Files
from pcme.errors import ConfigError
from tests.helpers import picture


def dataset(root, count=5, caption="a bird"):
    names = [picture(root / f"{number}.png", colour=(250, 0, 0)).name for number in range(count)]
    return CaptionDataset.by_image("toy", "test", Files(root, names), [caption] * 2 * count, np.arange(2 * count) // 2)


def reds(sheet):
    """How many cells hold one of the red pictures."""
    pixels = np.asarray(sheet).astype(int)
    red = (pixels[..., 0] > 200) & (pixels[..., 1] < 40) & (pixels[..., 2] < 40)
    return red.sum()


def test_more_images_make_more_red_and_more_splits_more_bands(tmp_path):
    data = dataset(tmp_path)
    two, four = (contact_sheet([data], Problems(), images=n, columns=4) for n in (2, 4))
    assert reds(four) == 2 * reds(two) > 0
    one, five = (contact_sheet([data] * n, Problems(), columns=6) for n in (1, 5))
    assert five.height == 5 * one.height
    assert one.width > 6 * CELL


def test_the_same_seed_shows_the_same_images(tmp_path):
    data = dataset(tmp_path, count=9)
    picture(tmp_path / "0.png", colour=(0, 0, 250))
    sheets = [np.asarray(contact_sheet([data], Problems(), images=2, seed=seed)) for seed in (0, 0, 1)]
    assert np.array_equal(sheets[0], sheets[1])
    assert not np.array_equal(sheets[0], sheets[2])


@pytest.mark.parametrize("caption", ["x" * 100_000, "wort " * 10_000, "\u4e2d\u6587 \u0000 \ufffd"])
def test_any_caption_can_be_drawn(tmp_path, caption):
    assert contact_sheet([dataset(tmp_path, count=1, caption=caption)], Problems()).height < 600


def test_an_unusable_image_is_drawn_as_such_and_reported(tmp_path):
    data = dataset(tmp_path, count=2)
    (tmp_path / "1.png").write_bytes(b"")
    problems = Problems()
    contact_sheet([data], problems)
    assert problems.counts == {"image-empty": 1}


def test_saving_is_whole_or_not_at_all(tmp_path):
    sheet = Image.new("RGB", (4, 4))
    save_sheet(sheet, tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as saved:
        assert saved.size == (4, 4)
    with pytest.raises(ConfigError, match="cannot be written"):
        save_sheet(sheet, tmp_path / "nowhere" / "a.png")
    with pytest.raises(ConfigError, match=r"Use \.png"):
        save_sheet(sheet, tmp_path / "a.gif")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]

"""The house style: told apart without colour, no trace in matplotlib's own settings."""

import itertools
import subprocess
import sys

import matplotlib as mpl
import pytest
from PIL import Image

from pcme import plots
from pcme.errors import ConfigError
from pcme.plots import style


def drawn():
    lines = [plots.Line("a", [1, 2], [3, 4], [2, 3], [4, 5]), plots.Line("b", [1, 2], [5, 6])]
    return plots.lines(lines, x_label="σ", y_label="R@1 (%)", log_x=True)


def luminance(colour):
    """Relative luminance of sRGB, as in WCAG 2."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def test_text_is_dark_enough_and_series_differ_without_their_colours():
    for looks in (style.MARKERS, style.DASHES, style.HATCHES):
        assert len(set(looks)) == len(looks) == len(style.PALETTE)
    assert contrast("#ffffff", style.INK) > 7
    assert contrast("#ffffff", style.FAINT) > 4
    assert all(contrast(*pair) > 1.3 for pair in itertools.combinations(style.PALETTE[:3], 2))


def test_drawing_leaves_no_trace_and_ignores_the_users_own_style():
    plain = plots.svg(drawn())
    with mpl.rc_context({"axes.facecolor": "red", "font.size": 30, "svg.hashsalt": "x"}):
        before = dict(mpl.rcParams)
        assert plots.svg(drawn()) == plain
        assert dict(mpl.rcParams) == before


def test_both_files_are_written_to_a_folder_that_is_there(tmp_path):
    vector, raster = plots.save(drawn(), tmp_path / "v1.2")
    assert (vector.name, raster.name) == ("v1.2.svg", "v1.2.png")
    assert vector.read_text().startswith("<svg")
    with Image.open(raster) as image:
        assert image.width == 960
    with pytest.raises(ConfigError, match="folder"):
        plots.save(drawn(), tmp_path / "none" / "bins")


@pytest.mark.parametrize(("value", "text"), [(0.001, "0.001"), (1, "1"), (1000, "1000"), (1e4, "10k"), (2e7, "20M")])
def test_ticks_are_short(value, text):
    assert style._plain_number(value, 0) == text


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)


def test_without_matplotlib_one_is_told_what_to_install():
    done = run(
        "import sys; sys.modules['matplotlib'] = None\nfrom pcme import PcmeError, plots\n"
        "try:\n    plots.bars(['one'], [plots.Bars('a', [1.0])], y_label='y')\n"
        "except PcmeError as error:\n    print(error)"
    )
    assert "pip install 'pcme[plots]'" in done.stdout


def test_pyplot_is_never_loaded_and_analyses_need_no_matplotlib():
    done = run(
        "import sys\nfrom pcme import analysis, plots\nanalysis.names()\n"
        "assert 'matplotlib' not in sys.modules\n"
        "plots.lines([plots.Line('a', [1], [2])], x_label='x', y_label='y')\n"
        "assert 'matplotlib.pyplot' not in sys.modules\nprint('fine')"
    )
    assert done.stdout == "fine\n", done.stderr

"""The page: whole by itself, and safe whatever the data say."""

import dataclasses
import math
from html.parser import HTMLParser

import pytest

from pcme.analysis import Number
from pcme.errors import ConfigError
from pcme.showcase import page, require_writable, write_page


class Seen(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.addresses, self.ids, self.links, self.text, self.open = [], [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "data")]
        self.links += [found["href"]] if "href" in found else []
        self.ids += [found["id"]] if "id" in found else []
        if tag == "img":
            assert found.get("alt")
        if tag not in ("img", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(text):
    seen = Seen()
    seen.feed(text)
    assert seen.open == []
    return seen


def test_it_needs_nothing_but_itself_and_says_the_figures(report):
    seen = read(page(report))
    assert "script" not in seen.tags
    assert "link" not in seen.tags
    assert all(address.startswith("data:image/") for address in seen.addresses)
    assert {link.removeprefix("#") for link in seen.links} <= set(seen.ids)
    assert len([a for a in seen.addresses if "svg" in a]) == len(report.figures)
    text = " ".join(seen.text)
    value = 100 * report.evaluation.t2i.metrics["r_precision"]
    assert f"{value:.1f} %" in text
    assert "pcme train aviary-tiny" in text
    assert report.captions[-1].text in text


def test_numbers_stand_with_their_intervals_as_people_read_them(report):
    text = page(report)
    assert "Number(" not in text
    numbers = [number for figure in report.figures for number in figure.numbers]
    some = next(n for n in numbers if n.low is not None and math.isfinite(n.low))
    assert f">{some.value:.3f} [{some.low:.3f}, {some.high:.3f}]<" in text
    nothing = dataclasses.replace(report.figures[0], numbers=(Number("ρ", math.nan, "none"),))
    assert '<td class="number">–</td>' in page(dataclasses.replace(report, figures=(nothing,)))


def test_how_the_queries_were_chosen_and_what_was_left_out_is_said(report, points_report):
    steps, chance = "from the narrowest to the widest", "were drawn at random"
    wide, points = page(report), page(dataclasses.replace(report, has_sigma=False))
    assert (steps in wide, chance in wide) == (True, False)
    assert (steps in points, chance in points) == (False, True)
    assert "Left out:" in " ".join(read(page(points_report)).text)


def test_what_data_say_is_escaped(report):
    evil = dataclasses.replace(report.captions[0], text="<script>alert(1)</script>")
    seen = read(page(dataclasses.replace(report, captions=(evil, *report.captions[1:]))))
    assert "script" not in seen.tags


def test_it_is_written_whole_or_not_at_all_which_is_known_before(report, tmp_path):
    path = write_page(report, tmp_path / "new" / "report.html")
    assert path.read_text(encoding="utf-8") == page(report)
    for wrong in (tmp_path, path / "below-a-file.html"):
        with pytest.raises(ConfigError, match="cannot be written"):
            require_writable(wrong)
    with pytest.raises(ConfigError, match="cannot be written"):
        write_page(report, path / "below-a-file.html")
    require_writable(tmp_path / "other" / "report.html")
    assert not list((tmp_path / "other").iterdir())


def test_labels_stand_on_the_page_where_the_split_names_them(report):
    assert "PMRP" not in page(report)
    assert "PMRP" in page(dataclasses.replace(report, readings=("pmrp", "1k")))

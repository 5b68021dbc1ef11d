"""The demo trains, judges on unseen species and searches; what it says of the truth is true."""

import sys

import numpy as np
import pytest
from PIL import Image

from pcme import recipes
from pcme.data.aviary.dataset import Aviary
from pcme.data.text.tokens import tokenise
from pcme.errors import ConfigError
from pcme.evaluation.open_run import open_run
from pcme.showcase import demo
from pcme.showcase.searches import by_captions
from pcme.training import Reporter
from pcme.uncertainty import Confidence
from tests.helpers import picture, record

TINY = recipes.get("aviary-tiny")


@pytest.fixture(scope="module")
def found(tmp_path_factory, one_thread):
    return demo.run(TINY, tmp_path_factory.mktemp("demo") / "run")


def test_hits_of_something_rare_common_or_absent_are_ranked_and_judged_by_the_truth(found):
    rare, common, absent = found.searches
    assert 1 < rare.matches <= demo.HITS
    assert common.matches >= found.images // 4
    assert absent.matches == 0
    assert not any(absent.relevant)
    dataset = Aviary(**TINY.data.params).load("test")
    for search in found.searches:
        scores = [hit.score for hit in search.hits]
        assert scores == sorted(scores, reverse=True)
        said = dataset.writer.read(tokenise(search.text))
        for row, relevant in zip(search.rows, search.relevant, strict=True):
            facts = dataset.facts[row]
            assert relevant == all(s in (-1, f) for s, f in zip(said, facts, strict=True))


def test_it_reports_the_truth_and_draws_what_it_found(found):
    assert {"r_precision t2i", "sigma~matches", "no-match auroc"} <= set(found.figures)
    assert all(np.isfinite(value) for value in found.figures.values())
    with Image.open(found.sheet) as sheet:
        assert sheet.height > 3 * demo.PICTURE
    assert all(search.summary.isascii() for search in found.searches)  # the sheet has a glyph for every letter


def test_a_finished_run_is_taken_as_it_is_with_progress(found):
    tasks = set()

    class Watched(Reporter):
        def progress(self, task, done, total, /):
            tasks.add(task)

    before = (found.folder / "weights.safetensors").read_bytes()
    again = demo.run(TINY, found.folder, reporter=Watched())
    assert (found.folder / "weights.safetensors").read_bytes() == before
    assert again.figures == found.figures
    assert {"images", "captions"} <= tasks


def test_demo_report_and_search_give_one_answer(found):
    shown = by_captions(open_run(found.folder), Confidence.load(found.folder))[-1]
    (demonstrated,) = [search for search in found.searches if search.text == shown.text]
    answer = record("search", found.folder / demo.INDEX, shown.text, "--k", "6")
    assert [hit["id"] for hit in answer["hits"]] == demonstrated.hits.ids
    assert [hit.id for hit in shown.hits] == demonstrated.hits.ids
    ps = [hit.match_probability for hit in demonstrated.hits]
    assert [hit["match_probability"] for hit in answer["hits"]] == pytest.approx(ps)
    assert [hit.value for hit in shown.hits] == pytest.approx(ps)
    assert answer["calibrated"]
    assert answer["query"]["answerable"] == demonstrated.hits.query.answerable
    assert shown.verdict == demonstrated.verdict == "nothing here matches"
    assert answer["query"]["expected_matches"] == pytest.approx(shown.expected)


def test_a_recipe_that_cannot_be_shown_or_a_missing_library_is_refused_before_training(tmp_path, monkeypatch):
    for number in range(10):
        picture(tmp_path / f"data/{number}.png", colour=(25 * number, 60, 40))
        (tmp_path / f"data/{number}.txt").write_text(f"bird {number}\n")
    own = f'data={{"kind": "own", "root": "{tmp_path / "data"}"}}'
    for change, word in ((own, "splits"), ('method={"kind": "infonce"}', "probabilities")):
        with pytest.raises(ConfigError, match=word):
            demo.run(TINY.changed([change]), tmp_path / "run")
    monkeypatch.setitem(sys.modules, "lancedb", None)
    with pytest.raises(ConfigError, match=r"pip install 'pcme\[index\]'"):
        demo.run(TINY, tmp_path / "run")
    assert not (tmp_path / "run").exists()

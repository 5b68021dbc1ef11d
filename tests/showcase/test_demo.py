"""The demo trains, judges on unseen species and searches; what it says of the truth is true."""

import numpy as np
import pytest
import torch
from PIL import Image

from pcme import recipes
from pcme.data.aviary.dataset import Aviary
from pcme.data.text.tokens import tokenise
from pcme.showcase import demo

TINY = recipes.get("aviary-tiny")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield demo.run(TINY, tmp_path_factory.mktemp("demo") / "run")
    torch.set_num_threads(threads)


def test_it_searches_for_something_rare_something_common_and_something_absent(found):
    rare, common, absent = found.searches
    assert 1 < rare.matches <= demo.HITS
    assert common.matches >= found.images // 4
    assert absent.matches == 0
    assert not any(hit.true for hit in absent.hits)


def test_hits_are_ranked_and_judged_by_the_truth(found):
    dataset = Aviary(**TINY.data.params).load("test")
    for search in found.searches:
        ps = [hit.p for hit in search.hits]
        assert ps == sorted(ps, reverse=True)
        said = dataset.writer.read(tokenise(search.caption))
        for hit in search.hits:
            facts = dataset.facts[hit.image]
            assert hit.true == all(s in (-1, f) for s, f in zip(said, facts, strict=True))


def test_it_reports_the_truth_and_draws_what_it_found(found):
    assert {"r_precision t2i", "sigma~matches", "no-match auroc"} <= set(found.figures)
    assert all(np.isfinite(value) for value in found.figures.values())
    with Image.open(found.sheet) as sheet:
        assert sheet.height > 3 * demo.PICTURE


def test_a_finished_run_is_taken_as_it_is(found):
    before = (found.folder / "weights.safetensors").read_bytes()
    again = demo.run(TINY, found.folder)
    assert (found.folder / "weights.safetensors").read_bytes() == before
    assert again.figures == found.figures


def test_the_verdict_speaks_plainly():
    hit = demo.Hit(3, 0.2, False)
    assert (
        demo.Search("a", (hit,), 0.4, 0, None, answerable=False).verdict == "nothing here matches"
    )
    sure = demo.Search("a", (demo.Hit(3, 0.9, True),), 12.3, 11, 0.5, answerable=True)
    assert sure.verdict == "about 12 images match"

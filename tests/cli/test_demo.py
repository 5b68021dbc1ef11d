"""pcme demo on the terminal and for machines."""

from tests.helpers import printed, record


def test_it_prints_figures_searches_and_where_everything_is_and_machines_get_the_same(tmp_path, one_thread):
    words = ("demo", "--recipe", "aviary-tiny", "--out", tmp_path / "run")
    text = printed(*words)
    assert "unseen species, 1,000 images" in text
    assert "R-Precision, captions to images" in text
    assert text.count("(in truth ") == 3
    assert str(tmp_path / "run/searches.png") in "".join(text.splitlines())
    assert (tmp_path / "run/searches.png").is_file()
    found = record(*words)
    assert found["run"] == str(tmp_path / "run")
    assert len(found["searches"]) == 3
    assert found["searches"][2]["matches"] == 0
    assert 0 <= found["figures"]["r_precision t2i"] <= 1

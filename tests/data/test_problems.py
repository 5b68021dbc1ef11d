"""Problems: counted once each, named, bounded, and fatal only when asked."""

import threading

import pytest

from pcme.data.problems import KEPT, KINDS, NOTES, Problems
from pcme.errors import DataError


def test_each_problem_counts_once_however_often_it_is_met():
    problems = Problems()
    for _ in range(3):
        problems.add("image-empty", "a.jpg", "0 bytes")
    problems.add("image-truncated", "a.jpg", "cut")
    assert problems.counts == {"image-empty": 1, "image-truncated": 1}
    assert len(problems) == 2


def test_names_are_kept_up_to_a_bound_and_counts_beyond_it():
    problems = Problems()
    for number in range(KEPT + 5):
        problems.add("caption-empty", f"row {number}", "no words")
    assert problems.counts == {"caption-empty": KEPT + 5}
    assert len(problems.kept("caption-empty")) == KEPT


def test_the_summary_names_examples_and_says_how_many_more():
    problems = Problems()
    for number in range(5):
        problems.add("image-missing", f"{number}.jpg", "no such file")
    lines = problems.summary(examples=2).splitlines()
    assert lines[0].startswith("image-missing: 5 (")
    assert lines[1:] == ["    0.jpg: no such file", "    1.jpg: no such file", "    ... and 3 more"]
    assert Problems().summary() == ""


def test_the_record_has_everything_kept():
    problems = Problems()
    problems.add("image-empty", "a.jpg", "0 bytes")
    item = {"kind": "image-empty", "where": "a.jpg", "detail": "0 bytes"}
    assert problems.record() == {"image-empty": {"count": 1, "items": [item]}}


def test_strict_raises_the_first_problem_but_not_a_note():
    problems = Problems(strict=True)
    for note in NOTES:
        problems.add(note, "a.jpg", "fine")
    with pytest.raises(DataError, match=r"b\.jpg: 0 bytes \(image-empty\)"):
        problems.add("image-empty", "b.jpg", "0 bytes")


def test_a_layout_outside_the_package_reports_its_own_kind():
    problems = Problems()
    problems.add("audio-missing", "a.wav", "no such file", meaning="left out")
    problems.add("image-empty", "a.jpg", "0 bytes")
    assert list(problems.counts) == ["image-empty", "audio-missing"]
    assert "audio-missing: 1 (left out)" in problems.summary()
    assert problems.record()["audio-missing"]["count"] == 1


def test_an_unknown_kind_needs_its_meaning():
    with pytest.raises(ValueError, match="meaning"):
        Problems().add("image-ugly", "a.jpg", "")
    assert set(KINDS) >= NOTES


def test_many_threads_lose_no_count():
    problems = Problems()

    def report(thread):
        for number in range(200):
            problems.add("row-malformed", f"{thread}:{number}", "")

    threads = [threading.Thread(target=report, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems.counts == {"row-malformed": 1600}

from concurrent.futures import ThreadPoolExecutor

import pytest

from pcme.data.problems import KEPT, KINDS, NOTES, Problems
from pcme.errors import DataError


def test_each_problem_counts_once_and_names_are_kept_up_to_a_bound():
    problems = Problems()
    for number in [*range(KEPT + 5)] * 2:
        problems.add("image-missing", f"{number}.jpg", "no such file")
    problems.add("image-truncated", "0.jpg", "cut")
    assert problems.counts == {"image-missing": KEPT + 5, "image-truncated": 1}
    assert len(problems) == KEPT + 6
    assert len(problems.kept("image-missing")) == KEPT
    lines = problems.summary(examples=2).splitlines()
    assert lines[0].startswith("image-missing: 1,005 (")
    assert lines[1:4] == ["    0.jpg: no such file", "    1.jpg: no such file", "    ... and 1,003 more"]
    assert Problems().summary() == ""


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
    item = {"kind": "audio-missing", "where": "a.wav", "detail": "no such file"}
    assert problems.record()["audio-missing"] == {"count": 1, "items": [item]}
    with pytest.raises(ValueError, match="meaning"):
        Problems().add("image-ugly", "a.jpg", "")
    assert set(KINDS) >= NOTES


def test_many_threads_lose_no_count():
    problems = Problems()

    def report(thread):
        for number in range(200):
            problems.add("row-malformed", f"{thread}:{number}", "")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(report, range(8)))
    assert problems.counts == {"row-malformed": 1600}

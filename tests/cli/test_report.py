"""pcme report."""

import pytest

from tests.helpers import record, refused


def test_it_writes_a_page_or_says_before_the_work_that_it_cannot(points_run, tmp_path, monkeypatch):
    out = tmp_path / "report.html"
    found = record("report", points_run, "--split", "val", "--out", out)
    assert found == {"page": str(out), "bytes": out.stat().st_size, "figures": ["soft-weights", "toy"]}
    assert out.read_text().startswith("<!DOCTYPE html>")
    monkeypatch.setattr("pcme.showcase.gather", lambda *_, **__: pytest.fail("gathered"))
    assert "cannot be written, got a folder" in refused("report", points_run, "--out", tmp_path)

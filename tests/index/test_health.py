"""Health: damage is found, and deleted rows are gone."""

from pcme import SearchIndex
from tests.helpers import random_gaussians
from tests.index.worlds import drawn


def test_damage_is_found(tmp_path):
    drawn(tmp_path / "index")
    (file,) = (tmp_path / "index" / "items.lance" / "data").iterdir()
    data = bytearray(file.read_bytes())
    data[len(data) // 4] ^= 0xFF
    file.write_bytes(data)
    outcome = SearchIndex.open(tmp_path / "index").verify()
    assert not outcome.ok
    assert any("checksum" in fault or "cannot be read" in fault for fault in outcome.faults)


def test_deleted_rows_are_gone_from_the_disk_after_compacting(tmp_path):
    index, _ = drawn(tmp_path / "index", 3000, dim=16)
    for n in range(5):
        index.add(random_gaussians(1, 16, seed=n), ids=[f"x{n}"])
    before = index.describe()
    index.delete(where="number >= 10")
    index.compact()
    after = index.describe()
    assert (before.parts, after.parts, after.rows) == (6, 1, 15)
    assert after.bytes < before.bytes / 5
    assert index.verify().ok

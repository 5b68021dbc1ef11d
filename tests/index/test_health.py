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
    found = SearchIndex.open(tmp_path / "index").verify()
    assert not found.ok
    assert any("checksum" in fault or "cannot be read" in fault for fault in found.faults)


def test_what_is_deleted_is_gone_from_the_disk_after_compacting(tmp_path):
    index, _ = drawn(tmp_path / "index", 3000, dim=16)
    for n in range(5):
        index.add(random_gaussians(1, 16, seed=n), ids=[f"x{n}"])
    before = index.describe()
    assert before.parts == 6
    index.delete(where="number >= 10")
    index.compact()
    after = index.describe()
    assert (after.rows, after.parts) == (15, 1)
    assert after.bytes < before.bytes / 5
    assert index.verify().ok

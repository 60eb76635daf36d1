"""Files in a place that several machines see are whole or absent, and never change."""

from __future__ import annotations

import pytest

from nnfuzz.parts.depot import Depot


@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_what_is_in_a_depot_stays(tmp_path, kind):
    depot = Depot(str(tmp_path / "d") if kind == "folder" else "memory://nnfuzz-test")
    assert depot.get("a/b.json") is None and depot.names("a") == []
    depot.put("a/b.json", b"1")
    depot.put("a/b.json", b"2")
    depot.put("a/c.json", b"3")
    assert depot.get("a/b.json") == b"1"
    assert depot.names("a") == ["b.json", "c.json"]

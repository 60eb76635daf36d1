"""Folders of findings survive an interruption."""

from __future__ import annotations

from nnfuzz.store.failures import mend


def test_an_interrupted_replacement_is_mended(tmp_path):
    (tmp_path / ".replaced-a").mkdir()
    (tmp_path / ".replaced-b").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / ".partial-c-xyz").mkdir()
    mend(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]

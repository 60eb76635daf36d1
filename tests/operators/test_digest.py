"""The digest of operator specs."""

from __future__ import annotations

from nnfuzz.operators.digest import specs_digest


def test_the_digest_follows_plug_ins(tmp_path):
    plugin = tmp_path / "ops.py"
    plugin.write_text("a = 1")
    before = specs_digest([str(plugin)])
    plugin.write_text("a = 2")
    assert specs_digest([str(plugin)]) != before != specs_digest()


def test_every_room_counts():
    assert specs_digest((), ("check",)) != specs_digest() != specs_digest((), ("compare",))

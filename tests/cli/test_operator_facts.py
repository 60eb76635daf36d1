"""Facts of operators are cached."""

from __future__ import annotations

from nnfuzz.cli.operator_facts import cached_facts, operator_facts
from nnfuzz.operators.registry import OpRegistry


def test_facts_are_found_once_and_again_when_sources_change(tmp_path, monkeypatch):
    place, asked = tmp_path / "cache" / "operators.json", []
    own = operator_facts(OpRegistry.load().select(["Add", "Conv"]).specs())

    def find():
        asked.append(1)
        return own

    assert cached_facts(place, find) == own == cached_facts(place, find) and len(asked) == 1
    monkeypatch.setattr("nnfuzz.cli.operator_facts.version", lambda name: "another")
    assert cached_facts(place, find) == own and len(asked) == 2
    place.write_text("{broken")
    assert cached_facts(place, find) == own and len(asked) == 3

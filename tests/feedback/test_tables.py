"""Tables of what releases refuse."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import nnfuzz.backends

from nnfuzz.backend.contract import Backend
from nnfuzz.feedback.tables import (
    TABLES,
    RefusalTable,
    claims_of,
    declined,
    refused_here,
    tables_of,
)
from nnfuzz.ir.support_key import SupportKey


def key(text):
    return SupportKey.parse(text)


def test_what_was_refused_here_is_read_by_release(tmp_path):
    folder = tmp_path / TABLES
    table = RefusalTable("toy", {"toy": "2.0-built-here", "llvm": "9"}, {key("Exp"): "no kernel"})
    assert table.write(folder) == folder / "toy-2.0.json"
    assert refused_here(tmp_path, "toy", "2.0") == {key("Exp"): "no kernel"}
    assert not refused_here(tmp_path, "toy", "1.0") and not refused_here(tmp_path, "toy", "")


def test_a_damaged_table_is_none(tmp_path):
    path = tmp_path / "toy-1.json"
    path.write_text('{"backend": "toy", "versions": {}, "refused": {"a": {"what": 1}}}')
    assert RefusalTable.read(path) is None


def test_a_campaign_begins_with_the_table_of_the_nearest_release(tmp_path, monkeypatch):
    module = SimpleNamespace(__file__=str(tmp_path / "toy.py"))
    monkeypatch.setitem(sys.modules, "toy_adapter", module)
    adapter = type("Toy", (), {"name": "toy", "__module__": "toy_adapter"})
    assert not claims_of(adapter, {"toy": "1.2"})
    for release, name in (("1.2.0-31-abc", "Add"), ("1.10", "Where")):
        table = RefusalTable("toy", {"toy": release, "llvm": "9"}, {key(name): "no"})
        path = table.write(tmp_path / TABLES)
    assert path.name == "toy-1.10.json"
    nearest = {"1.2.0": "Add", "1.9": "Add", "1.10": "Where", "1.11": "Where", "0.9": "Add"}
    for release, name in nearest.items():
        assert [*claims_of(adapter, {"toy": release})] == [key(name)]
        assert bool(tables_of(adapter, {"toy": release})[0]) == (release != "0.9")


def test_tables_of_adapters_are_sorted():
    tables = [*Path(nnfuzz.backends.__file__).parent.glob("support/*.json")]
    assert tables
    for path in tables:
        file = RefusalTable.read(path)
        assert file is not None and path.stem.startswith(f"{file.backend}-")
        assert file.refused and [*file.refused] == sorted(file.refused)


def test_what_an_adapter_does_not_declare_is_not_generated():
    keys = [
        SupportKey.parse(text)
        for text in (
            "direct:Add(float32,float32)->float32",
            "direct:Add(float64,float64)->float64",
            "direct:ResizeLinear(float32)->float32",
            "direct:Relu(float32)->float32",
        )
    ]
    adapter = type("Few", (Backend,), {"name": "few", "operators": ("Add", "Resize")})
    assert [*declined(adapter, keys)] == keys[3:]
    adapter.dtypes = ("float32", "int64")
    assert declined(adapter, keys)[keys[1]] == "few declares no float64"
    assert [*declined(adapter, keys)] == [keys[1], keys[3]]
    assert declined(Backend, keys) == {}

"""Support tables on the disk."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import nnfuzz.backends

from nnfuzz.backend.contract import Backend
from nnfuzz.backend.registry import BackendSpec
from nnfuzz.feedback.support import (
    FAILING,
    INSTANCES,
    UNSUPPORTED,
    ProbeAnswer,
    Support,
    SupportEntry,
)
from nnfuzz.feedback.support_cache import (
    SupportCache,
    SupportFile,
    claims_of,
    declined,
    tables_of,
    write_table,
)
from nnfuzz.ir.support_key import SupportKey

SIGNATURES = ["Add(int8)->int8", "Add(bool)->bool", "Where(bool,int8)->int8"]


def key(text):
    return SupportKey.parse(text)


KEYS = [SupportKey.parse(f"direct:{signature}") for signature in SIGNATURES]


def test_the_cache_keeps_the_entries_that_last(tmp_path):
    cache = SupportCache(tmp_path)
    path = cache.path(BackendSpec("toy"), {"toy": "1"}, {})
    assert path != cache.path(BackendSpec("toy"), {"toy": "2"}, {})
    table = Support("toy")
    table.add_run(KEYS[:1])
    for _ in range(INSTANCES):
        table.add_answer(KEYS[1], ProbeAnswer(UNSUPPORTED, "no"))
        table.add_answer(KEYS[2], ProbeAnswer(FAILING))
    cache.save(path, SupportFile("toy", entries=table.entries))
    cache.save(path, SupportFile("toy", entries={key("Exp"): SupportEntry("ok")}))
    everything = cache.newest("toy").support
    assert everything.refused().keys() == {KEYS[1]}
    assert everything.entries.keys() == {*KEYS[:2], key("Exp")}


def test_a_table_without_news_is_not_written_again_but_is_the_newest(tmp_path):
    cache = SupportCache(tmp_path)
    older, newer = tmp_path / "support-toy-1.json", tmp_path / "support-toy-2.json"
    for path in (older, newer):
        cache.save(path, SupportFile("toy", {"toy": path.stem}))
    os.utime(older, (1, 1))
    os.utime(newer, (2, 2))
    file = older.stat().st_ino
    own = SupportFile("toy", {"toy": older.stem})
    cache.save(older, own)
    assert older.stat().st_ino == file
    assert cache.newest("toy").versions == own.versions


def test_a_damaged_cache_is_an_empty_one(tmp_path):
    path = tmp_path / "support-toy-1.json"
    path.write_text('{"entries": {"a": {"what": 1}}}')
    assert SupportCache(tmp_path).newest("toy") is None


def test_what_ran_in_any_way_of_exporting_is_supported(tmp_path):
    cache, spec, versions = SupportCache(tmp_path), BackendSpec("toy"), {"toy": "1"}
    for exporter, statuses in (("direct", ("ok", "unsupported")), ("dynamo", ("unsupported", ""))):
        names = (f"{exporter}:{name}" for name in "ab")
        entries = {key(name): SupportEntry(status) for name, status in zip(names, statuses)}
        path = cache.path(spec, versions, {"exporter": exporter})
        cache.save(path, SupportFile("toy", versions, entries))
    support = cache.known("toy")
    assert {str(key): entry.status for key, entry in support.entries.items()} == {
        "a": "ok",
        "b": "unsupported",
    }
    assert cache.newest("other") is None and cache.known("other") == Support("other")


def test_the_installed_release_comes_before_one_that_ran_later(tmp_path):
    cache = SupportCache(tmp_path)
    for version in ("2.0-built-here", "1.0"):
        path = cache.path(BackendSpec("toy"), {"toy": version}, {})
        entries = {SupportKey.parse(version): SupportEntry("ok")}
        cache.save(path, SupportFile("toy", {"toy": version}, entries))
        os.utime(path, (len(version), 1 if version.startswith("2") else 2))
    assert [*cache.known("toy").entries] == [SupportKey.parse("1.0")]
    assert [*cache.known("toy", "2.0").entries] == [SupportKey.parse("2.0-built-here")]
    assert cache.newest("toy", "2.0").versions == {"toy": "2.0-built-here"}
    assert cache.known("toy", "3.0") == cache.known("toy")  # the newest there is


def test_a_campaign_begins_with_the_table_of_the_nearest_release(tmp_path, monkeypatch):
    module = SimpleNamespace(__file__=str(tmp_path / "toy.py"))
    monkeypatch.setitem(sys.modules, "toy_adapter", module)
    adapter = type("Toy", (), {"name": "toy", "__module__": "toy_adapter"})
    assert not claims_of(adapter, {"toy": "1.2"})
    for release, name in (("1.2.0-31-abc", "Add"), ("1.10", "Where")):
        table = Support("toy", {key(f"direct:{name}(int8)->int8"): SupportEntry(UNSUPPORTED, "no")})
        path = write_table(tmp_path / "support", table, {"toy": release, "llvm": "9"})
    assert path.name == "toy-1.10.json" and path.read_text().count("\n") == 10
    nearest = {"1.2.0": "Add", "1.9": "Add", "1.10": "Where", "1.11": "Where", "0.9": "Add"}
    for release, name in nearest.items():
        assert [*claims_of(adapter, {"toy": release})] == [key(name)]
        assert bool(tables_of(adapter, {"toy": release})[0]) == (release != "0.9")


def test_tables_of_adapters_hold_refusals_alone():
    tables = [*Path(nnfuzz.backends.__file__).parent.glob("support/*.json")]
    assert tables
    for path in tables:
        file = SupportFile.read(path)
        assert file is not None and file.entries
        assert path.stem.startswith(f"{file.backend}-")
        assert all(entry.refused for entry in file.entries.values())
        assert [*file.entries] == sorted(file.entries)


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

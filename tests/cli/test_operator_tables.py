"""The table of operators, with facts that are cached."""

from __future__ import annotations

import pytest

from nnfuzz.cli.operator_tables import (
    EXPORTERS,
    HEADINGS,
    cached_facts,
    operator_facts,
    rich_table,
    rows,
    support_share,
)
from nnfuzz.feedback.support import Support, SupportEntry
from nnfuzz.feedback.support_cache import is_of
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.operators.registry import OpRegistry


def test_facts_are_found_once_and_again_when_sources_change(tmp_path, monkeypatch):
    place, asked = tmp_path / "cache" / "operators.json", []
    own = operator_facts(OpRegistry.load().select(["Add", "Conv"]).specs())

    def find():
        asked.append(1)
        return own

    assert cached_facts(place, find) == own == cached_facts(place, find) and len(asked) == 1
    monkeypatch.setattr("nnfuzz.cli.operator_tables.version", lambda name: "another")
    assert cached_facts(place, find) == own and len(asked) == 2
    place.write_text("{broken")
    assert cached_facts(place, find) == own and len(asked) == 3


def test_verdicts_count_signatures():
    statuses = {"a": "ok", "b": "ok", "c": "unsupported", "d": ""}
    entries = {SupportKey.parse(key): SupportEntry(status) for key, status in statuses.items()}
    support = Support("toy", entries)
    assert support_share(support, ["a", "b"]) == "yes"
    assert support_share(support, ["c"]) == "no"
    assert support_share(support, ["a", "b", "c"]) == "2 of 3"
    assert support_share(support, ["a", "d", "e"]) == "yes, 2 ?"
    assert support_share(support, ["d", "e"]) == "?"


def test_rows_tell_types_and_ranks():
    registry = OpRegistry.load().select(["Where", "MatMul", "Cast"])
    found = {row.cells[0]: dict(zip(HEADINGS, row.cells)) for row in rows(registry.specs(), {})}
    assert list(found) == ["Cast", "MatMul", "Where"]
    assert found["Where"]["dtypes"].startswith("bool; ")
    assert found["Where"]["inputs"] == "3"
    assert "->" in found["Cast"]["dtypes"]
    assert found["MatMul"]["family"] == "linalg"
    assert found["MatMul"]["torchscript"] == "6 of 8"


def test_a_narrow_terminal_shows_whole_names():
    from rich.console import Console

    found = rows(OpRegistry.load().select(["BatchNormalization"]).specs(), {})
    for width, heading in ((60, False), (160, True)):
        console = Console(width=width)
        with console.capture() as capture:
            console.print(rich_table(found, [], width))
        assert "BatchNormalization" in capture.get()
        assert ("dtypes" in capture.get()) == heading


def test_rows_tell_what_exporters_write():
    specs = OpRegistry.load().select(["Tanh", "Attention"]).specs()
    found = {row.cells[0]: dict(zip(HEADINGS, row.cells)) for row in rows(specs, {})}
    assert [found["Attention"][name] for name in EXPORTERS] == ["no", "no"]
    assert all("of" in found["Tanh"][n] or found["Tanh"][n] == "yes" for n in EXPORTERS)


def test_a_terminal_has_few_columns_unless_all_are_asked_for():
    from rich.console import Console

    found = rows(OpRegistry.load().select(["Add"]).specs(), {"toy": Support("toy")})
    console = Console(width=160)
    for whole, wanted in ((False, 5), (True, len(HEADINGS) + 1)):
        table = rich_table(found, ["toy 1.0"], console.width, whole)
        headings = [column.header for column in table.columns]
        assert len(headings) == wanted and headings[-1] == "toy 1.0"
        assert [*table.columns[-1].cells] == ["?"]


@pytest.mark.parametrize(
    "told, release, same",
    [
        ("1.2", "1.2", True),
        ("1.2.1", "1.2", False),
        ("1.21", "1.2", False),
        ("1.2-abc", "1.2", True),
        ("1.2", "", False),
    ],
)
def test_of_which_release_a_version_is(told, release, same):
    assert is_of({"toy": told, "llvm": release}, release) == same

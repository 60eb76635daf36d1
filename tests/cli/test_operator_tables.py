"""The table of operators."""

from __future__ import annotations

import pytest

from nnfuzz.cli.commands.ops import (
    HEADINGS,
    operator_facts,
    rich_table,
    support_share,
)
from nnfuzz.feedback.support import Support, SupportEntry
from nnfuzz.feedback.support_cache import is_of
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.operators.registry import OpRegistry


def test_verdicts_count_signatures():
    statuses = {"a": "ok", "b": "ok", "c": "unsupported", "d": ""}
    entries = {SupportKey.parse(key): SupportEntry(status) for key, status in statuses.items()}
    support = Support("toy", entries)
    assert support_share(support, ["a", "b"]) == "yes"
    assert support_share(support, ["c"]) == "no"
    assert support_share(support, ["a", "b", "c"]) == "2 of 3"
    assert support_share(support, ["a", "d", "e"]) == "yes, 2 ?"
    assert support_share(support, ["d", "e"]) == "?"


def test_facts_tell_types_and_ranks():
    facts = operator_facts(OpRegistry.load().select(["Where", "MatMul", "Cast"]).specs())
    found = {each.cells[0]: dict(zip(HEADINGS, each.cells)) for each in facts}
    assert list(found) == ["Cast", "MatMul", "Where"]
    assert found["Where"]["dtypes"].startswith("bool; ")
    assert "->" in found["Cast"]["dtypes"]


def test_a_narrow_terminal_shows_whole_names():
    from rich.console import Console

    found = operator_facts(OpRegistry.load().select(["BatchNormalization"]).specs())
    for width, heading in ((60, False), (160, True)):
        console = Console(width=width)
        with console.capture() as capture:
            console.print(rich_table(found, {}, width))
        assert "BatchNormalization" in capture.get()
        assert ("dtypes" in capture.get()) == heading


def test_a_backend_has_a_column():
    found = operator_facts(OpRegistry.load().select(["Add"]).specs())
    table = rich_table(found, {"toy 1.0": Support("toy")}, 160)
    assert [column.header for column in table.columns] == [*HEADINGS, "toy 1.0"]
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

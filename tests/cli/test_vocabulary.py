"""The table of operators, in the terminal and as a page."""

from __future__ import annotations

from pathlib import Path

from nnfuzz.campaign.support import Entry, Support
from nnfuzz.campaign.support_cache import SupportCache
from nnfuzz.cli.vocabulary import EXPORTERS, HEADINGS, markdown, rich_table, rows, verdict
from nnfuzz.execute.registry import BackendSpec
from nnfuzz.spec.registry import OpRegistry

PAGE = Path(__file__).parents[2] / "docs" / "OPERATORS.md"


def test_verdicts_count_signatures():
    entries = {"a": Entry("ok"), "b": Entry("ok"), "c": Entry("unsupported"), "d": Entry()}
    support = Support("toy", entries)
    assert verdict(support, ["a", "b"]) == "yes"
    assert verdict(support, ["c"]) == "no"
    assert verdict(support, ["a", "b", "c"]) == "2 of 3"
    assert verdict(support, ["a", "d", "e"]) == "yes, 2 ?"
    assert verdict(support, ["d", "e"]) == "?"


def test_rows_tell_types_and_ranks():
    registry = OpRegistry.load().select(["Where", "MatMul", "Cast"])
    found = {row.cells[0]: dict(zip(HEADINGS, row.cells)) for row in rows(registry.specs(), {})}
    assert list(found) == ["Cast", "MatMul", "Where"]
    assert found["Where"]["dtypes"].startswith("bool; ")
    assert found["Where"]["inputs"] == "3"
    assert "->" in found["Cast"]["dtypes"]
    assert found["MatMul"]["family"] == "linalg"
    assert found["MatMul"]["torchscript"] == "yes"


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


def test_what_ran_in_any_way_of_exporting_is_supported(tmp_path):
    cache, spec, versions = SupportCache(tmp_path), BackendSpec("toy"), {"toy": "1"}
    about = {"backend": "toy", "versions": versions}
    for exporter, statuses in (("direct", ("ok", "unsupported")), ("dynamo", ("unsupported", ""))):
        entries = {key: Entry(status) for key, status in zip("ab", statuses)}
        path = cache.path(spec, versions, {"exporter": exporter})
        cache.save(path, Support("toy", entries), {}, {**about, "exporter": exporter})
    version, support = cache.known("toy")
    assert version == "1"
    assert {key: entry.status for key, entry in support.entries.items()} == {
        "a": "ok",
        "b": "unsupported",
    }
    assert cache.newest_by_exporter("other") == []
    newest = cache.newest_by_exporter("toy")
    assert [about["exporter"] for about, _ in newest] == ["direct", "dynamo"]
    assert [support.refused().keys() for _, support in newest] == [{"b"}, {"a"}]
    assert cache.known("other") == ("", Support("other"))


def test_the_page_in_docs_lists_every_operator_as_it_is():
    """If this fails: nnfuzz ops --page docs/OPERATORS.md."""
    specs = OpRegistry.load().specs()
    listed = [line.split(" | ") for line in PAGE.read_text().splitlines() if line[:3] == "| `"]
    fresh = [line.split(" | ") for line in markdown(rows(specs, {}), {}).splitlines()]
    fresh = [cells for cells in fresh if cells[0][:3] == "| `"]
    width = len(HEADINGS)
    assert [cells[:width] for cells in listed] == [cells[:width] for cells in fresh]

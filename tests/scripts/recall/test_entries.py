"""Every entry of benchmarks/real_bugs is well-formed, and the page shows what is recorded."""

from __future__ import annotations

import onnx
import pytest
from packaging.version import Version

from scripts.recall.entries import Entry, entries
from scripts.recall.reach import Reach, given, reached


@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.name)
def test_an_entry_has_a_valid_model_and_releases_in_order(entry: Entry) -> None:
    onnx.checker.check_model(entry.model)
    assert entry.kind in ("wrong", "error", "crash", "hang")
    assert entry.address.startswith("https://github.com/")
    assert entry.operators
    assert {v.name for v in entry.model.graph.input} == set(given(entry))
    old = entry.broken.startswith("2024") and entry.system == "iree"  # dates, then versions
    assert old or not entry.fixed or Version(entry.broken) < Version(entry.fixed)


def test_entries_are_chosen_by_the_beginning_of_their_names() -> None:
    assert {e.system for e in entries(["tvm/"])} == {"tvm"}
    assert [e.name for e in entries(["onnxslim/reshape-with-zero"])] == [
        "onnxslim/reshape-with-zero"
    ]
    assert not entries(["nobody"])


def test_a_file_that_is_no_entry_is_named(tmp_path) -> None:
    (tmp_path / "tvm").mkdir()
    (tmp_path / "tvm" / "half.toml").write_text('title = "no system"')
    with pytest.raises(ValueError, match=r"half\.toml"):
        entries(root=tmp_path)


def test_a_plain_model_is_in_the_vocabulary_and_nan_is_an_edge() -> None:
    found = {e.name: reached(e).reach for e in entries(["tvm/topk-indices", "tvm/relu-nan"])}
    assert found == {"tvm/topk-indices": Reach.WHOLE, "tvm/relu-nan": Reach.EDGES}

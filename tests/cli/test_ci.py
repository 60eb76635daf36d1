"""What a CI reads: shards, and findings of a campaign as results of tests."""

from __future__ import annotations

from dataclasses import replace

from nnfuzz.cli.reports import LONGEST
from nnfuzz.cli.reports import test_names as names
from nnfuzz.records.rows import FindingRow
from nnfuzz.testcase.identity import Numbered

TITLE = "tvm: Resize, mode=cubic, exclude_outside=1: ignores exclude_outside"
ROW = FindingRow(
    signature="aaaaaaaaaaaa",
    test=Numbered(1, 2),
    kind="mismatch",
    stage="compare",
    backend="tvm",
    level="O3",
    title=f"{TITLE} (all levels)",
    folder="findings/x",
)
NAME = "tvm-resize-mode-cubic-exclude-outside-1-ignores-exclude-outside"


def test_a_name_is_compiler_and_title_without_seed_hash_and_levels():
    later = replace(ROW, test=Numbered(9, 9), signature="bbbbbbbbbbbb", title=f"{TITLE} (O3 only)")
    assert names([ROW]) == names([later]) == [NAME]
    assert names([replace(ROW, backend="ort")])[0].startswith("ort-")


def test_only_those_that_collide_have_a_hash():
    same = replace(ROW, signature="bbbbbbbbbbbb", cause="cccccccccccc")
    other = replace(ROW, title="tvm: Relu: wrong values")
    assert names([ROW, same, other]) == [
        f"{NAME}-aaaaaaaaaaaa",
        f"{NAME}-cccccccccccc",
        "tvm-relu-wrong-values",
    ]


def test_a_long_title_ends_with_a_whole_word():
    (name,) = names([replace(ROW, title="tvm: " + "word " * 50)])
    assert len(name) <= LONGEST and name.endswith("-word")

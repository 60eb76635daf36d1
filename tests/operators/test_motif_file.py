from __future__ import annotations

import json

import pytest

from nnfuzz.base.reading import Unreadable
from nnfuzz.base.writing import as_json
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.motif_file import (
    MinedPattern,
    MotifVariant,
    PatternInput,
    PatternNode,
    Size,
    motif_files,
    read_patterns,
)

PATTERN = MinedPattern(
    "mined_Reshape_Transpose",
    "x0",
    (PatternNode("Reshape", ("x0",), ("v1",)), PatternNode("Transpose", ("v1",), ("v2",))),
    (
        MotifVariant(
            {"x0": PatternInput("T0", (Size(1, ("a",)), Size(1, ("b", "c"))))},
            (
                {"shape": [{"size": "a"}, {"size": "b"}, {"size": "c"}], "inferred": -1},
                {"perm": [0, 2, 1]},
            ),
            {"T0": ("float32", "float16")},
            {"a": (2, 1), "b": (4, 1), "c": (8, 1)},
        ),
    ),
)


def broken(**changes: object) -> dict[str, object]:
    return as_json(PATTERN) | changes


def variant(**changes: object) -> list[object]:
    return [as_json(PATTERN.variants[0]) | changes]


@pytest.mark.parametrize(
    ("text", "size"),
    [("4", Size(4)), ("a", Size(1, ("a",))), ("2*a*b", Size(2, ("a", "b")))],
)
def test_a_size_is_written_as_a_product(text, size):
    assert Size.parse(text) == size
    assert str(size) == text
    assert size.value({"a": 3, "b": 5}) == {"4": 4, "a": 3, "2*a*b": 30}[text]


def test_attributes_are_evaluated():
    found = PATTERN.variants[0].attributes_of(0, {"a": 2, "b": 3, "c": 5}, {})
    assert found == {"shape": (2, 3, 5), "inferred": -1}
    cast = MotifVariant({}, ({"to": {"dtype": "T0"}},))
    assert cast.attributes_of(0, {}, {"T0": DType.FLOAT16}) == {"to": DType.FLOAT16}


def test_a_file_holds_what_was_written(tmp_path):
    file = tmp_path / "one.json"
    file.write_text(json.dumps(as_json(PATTERN)))
    assert list(read_patterns(file)) == [PATTERN]
    lines = tmp_path / "more.jsonl"
    lines.write_text(2 * (json.dumps(as_json(PATTERN)) + "\n"))
    assert list(read_patterns(lines)) == [PATTERN, PATTERN]
    assert motif_files(tmp_path) == [lines, file] or motif_files(tmp_path) == [file, lines]


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (broken(schema=2), "schema 2 is not 1"),
        (broken(name="../../etc"), "is no name"),
        (broken(nodes=[]), "it has 0 nodes"),
        (broken(start="v9"), "start 'v9' is no input"),
        (broken(nodes=[["Add", ["x0", "x7"], ["v1"]]]), "reads 'x7', which is not there"),
        (broken(variants=variant(dtypes={"T0": ["float99"]})), "are no dtypes"),
        (broken(variants=variant(sizes={})), "is not there"),
        (broken(variants=variant(sizes={"a": [1 << 40, 1]})), "out of range"),
        (broken(variants=variant(attributes=[{}])), "not one set a node"),
        (broken(nodes=5), "nodes"),
        ([], "it is no"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_in_one_line(tmp_path, data, problem):
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(data))
    with pytest.raises(Unreadable) as caught:
        list(read_patterns(file))
    assert "\n" not in str(caught.value)
    assert str(file) in str(caught.value)
    assert problem in str(caught.value) or data == []


def test_a_folder_without_motif_files_is_refused(tmp_path):
    with pytest.raises(Unreadable, match=r"holds no motif file"):
        motif_files(tmp_path)
    with pytest.raises(Unreadable, match=r"does not exist"):
        motif_files(tmp_path / "no")

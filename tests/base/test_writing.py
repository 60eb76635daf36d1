"""What is written of a value is read back as an equal one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import pytest

from nnfuzz.backend.target import Target
from nnfuzz.base.reading import read
from nnfuzz.base.writing import ROUNDED, UNWRITTEN, as_json, as_list, fields_as_json
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.testcase.identity import ForeignId, Numbered, Probe, TestId


class Colour(Enum):
    RED = "red"


@as_list
@dataclass(frozen=True)
class Place:
    x: int
    y: float | None = None


@dataclass(frozen=True)
class Thing:
    name: str
    at: tuple[Place, ...] = ()
    colour: Colour = Colour.RED
    rows: Mapping[Target, Place] = field(default_factory=dict)
    seconds: float = field(default=0.0, metadata=ROUNDED)
    array: bytes = field(default=b"own", metadata=UNWRITTEN)


THING = Thing("a", (Place(1, 2.5), Place(3)), rows={Target.parse("tvm@1/cpu/O0:onnx"): Place(4)})
WRITTEN = {
    "name": "a",
    "at": [[1, 2.5], [3, None]],
    "colour": "red",
    "rows": {"tvm@1/cpu/O0:onnx": [4, None]},
    "seconds": 0.0,
}


def test_a_value_comes_back_from_its_written_form():
    assert as_json(THING) == WRITTEN
    assert read(Thing, json.loads(json.dumps(as_json(THING)))) == THING
    assert fields_as_json(Place(1)) == {"x": 1, "y": None} and as_json(Place(1)) == [1, None]
    assert as_json(Thing("a", seconds=1.23456))["seconds"] == 1.235


def test_a_field_that_is_not_written_cannot_be_set_by_a_file():
    assert read(Thing, {"name": "a", "array": "stranger's"}).array == b"own"


@pytest.mark.parametrize(
    "test", [Numbered(1, 2), Probe(SupportKey.parse("direct:Add(f)"), 3), ForeignId(4)]
)
def test_a_test_is_written_as_its_text(test):
    assert as_json(test) == str(test) and read(TestId, str(test)) == test


def test_an_array_has_no_written_form():
    with pytest.raises(TypeError, match="ndarray has no written form"):
        as_json([np.zeros(2)])

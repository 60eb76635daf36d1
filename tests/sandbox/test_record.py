"""Records keep their values on the wire; what does not fit their types is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from nnfuzz.backend.target import Target
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.sandbox import wire
from nnfuzz.sandbox.record import pack, unpack
from nnfuzz.testcase.identity import ForeignId, Numbered, Probe, TestId

X = np.arange(6, dtype=np.float16).reshape(2, 3)


@dataclass(frozen=True, eq=False)
class Leaf:
    arrays: Mapping[str, np.ndarray]
    maybe: Mapping[str, np.ndarray] | None = None


@dataclass(frozen=True)
class Other:
    text: str


@dataclass(frozen=True, eq=False)
class Whole:
    data: bytes
    one: np.ndarray
    leaves: tuple[Leaf, ...]
    pair: tuple[Leaf, int]
    either: Leaf | Other
    target: Target
    test: TestId
    nothing: Leaf | None = None
    numbers: dict[str, float] = field(default_factory=dict)


def through(kind, value):
    return unpack(kind, *wire.decode(wire.encode(*pack(kind, value))))


def whole(**changes) -> Whole:
    leaf = Leaf({"x": X, "a/b": X[0]})
    fields = {
        "data": b"\0bytes",
        "one": X,
        "leaves": (leaf, Leaf({}, {"y": X})),
        "pair": (leaf, 7),
        "either": Other("text"),
        "target": Target("toy", "1.0", pipeline="O1"),
        "test": Numbered(3, 4),
        "numbers": {"a": 0.5},
    }
    return Whole(**{**fields, **changes})


def test_every_field_survives():
    made = through(Whole, whole())
    assert made.data == b"\0bytes" and np.array_equal(made.one, X) and made.one.dtype == X.dtype
    assert [*made.leaves[0].arrays] == ["x", "a/b"] and made.leaves[0].maybe is None
    assert not made.leaves[1].arrays and np.array_equal(made.leaves[1].maybe["y"], X)
    assert made.pair[1] == 7 and np.array_equal(made.pair[0].arrays["a/b"], X[0])
    assert made.either == Other("text") and made.nothing is None
    assert made.target == whole().target and made.numbers == {"a": 0.5}


PROBE = Probe(SupportKey.parse("direct:Add(int8)->int8"), 1)


@pytest.mark.parametrize("test", [Numbered(3, 4), PROBE, ForeignId(5)])
def test_every_kind_of_test_id_survives(test):
    assert through(TestId, test) == test
    assert through(Whole, whole(test=test)).test == test


@pytest.mark.parametrize("value", [None, "text", ["a", "b"], {"a": [1]}])
def test_plain_answers_survive(value):
    kind = str | list[str] | dict[str, list[int]] | None
    assert through(kind, value) == value


def test_of_several_records_the_class_is_written():
    assert isinstance(through(Leaf | Other, Leaf({})), Leaf)
    assert through(Leaf | Other, Other("a")) == Other("a")
    assert pack(Leaf | Other, Other("a"))[0] == {"value": {"Other": {"text": "a"}}}


@pytest.mark.parametrize(
    "change",
    [
        {"surprise": 1},
        {"data": None, "test": 7},
        {"leaves": {}},
        {"pair": [{"arrays": True}]},
        {"either": {"Neither": {}}},
        {"either": {}},
        {"target": "@@"},
        {"numbers": {"a": "b"}},
    ],
)
def test_damage_is_refused(change):
    header, blobs = pack(Whole, whole())
    with pytest.raises((ValueError, KeyError, TypeError)):
        unpack(Whole, {"value": {**header["value"], **change}}, blobs)


def test_bytes_are_no_array_and_a_blob_may_not_be_missing():
    header, blobs = pack(Whole, whole())
    with pytest.raises(ValueError, match="should be ndarray, not bytes"):
        unpack(Whole, header, {**blobs, "one": b"raw"})
    with pytest.raises(ValueError, match="should be ndarray, not bytes"):
        unpack(Whole, header, {**blobs, "leaves/0/arrays/x": b"raw"})
    with pytest.raises(KeyError):
        unpack(Whole, header, {name: blob for name, blob in blobs.items() if name != "data"})

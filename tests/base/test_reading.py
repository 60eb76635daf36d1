"""JSON of strangers becomes what is declared, or the message says where it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import pytest

from nnfuzz.base.reading import Unreadable, read, read_fields


class Colour(Enum):
    RED = "red"


@dataclass(frozen=True)
class Point:
    name: str
    at: tuple[int, float]
    colour: Colour | None = None
    more: Mapping[str, list[Point]] = field(default_factory=dict)


def test_values_are_of_the_types_that_are_declared():
    inner = ["b\x1b[1m", [3, 4]]
    found = read(Point, {"name": "a", "at": [1, 2], "colour": "red", "more": {"x": [inner]}})
    assert found == Point("a", (1, 2.0), Colour.RED, {"x": [Point("b", (3, 4.0))]})
    assert read_fields(Point, {"name": "a", "at": 7}, "name") == {"name": "a"}
    assert read(int | str, "1") == "1" and read(str | int, 1) == 1


@pytest.mark.parametrize(
    "value, told",
    [
        ({"name": 1}, ".name should be str, not 1"),
        ({"name": "a", "at": [1]}, ".at should be 2 items, not list"),
        ({"name": "a", "at": [1, "x"]}, ".at[1] should be float, not 'x'"),
        ({"name": "a", "at": [True, 1]}, ".at[0] should be int, not True"),
        ({"name": "a", "at": [1, 2], "colour": "blue"}, ".colour: 'blue' is not a valid Colour"),
        ({"name": "a", "at": [1, 2], "more": {"x": [["b", 2]]}}, ".more.x[0].at should be list"),
        ({"nam": "a"}, "it should be a field of Point, not 'nam'"),
        ({"name": "a"}, "it: .* missing 1 required positional argument: 'at'"),
        (["a", [2**64, 1]], ".at[0] should be a number of 64 bits"),
    ],
)
def test_what_does_not_fit_is_told_with_its_place(value, told):
    with pytest.raises(Unreadable, match=told.replace("[", r"\[")):
        read(Point, value)

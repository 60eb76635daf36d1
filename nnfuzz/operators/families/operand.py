"""Integer operands that shape a result, and the ways in which a model writes them.

A compiler treats a constant shape differently from one that the model computes from the shapes of
its values, as exported models do. The results are the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar
from zlib import crc32

import numpy as np

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.operator import OpSpec

PLAIN = "initializer"
LEAST = -(1 << 31)
MOST = 1 << 31
"""Numbers beyond these ends mean "to the end of the axis"; they are always written as constants."""

INDICES = (DType.INT64, DType.INT64, DType.INT32)
"""The dtypes of places in a shape."""
PASSED = 0.1
"""Share of read sizes that pass through a Reshape, or through int32 and back."""
NEGATIVE = 11
"""The first opset in which places and axes may be counted from the end."""

Size = tuple[str, int]
"""The name of a value, and one of its axes."""


class Operands(OpSpec):
    """An operator that takes integers, such as a target shape, as an operand.

    operand: how they are written. "initializer"; "constant": a node; "shape": computed from the
    shape of the first input; "shapes": computed from the shapes of any preceding values.
    """

    operand: Any = Choice((*(PLAIN,) * 6, "constant", "shape", "shapes"), default=PLAIN)

    usual: ClassVar[Mapping[str, Any]] = {"operand": PLAIN}

    def integers(self, emit: Any, x: str, numbers: Sequence[int]) -> str:
        """The name of an int64 vector of the numbers, written as the attribute `operand` says."""
        numbers = [int(number) for number in numbers]
        if self.operand == "constant":
            return str(emit("Constant", value=np.array(numbers, np.int64)))
        before = [*emit.earlier, x] if self.operand == "shapes" else [x]
        sizes = {} if self.operand == PLAIN else dict(_sizes(emit, before))
        return _computed(emit, numbers, sizes) if sizes and numbers else _constant(emit, *numbers)


def _sizes(emit: Any, names: Sequence[str]) -> Iterator[tuple[Size, int]]:
    """The sizes of values whose types are known, with value and axis."""
    for name in dict.fromkeys(names):
        with suppress(KeyError):
            yield from (((name, axis), size) for axis, size in enumerate(emit.type(name).sizes))


def _constant(emit: Any, *numbers: int) -> str:
    return str(emit.const(list(numbers), DType.INT64))


def _computed(emit: Any, numbers: Sequence[int], sizes: dict[Size, int]) -> str:
    """The numbers as a Concat of values' sizes, and of numbers computed from sizes."""
    parts: list[str] = []
    while numbers:
        place, count = _longest(numbers, sizes)
        if count:
            parts.append(_read(emit, *place, count))
        else:
            count = 1
            parts.append(_derived(emit, numbers[0], sizes, always=not parts))
        numbers = numbers[count:]
    return parts[0] if len(parts) == 1 else str(emit("Concat", *parts, axis=0))


def _longest(numbers: Sequence[int], sizes: dict[Size, int]) -> tuple[Size, int]:
    """The longest run of sizes in one value that equals the first numbers: (value and axis,
    length). The last such run is used."""
    best: tuple[Size, int] = ("", 0), 0
    for name, first in sizes:
        count = 0
        while count < len(numbers) and sizes.get((name, first + count)) == numbers[count]:
            count += 1
        if count and count >= best[1]:
            best = (name, first), count
    return best


def _read(emit: Any, name: str, first: int, count: int) -> str:
    """Some sizes of a value as a vector, read in one of the ways of exporters."""
    draw = _draw(emit, name, first)
    sizes = _sizes_read(emit, name, first, count, draw)
    if draw.random() >= PASSED:
        return sizes
    if draw.random() < 0.5:
        return str(emit("Reshape", sizes, _constant(emit, draw.choice((-1, count)))))
    return str(emit("Cast", emit("Cast", sizes, to=DType.INT32), to=DType.INT64))


def _sizes_read(emit: Any, name: str, first: int, count: int, draw: random.Random) -> str:
    """Some sizes of a value as the nodes Shape, Gather and Slice give them."""
    if count == 1 and draw.random() < 0.2:
        return _vector(emit, _gathered(emit, name, first, draw), draw)
    if emit.opset >= 15 and draw.random() < 0.4:
        return _by_attributes(emit, name, first, count, draw)
    return draw.choice((_taken, _sliced))(emit, name, first, count, draw)


def _draw(emit: Any, name: str, first: int) -> random.Random:
    """Draws of how sizes are read, which follow from the model alone."""
    return random.Random(crc32(f"{name} {first} {len(emit.nodes)} {emit.type(name)}".encode()))


def _vector(emit: Any, number: str, draw: random.Random) -> str:
    """A number as a vector of one element."""
    axis = draw.choice((0, -1) if emit.opset >= NEGATIVE else (0,))
    return str(emit("Unsqueeze", number, _constant(emit, axis)))


def _gathered(emit: Any, name: str, first: int, draw: random.Random) -> str:
    """One size as a number."""
    (index,) = _places(emit, name, (first,), draw)
    return str(emit("Gather", emit("Shape", name), emit.const(index, draw.choice(INDICES))))


def _taken(emit: Any, name: str, first: int, count: int, draw: random.Random) -> str:
    places = _places(emit, name, range(first, first + count), draw)
    return str(emit("Gather", emit("Shape", name), emit.const(places, draw.choice(INDICES))))


def _places(emit: Any, name: str, axes: Sequence[int], draw: random.Random) -> list[int]:
    """The places of axes in a shape, each counted from its start or its end."""
    rank = emit.type(name).rank if emit.opset >= NEGATIVE else 0
    return [axis - draw.choice((0, rank)) for axis in axes]


def _by_attributes(emit: Any, name: str, first: int, count: int, draw: random.Random) -> str:
    start, end = _bounds(emit, name, first, count, draw)
    return str(emit("Shape", name, start=start, **({} if end >= MOST else {"end": end})))


def _sliced(emit: Any, name: str, first: int, count: int, draw: random.Random) -> str:
    bounds = [*_bounds(emit, name, first, count, draw), 0, 1]
    dtype, given = draw.choice(INDICES), draw.choice((2, 3, 4))
    bounds[1] = min(bounds[1], MOST - 1)
    operands = [emit.const([bound], dtype) for bound in bounds[:given]]
    return str(emit("Slice", emit("Shape", name), *operands))


def _bounds(emit: Any, name: str, first: int, count: int, draw: random.Random) -> tuple[int, int]:
    """Where a part of a shape begins and ends, each counted from the shape's start or its end;
    `MOST` stands for its end."""
    rank, end = emit.type(name).rank, first + count
    ends = (end, MOST) if end == rank else (end, end - rank)
    return first - draw.choice((0, rank)), draw.choice(ends)


def _derived(emit: Any, number: int, sizes: dict[Size, int], always: bool) -> str:
    """A number that is not a size: a multiple or a part of a size, else a constant. With `always`,
    the sum of a size and a constant."""
    for place, size in sizes.items():
        if size > 1 and number > size and number % size == 0:
            return _calculated(emit, "Mul", place, number // size)
        if size > number > 1 and size % number == 0:
            return _calculated(emit, "Div", place, size // number)
    if not always or not LEAST < number < MOST:
        return _constant(emit, number)
    place, size = next(iter(sizes.items()))
    return _calculated(emit, "Add", place, number - size)


def _calculated(emit: Any, operator: str, place: Size, operand: int) -> str:
    """A vector with a number that is calculated from a size and another number."""
    draw = _draw(emit, *place)
    scalar = draw.random() < 0.3
    if scalar:
        values = [_gathered(emit, *place, draw), emit.const(operand, DType.INT64)]
    else:
        values = [_read(emit, *place, 1), _constant(emit, operand)]
    if operator != "Div" and draw.random() < 0.5:
        values.reverse()
    result = str(emit(operator, *values))
    return _vector(emit, result, draw) if scalar else result

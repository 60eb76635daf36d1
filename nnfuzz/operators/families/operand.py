"""Integer operands that shape a result, and the ways in which a model writes them.

A compiler treats a constant shape differently from one that the model computes from the shapes of
its values, as exported models do. The results are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.operator import OpSpec

PLAIN = "initializer"
LEAST = -(1 << 31)
MOST = 1 << 31
"""Numbers beyond these ends mean "to the end of the axis"; they are always written as constants."""

Size = tuple[str, int]
"""The name of a value, and one of its axes."""


class Operands(OpSpec):
    """An operator that takes integers, such as a target shape, as an operand.

    operand: how they are written. "initializer"; "constant": a node; "shape": computed from the
    shape of the first input; "shapes": computed from the shapes of any preceding values.
    """

    operand: Any = Choice(
        (*(PLAIN,) * 6, "constant", "shape", "shape", "shapes", "shapes"), default=PLAIN
    )

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
    """Some sizes of a value, read in one of the ways of exporters, which alternate."""
    ways = (_gathered, _by_attributes if emit.opset >= 15 else _sliced, _sliced)
    return ways[len(emit.nodes) % 3](emit, name, first, count)


def _gathered(emit: Any, name: str, first: int, count: int) -> str:
    shape = emit("Shape", name)
    if count > 1:
        return str(emit("Gather", shape, _constant(emit, *range(first, first + count))))
    size = emit("Gather", shape, emit.const(first, DType.INT64))
    return str(emit("Unsqueeze", size, _constant(emit, 0)))


def _by_attributes(emit: Any, name: str, first: int, count: int) -> str:
    return str(emit("Shape", name, start=first, end=first + count))


def _sliced(emit: Any, name: str, first: int, count: int) -> str:
    bounds = (_constant(emit, end) for end in (first, first + count))
    return str(emit("Slice", emit("Shape", name), *bounds))


def _derived(emit: Any, number: int, sizes: dict[Size, int], always: bool) -> str:
    """A number that is not a size: a multiple or a part of a size, else a constant. With `always`,
    the sum of a size and a constant."""
    for (name, axis), size in sizes.items():
        if size > 1 and number > size and number % size == 0:
            return str(emit("Mul", _read(emit, name, axis, 1), _constant(emit, number // size)))
        if size > number > 1 and size % number == 0:
            return str(emit("Div", _read(emit, name, axis, 1), _constant(emit, size // number)))
    if not always or not LEAST < number < MOST:
        return _constant(emit, number)
    (name, axis), size = next(iter(sizes.items()))
    return str(emit("Add", _read(emit, name, axis, 1), _constant(emit, number - size)))

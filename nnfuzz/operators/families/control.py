"""Control flow: operators that hold bodies (nnfuzz.operators.body) and execute them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import Bool
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice, decode
from nnfuzz.operators.body import Body, Pool
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.composite import Composite
from nnfuzz.operators.operator import OpSpec, per_input
from nnfuzz.operators.unexportable import DECOMPOSED

DTYPES = (
    DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, DType.INT32, DType.INT64, DType.INT8, DType.INT16,
    DType.UINT8, DType.BOOL,
)  # fmt: skip
"""The dtypes of control flow. PyTorch has kernels for all of them, which is necessary since values
inside a body are not reduced to a dtype's range (nnfuzz.operators.carriers)."""


class ControlFlow(Composite):
    """Base of operators with bodies. pool: operators of bodies; every value of a body has one type.

    Outer values that a body reads are inputs of this operator; in ONNX, it reads them by name.
    """

    since = 13
    pool: ClassVar[Pool] = ()
    readable: ClassVar[Pool] = ()
    """Further operators that the bodies of stored test cases may have."""
    unexportable = DECOMPOSED
    before: tuple[int, int] = (2, 2)
    """The numbers of inputs, and of a body's arguments, that precede the outer values."""
    others = Choice((0, 0, 1, 2))
    """The number of outer values."""

    @classmethod
    def from_json(cls, attributes: Mapping[str, Any]) -> Self:
        known = {spec.name: spec for spec in (*cls.readable, *cls.pool)}
        return cls(
            **{
                name: Body.from_json(value, known.__getitem__)
                if isinstance(value, dict) and "steps" in value
                else decode(value)
                for name, value in attributes.items()
            }
        )

    @property
    def bodies(self) -> list[Body]:
        return [value for value in self.attributes.values() if isinstance(value, Body)]

    def executes(self, *inputs: TensorType) -> Iterator[tuple[OpSpec, list[TensorType]]]:
        """The operators of the bodies, each with its input types."""
        inner = self.inner(*inputs)
        for step in (step for body in self.bodies for step in body.steps):
            yield step.op, [inner] * len(step.inputs)

    def inner(self, *inputs: TensorType) -> TensorType:
        """The type of the values inside the bodies."""
        return inputs[0]

    @per_input
    def wanted(self, *inputs: TensorType) -> list[TensorType]:
        """The types that the inputs should have, given the first."""
        raise NotImplementedError(f"{self.name}.wanted")

    @per_input
    def requires(self, *inputs: TensorType) -> Iterable[Bool]:
        yield from equal_types(inputs, self.wanted(inputs[0]))
        for body in self.bodies:
            yield from body.conditions(self.inner(*inputs))

    def without_input(self, position: int) -> Self | None:
        inputs, arguments = self.before
        if position < inputs:
            return None
        changed = {"others": self.others - 1}
        for name, value in self.attributes.items():
            if isinstance(value, Body):
                changed[name] = value.without_argument(position - inputs + arguments)
        return type(self)(**{**self.attributes, **changed})

    def complete(self, draw: Draw, first: TensorType, dtypes: Sequence[DType]) -> list[TensorType]:
        return self.wanted(first)


ATTEMPTS = 4
"""Number of tries to draw a body whose results depend on its arguments."""


def drawn_body(
    draw: Draw, pool: Pool, type_: TensorType, arguments: int, outputs: int, counted: int = 0
) -> Body:
    """A random body, preferably without results that are constant (x - x, 0 * x).

    counted: how many of the last arguments are iteration numbers, which begin at 0.
    """
    for _ in range(ATTEMPTS):
        body = Body.draw(draw, pool, type_, arguments, outputs)
        if _varies(body, type_, counted):
            break
    return body


def _varies(body: Body, type_: TensorType, counted: int) -> bool:
    numbers = _numbers(body.arguments, type_.rank, type_.dtype, counted)
    results = body.compose(lambda op, *xs: op.torch(*xs), numbers)
    return all(bool((y != y.reshape(-1)[0]).any()) for y in results)


@cache
def _numbers(arguments: int, rank: int, dtype: DType, counted: int) -> tuple[Tensor, ...]:
    """Fixed arguments with which a body is tried."""
    dice = torch.Generator().manual_seed(arguments)
    shape = (arguments, 12, *[2] * (rank - 1))
    numbers = (torch.rand(shape, generator=dice, dtype=torch.float64) - 0.4) * 8
    numbers[arguments - counted :] = 0.0
    values = numbers if dtype.is_float else numbers.round().to(dtype.torch)
    return tuple((numbers > 0 if dtype.is_bool else values).unbind())


def equal_types(inputs: Sequence[TensorType], wanted: Sequence[TensorType]) -> Iterator[Bool]:
    """Conditions under which the inputs have the wanted types."""
    yield len(inputs) == len(wanted)
    for have, want in zip(inputs, wanted):
        yield have.dtype is want.dtype and have.rank == want.rank
        yield from (a == b for a, b in zip(have.shape, want.shape) if a is not b)

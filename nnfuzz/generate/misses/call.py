"""What kinds of near misses work on: a requested operator, and what can be inserted around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.growth import Growth
from nnfuzz.generate.values import FREE
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import Int
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.motif import Operand
from nnfuzz.operators.operator import OpSpec

Outputs = tuple[str, ...] | None


@dataclass(frozen=True)
class Call:
    """An operator that a motif requests."""

    spec: type[OpSpec]
    operands: tuple[Operand, ...]
    attributes: Mapping[str, Any]

    def with_operand(self, position: int, operand: Operand) -> Call:
        """The same call with another operand at a position."""
        before, behind = self.operands[:position], self.operands[position + 1 :]
        return replace(self, operands=(*before, operand, *behind))

    def with_attribute(self, name: str, value: Any) -> Call:
        """The same call with another value of an attribute."""
        return replace(self, attributes={**self.attributes, name: value})

    def places(self, kind: type | tuple[type, ...]) -> list[int]:
        """The positions of operands of a Python type, without indices."""
        patterns = self.spec.patterns(max(len(self.operands), len(self.spec.inputs)))
        pairs = enumerate(zip(self.operands, patterns))
        return [i for i, (o, p) in pairs if isinstance(o, kind) and not p.index]


class Inserting(Protocol):
    """What kinds of near misses need of the writer of a motif (nnfuzz.generate.motifs).

    constants: the weights that earlier operators of the motif have for their numbers; some may have
    been taken back.
    """

    catalog: Catalog
    growth: Growth
    draw: Draw

    @property
    def constants(self) -> Sequence[str]: ...

    def type(self, name: str) -> TensorType: ...

    def shared(self, type_: TensorType, *ends: float) -> str: ...

    def binding(self, call: Call) -> dict[str, DType] | None: ...

    def insert(self, call: Call) -> Outputs: ...


Kind = Callable[[Inserting, Call], Outputs]


def inserted(m: Inserting, operator: str, *operands: Operand, **attributes: Any) -> str | None:
    """The first output of a new node; None if there is no such operator or it does not fit."""
    spec = m.catalog.find(operator)
    outputs = m.insert(Call(spec, operands, attributes)) if spec else None
    return outputs[0] if outputs else None


def rewired(m: Inserting, call: Call, position: int, operand: Operand | None) -> Outputs:
    """Inserts a call with another operand at a position; None without one."""
    return None if operand is None else m.insert(call.with_operand(position, operand))


def behind(outputs: Outputs, name: str | None) -> Outputs:
    """The outputs with another value in place of the first; None without one."""
    return (name, *outputs[1:]) if outputs and name else None


def fresh_input(m: Inserting, type_: TensorType) -> str | None:
    """A new input of the model, which nothing prescribes; None if it is too large."""
    return m.growth.place(type_, FREE)


def like(m: Inserting, call: Call) -> TensorType | None:
    """The type of the first operand that is a value of the graph."""
    names = [o for o in call.operands if isinstance(o, str)]
    return m.type(names[0]) if names else None


def same_type(one: TensorType, other: TensorType) -> bool:
    """Whether two types are known to be equal; open dimensions are equal to themselves alone."""
    return one.dtype is other.dtype and same_shape(one.shape, other.shape)


def same_shape(one: Sequence[Int], other: Sequence[Int]) -> bool:
    """The same for the dimensions."""
    pairs = list(zip(one, other)) if len(one) == len(other) else [(0, 1)]
    return all(a is b or (a.__class__ is b.__class__ is int and a == b) for a, b in pairs)

"""The interface of kinds of near misses: the requested operator, and the means to insert nodes."""

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
        """The positions of operands of a Python type, without operands that hold indices."""
        patterns = self.spec.patterns(max(len(self.operands), len(self.spec.inputs)))
        pairs = enumerate(zip(self.operands, patterns))
        return [i for i, (o, p) in pairs if isinstance(o, kind) and not p.index]


class Inserting(Protocol):
    """The part of a motif's writer (nnfuzz.generate.motifs) that kinds of near misses use.

    constants: weights that hold numbers of the motif's earlier operators; some may be gone.
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
    """Insert a node; returns its first output, or None if that is impossible."""
    spec = m.catalog.find(operator)
    outputs = m.insert(Call(spec, operands, attributes)) if spec else None
    return outputs[0] if outputs else None


def rewired(m: Inserting, call: Call, position: int, operand: Operand | None) -> Outputs:
    """Insert a call with the operand at a position replaced; None if there is no operand."""
    return None if operand is None else m.insert(call.with_operand(position, operand))


def behind(outputs: Outputs, name: str | None) -> Outputs:
    """The outputs with the first one replaced; None if either is missing."""
    return (name, *outputs[1:]) if outputs and name else None


def fresh_input(m: Inserting, type_: TensorType) -> str | None:
    """A new input of the model with free values; None if it is too large."""
    return m.growth.place(type_, FREE)


def like(m: Inserting, call: Call) -> TensorType | None:
    """The type of the first operand that is a value of the graph."""
    names = [o for o in call.operands if isinstance(o, str)]
    return m.type(names[0]) if names else None


def same_type(one: TensorType, other: TensorType) -> bool:
    """Whether two types are known to be equal; a symbolic dimension is equal to itself only."""
    return one.dtype is other.dtype and same_shape(one.shape, other.shape)


def same_shape(one: Sequence[Int], other: Sequence[Int]) -> bool:
    """Whether two shapes are known to be equal; a symbolic dimension is equal to itself only."""
    pairs = list(zip(one, other)) if len(one) == len(other) else [(0, 1)]
    return all(a is b or (a.__class__ is b.__class__ is int and a == b) for a, b in pairs)

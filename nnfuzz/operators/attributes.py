"""Declarations of operator attributes.

An attribute is declared as a class attribute of an `OpSpec`. `Sym` attributes become integer
variables that the solver decides, `Choice` attributes are drawn and then fixed, `Real` attributes
are floats. `count` and `options` may be functions of `(op, *input_types)`, where attributes that
were declared earlier are already set on `op`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, overload

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.draw import Draw


class Declared:
    """On the class it is the declaration; on an instance it is the attribute's value."""

    if TYPE_CHECKING:

        @overload
        def __get__(self, op: None, owner: type) -> Self: ...
        @overload
        def __get__(self, op: object, owner: type) -> Any: ...
        def __get__(self, op: object, owner: type) -> Any: ...


REQUIRED = object()
"""An attribute without a default."""


@dataclass(frozen=True)
class Sym(Declared):
    """A symbolic integer in `[lo, hi]`, or a tuple of `count(op, *types)` of them.

    `kind` chooses the bins of the attribute binning: "size" (exponential), "offset" (a bin of its
    own for zero, exponential to both sides; for paddings).
    """

    lo: int
    hi: int
    count: Callable[..., int] | None = None
    kind: str = "size"

    def draw(self, draw: Draw, name: str, op: Any, types: Sequence[Any]) -> Any:
        if self.count is None:
            return draw.var(name, self.lo, self.hi, self.kind)
        return tuple(
            draw.var(f"{name}{i}", self.lo, self.hi, self.kind)
            for i in range(self.count(op, *types))
        )


@dataclass(frozen=True)
class Choice(Declared):
    """One of a finite set of options, drawn uniformly and then fixed.

    `options` is a sequence or a function of `(op, *types)` that returns one; alternatively `draw`
    is a function of `(draw, op, *types)` that returns the value itself (permutations, subsets).
    `default`: the value where none is given, so that test cases from before the attribute was
    declared can still be read; `REQUIRED`: there is none.
    """

    options: Sequence[Any] | Callable[..., Sequence[Any]] | None = None
    by: Callable[..., Any] | None = None
    default: Any = REQUIRED

    def draw(self, draw: Draw, name: str, op: Any, types: Sequence[Any]) -> Any:
        if self.by is not None:
            return self.by(draw, op, *types)
        options = self.options(op, *types) if callable(self.options) else self.options
        return draw.choice(options or ())


@dataclass(frozen=True)
class Real(Declared):
    """A float in `[lo, hi]`, rounded to two significant digits so that reports stay readable."""

    lo: float
    hi: float

    def draw(self, draw: Draw, name: str, op: Any, types: Sequence[Any]) -> float:
        value = draw.real(self.lo, self.hi)
        digits = 1 - math.floor(math.log10(abs(value))) if value else 0
        return min(max(round(value, digits), self.lo), self.hi)


Attribute = Sym | Choice | Real


def encode(value: Any) -> Any:
    """An attribute value as JSON: DType -> {"dtype": name}, tuple -> list, bodies as they say."""
    match value:
        case DType():
            return {"dtype": value.value}
        case tuple():
            return [encode(v) for v in value]
        case int() | float() | str() | None:
            return value
        case _:
            return value.to_json() if hasattr(value, "to_json") else value


def decode(value: Any) -> Any:
    """Inverse of `encode`, except for bodies (see nnfuzz.operators.families.control)."""
    if isinstance(value, dict):
        return DType(value["dtype"])
    if isinstance(value, list):
        return tuple(decode(v) for v in value)
    return value


def readable(value: Any) -> str:
    """An attribute value in its JSON form, for people; a body reads like a program."""
    if isinstance(value, list):
        return f"[{', '.join(map(readable, value))}]"
    if isinstance(value, dict):
        return _body(value) if "steps" in value else ", ".join(map(str, value.values()))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _body(body: dict[str, Any]) -> str:
    """Such as "(a, b) {c = Add(a, b); d = Relu(c); d, a}"."""
    names = [_letter(i) for i in range(body["arguments"] + len(body["steps"]))]
    steps = []
    for name, (op, attributes, inputs) in zip(names[body["arguments"] :], body["steps"]):
        given = [f"{key}={readable(v)}" for key, v in attributes.items() if v is not None]
        steps.append(f"{name} = {op}({', '.join([*(names[i] for i in inputs), *given])})")
    results = ", ".join(names[i] for i in body["outputs"])
    return f"({', '.join(names[: body['arguments']])}) {{{'; '.join([*steps, results])}}}"


def _letter(i: int) -> str:
    return chr(ord("a") + i) if i < 26 else f"v{i}"

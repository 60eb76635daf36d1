"""Declarations of operator attributes.

An attribute is declared as a class attribute of an `OpSpec`. `Sym` attributes become integer
variables that the solver decides, `Choice` attributes are drawn and then fixed, `Real` attributes
are floats. `count` and `options` may be functions of `(op, *input_types)`, where attributes that
were declared earlier are already set on `op`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, overload

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import Expr, Var, evaluate
from nnfuzz.ir.types import TensorType
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


Fields = Mapping[str, Any]
"""ONNX attributes and constant inputs by their ONNX names; None for those left out."""
Types = Sequence[TensorType]


class Attributed:
    """A class declares attributes (`Sym`, `Choice`, `Real`), an instance has values for them."""

    name: ClassVar[str] = ""
    declared: ClassVar[dict[str, Attribute]] = {}
    implied: ClassVar[dict[str, Any]] = {}
    """Values of the attributes that need not be given."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.declared = {
            name: value
            for base in reversed(cls.__mro__)
            for name, value in vars(base).items()
            if isinstance(value, (Sym, Choice, Real))
        }
        cls.implied = {
            name: declared.default
            for name, declared in cls.declared.items()
            if isinstance(declared, Choice) and declared.default is not REQUIRED
        }

    def __init__(self, **attributes: Any) -> None:
        """Raises: TypeError if the attributes are not exactly the declared ones, defaults aside."""
        attributes = {**self.implied, **attributes}
        if attributes.keys() != self.declared.keys():
            raise TypeError(
                f"{self.name} takes the attributes {sorted(self.declared)}, "
                f"got {sorted(attributes)}"
            )
        self.__dict__.update(attributes)

    @classmethod
    def draw(cls, draw: Draw, *types: TensorType) -> Self:
        """An instance with fresh attributes. `types` holds at least the first input's type."""
        return cls.draw_given(draw, {}, *types)

    @classmethod
    def draw_given(cls, draw: Draw, given: Mapping[str, Any], *types: TensorType) -> Self:
        """`draw` with some attributes given; the others may depend on them."""
        op = cls.__new__(cls)
        if given:
            op.__dict__.update(given)
        for name, declaration in cls.declared.items():
            if name not in given:
                op.__dict__[name] = declaration.draw(draw, name, op, types)
        return op

    @classmethod
    def draw_backward(cls, draw: Draw, first: TensorType, output: TensorType) -> Self:
        """An instance for backward insertion. Default: `draw`.

        Operators that change the rank override it, so that they yield the rank of `output`.
        """
        return cls.draw(draw, first)

    @property
    def attributes(self) -> dict[str, Any]:
        """The declared attributes by name, with the values of this instance."""
        return {name: self.__dict__[name] for name in self.declared}

    def concrete(self, env: Mapping[Var, int], memo: dict[Any, Any] | None = None) -> Self:
        """The same operator with every symbolic attribute evaluated under `env`."""
        if not self.declared:
            return self
        return type(self)(**{k: _concrete(v, env, memo) for k, v in self.attributes.items()})

    @classmethod
    def from_onnx(cls, fields: Fields, takes: Types, gives: Types) -> Self:
        """The presumed instance for a node of an imported model; `means` checks it.

        fields: with the constant inputs that the spec declares as attributes. takes, gives: types
        of the other inputs, and of the outputs. Default: every attribute by its name.
        Raises: KeyError if one is missing.
        """
        names = [name for name in cls.declared if name in fields or name not in cls.implied]
        return cls(**{name: fields[name] for name in names})

    def to_json(self) -> dict[str, Any]:
        """The attributes as JSON values (see `encode`)."""
        return {name: encode(self.__dict__[name]) for name in self.declared}

    @classmethod
    def from_json(cls, attributes: Mapping[str, Any]) -> Self:
        """Inverse of `to_json`."""
        return cls(**{name: decode(value) for name, value in attributes.items()})

    def __repr__(self) -> str:
        inner = ", ".join(f"{k}={readable(v)}" for k, v in self.to_json().items())
        return f"{self.name}<{inner}>" if inner else self.name


def _concrete(value: Any, env: Mapping[Var, int], memo: dict[Any, Any] | None) -> Any:
    match value:
        case Expr():
            return int(evaluate(value, env, memo))
        case tuple():
            return tuple(_concrete(v, env, memo) for v in value)
        case _:
            return value

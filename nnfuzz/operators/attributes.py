"""Declarations of operator attributes.

An `OpSpec` declares an attribute as a class attribute: `Sym` (an integer that the solver decides),
`Choice` (drawn, then fixed) or `Real` (a float). `count` and `options` may be functions of `(op,
*input_types)`; attributes declared earlier are already set on `op`.
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
    """Base of declarations: the class attribute is the declaration, the instance's is the value."""

    if TYPE_CHECKING:

        @overload
        def __get__(self, op: None, owner: type) -> Self: ...
        @overload
        def __get__(self, op: object, owner: type) -> Any: ...
        def __get__(self, op: object, owner: type) -> Any: ...


REQUIRED = object()
"""Value of `Choice.default` that means: no default, the attribute must be given."""


@dataclass(frozen=True)
class Sym(Declared):
    """A symbolic integer in `[lo, hi]`, or a tuple of `count(op, *types)` of them.

    kind: how attribute binning divides `[lo, hi]`. "size": bins grow exponentially. "offset" (for
    paddings): zero is a bin of its own, and bins grow exponentially on both sides of it.
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

    options: a sequence, or a function of `(op, *types)` that returns one. by: used in place of
    `options` if given, a function of `(draw, op, *types)` that returns the value (permutations,
    subsets). default: the value of a test case that was stored before the attribute was declared;
    `REQUIRED` if such a test case is an error.
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
    """An attribute value as JSON: DType -> {"dtype": name}, tuple -> list, Body -> dict."""
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
    """Inverse of `encode`, except for bodies, which nnfuzz.operators.families.control decodes."""
    if isinstance(value, dict):
        return DType(value["dtype"])
    if isinstance(value, list):
        return tuple(decode(v) for v in value)
    return value


def readable(value: Any) -> str:
    """The text of an attribute value that is given as JSON; a body reads like a program."""
    if isinstance(value, list):
        return f"[{', '.join(map(readable, value))}]"
    if isinstance(value, dict):
        return _body(value) if "steps" in value else ", ".join(map(str, value.values()))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _body(body: dict[str, Any]) -> str:
    """The text of a body, such as "(a, b) {c = Add(a, b); d = Relu(c); d, a}"."""
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
"""An ONNX node's attributes and constant inputs by their ONNX names; None for omitted ones."""
Types = Sequence[TensorType]


class Attributed:
    """Base of operators: the class declares attributes, an instance has a value for each."""

    name: ClassVar[str] = ""
    """The name that the class states, otherwise that of the class."""
    declared: ClassVar[dict[str, Attribute]] = {}
    implied: ClassVar[dict[str, Any]] = {}
    """Default values by attribute name; an attribute without a default is not in it."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.name = vars(cls).get("name", cls.__name__)
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
        """Raises: TypeError if an attribute is unknown, or is missing and has no default."""
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
        """An instance with the given attributes; the others are drawn and may depend on them."""
        op = cls.__new__(cls)
        if given:
            op.__dict__.update(given)
        for name, declaration in cls.declared.items():
            if name not in given:
                op.__dict__[name] = declaration.draw(draw, name, op, types)
        return op

    @classmethod
    def draw_backward(cls, draw: Draw, first: TensorType, output: TensorType) -> Self:
        """An instance for backward insertion, where the operator has to compute a given `output`.

        Default: `draw`. To be overridden if attributes decide the rank: it must be that of
        `output`.
        """
        return cls.draw(draw, first)

    @property
    def attributes(self) -> dict[str, Any]:
        """The declared attributes by name, with the values of this instance."""
        return {name: self.__dict__[name] for name in self.declared}

    def concrete(self, env: Mapping[Var, int], memo: dict[Any, Any] | None = None) -> Self:
        """The operator with every symbolic attribute evaluated; `env` has the variables' values."""
        if not self.declared:
            return self
        return type(self)(**{k: _concrete(v, env, memo) for k, v in self.attributes.items()})

    @classmethod
    def from_onnx(cls, fields: Fields, takes: Types, gives: Types) -> Self:
        """The likely instance for a node of an imported model, which the importer then verifies.

        fields: the node's attributes, and those constant inputs that the spec declares as
        attributes. takes, gives: types of the other inputs, and of the outputs. Default: every
        attribute by its name. Raises: KeyError if an attribute is missing.
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

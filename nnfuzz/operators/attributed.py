"""The attributes of an operator: declared, drawn, evaluated, written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from nnfuzz.ir.expr import Expr, Var, evaluate
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import (
    REQUIRED,
    Attribute,
    Choice,
    Real,
    Sym,
    decode,
    encode,
    readable,
)
from nnfuzz.operators.draw import Draw

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

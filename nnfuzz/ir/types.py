"""Types of tensors: a dtype and a shape whose dimensions may be expressions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import Int, Var, evaluate, product


@dataclass(slots=True, eq=False)
class TensorType:
    """Dtype and shape of a tensor.

    Instances never change, but the class is not frozen: frozen objects take twice as long to
    create, and generation creates many.
    """

    dtype: DType
    shape: tuple[Int, ...]

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def numel(self) -> Int:
        """Number of elements."""
        return product(self.shape)

    @property
    def is_empty(self) -> bool:
        """Whether a dimension is the plain integer 0, so that the tensor has no elements."""
        return any([d.__class__ is int and d == 0 for d in self.shape])

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape of a concrete type. Raises: TypeError if a dimension is an expression."""
        for dim in self.shape:
            if type(dim) is not int:
                raise TypeError(f"{self!r} is not concrete")
        return self.shape  # type: ignore[return-value]

    @property
    def elements(self) -> int:
        """`numel` of a concrete type. Raises: TypeError if a dimension is an expression."""
        return math.prod(self.sizes)

    @property
    def is_concrete(self) -> bool:
        """Whether every dimension is a plain integer."""
        return all(isinstance(d, int) for d in self.shape)

    def with_shape(self, shape: Sequence[Int]) -> TensorType:
        """The type with another shape."""
        return TensorType(self.dtype, tuple(shape))

    def with_dtype(self, dtype: DType) -> TensorType:
        """The type with another dtype."""
        return TensorType(dtype, self.shape)

    def concrete(self, env: Mapping[Var, int], memo: dict[Any, Any] | None = None) -> TensorType:
        """The type with every dimension evaluated; `env` has the variables' values."""
        return TensorType(self.dtype, tuple(int(evaluate(d, env, memo)) for d in self.shape))

    def same(self, other: TensorType) -> bool:
        """Whether two concrete types are equal."""
        return self.dtype is other.dtype and self.shape == other.shape

    def __repr__(self) -> str:
        return f"{self.dtype.value}[{', '.join(map(repr, self.shape))}]"


def tensor_types(dtypes: Iterable[DType], *shapes: tuple[Int, ...]) -> list[TensorType]:
    """The types of several tensors: as many as there are dtypes, in the order of the shapes."""
    return [TensorType(dtype, shape) for dtype, shape in zip(dtypes, shapes)]

"""Operators whose results hold zeros of their own."""

from __future__ import annotations

from nnfuzz.ir.types import TensorType
from nnfuzz.spec.operator import OpSpec, Range


class Zeros(OpSpec):
    """Some element may be 0 whatever the input: what is filled up, or reached by nothing."""

    def certain(self, *inputs: TensorType) -> tuple[Range, ...]:
        return ((0, 0),)

"""Boxes: sets of tensors that every correct implementation stays inside of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from nnfuzz.spec.operator import OpSpec


@dataclass(frozen=True, eq=False)
class Box:
    """Elementwise interval `[lo, hi]` and the mask `any` of elements that can not be compared.

    lo, hi: float64 for floating values (the same object while the value is exact), the value's own
    dtype for integers and booleans, where lo equals hi wherever `any` is False.
    any: bool tensor of the same shape, or None when every element is comparable.
    """

    lo: Tensor
    hi: Tensor
    any: Tensor | None = None


def moved(op: OpSpec, *boxes: Box) -> list[Box]:
    """Boxes behind an operator that only moves elements around."""
    import torch

    from nnfuzz.spec.operator import flatten

    los = list(flatten(op.torch(*[b.lo for b in boxes])))
    exact = all(b.lo is b.hi for b in boxes)
    his = los if exact else list(flatten(op.torch(*[b.hi for b in boxes])))
    if all(b.any is None for b in boxes):
        return [Box(lo, hi) for lo, hi in zip(los, his)]
    masks = [torch.zeros_like(b.lo, dtype=torch.bool) if b.any is None else b.any for b in boxes]
    return [Box(lo, hi, m) for lo, hi, m in zip(los, his, flatten(op.torch(*masks)))]

"""Parts of recurrent cells: parameters by gate, activation functions, and steps of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nnfuzz.operators.families.sums import Summing
from nnfuzz.operators.intervals import Interval, linear
from nnfuzz.operators.operator import OpSpec


@dataclass(frozen=True)
class Activation:
    """How a function is named in `activations`, as an operator.

    default: with the parameters that hold where none are given. given: with those of `alpha` and
    `beta`, for which the lists activation_alpha and activation_beta have an entry where not None.
    """

    default: OpSpec
    given: OpSpec | None = None
    alpha: float | None = None
    beta: float | None = None


class Gate(Summing):
    """(B, K) and (H, K) and terms that broadcast to (B, H): x @ w.T and all of the terms added."""

    name = "Gate"
    unscaled = True

    def torch(self, x: Tensor, w: Tensor, *terms: Tensor) -> Tensor:
        y = x @ w.t()
        for term in terms:
            y = y + term
        return y

    def terms(self, x: Tensor, w: Tensor, *terms: Tensor) -> int:
        return x.shape[1] + len(terms)

    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        return [linear(self.torch, *intervals, weights=(0, 1))]


@dataclass(frozen=True)
class Cell:
    """The parameters of one direction, by gate: `w` (H, I), `r` (H, H), rows of biases and so on.

    index: of the direction.
    """

    index: int
    w: Mapping[str, Any]
    r: Mapping[str, Any]
    wr: Mapping[str, Any]
    wb: Mapping[str, Any]
    rb: Mapping[str, Any]
    p: Mapping[str, Any]

    def biases(self, gate: str) -> list[Any]:
        return [b[gate] for b in (self.wb, self.rb) if gate in b]


def stack(tensors: Sequence[Tensor], axis: int) -> Tensor:
    return torch.stack(list(tensors), axis)


def concat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(tensors), -1)


def row_choice(on: list[list[bool]]) -> Callable[..., Tensor]:
    """Of two tensors (B, H), rows of the first where the flag (B, 1) is set; 0 for no second."""

    def choose(new: Tensor, *old: Tensor) -> Tensor:
        return torch.where(torch.tensor(on), new, old[0] if old else torch.zeros_like(new))

    return choose

"""Operators that are programs over other operators: recurrent cells, bodies of control flow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from nnfuzz.operators.intervals import Interval, moved
from nnfuzz.operators.operator import OpSpec

Apply = Callable[..., Any]
"""apply(op, *values): the result of an operator, or a sequence if it has several outputs."""


class Composite(OpSpec):
    """An operator whose `compose` defines the outputs once for all interpretations.

    `apply` interprets the inner operators: PyTorch's results, derivatives, domain terms, or the
    interval around every correct implementation (nnfuzz.compare.envelope), which includes the
    rounding of each step. So a composite needs no `interval` or `radius`.
    """

    def compose(self, apply: Apply, *values: Any) -> Sequence[Any]:
        """The outputs, by calls of `apply`. Of `values`, only `shape` may be used directly."""
        raise NotImplementedError(f"{self.name}.compose")

    def torch(self, *tensors: Tensor) -> Sequence[Tensor]:
        return self.compose(_run, *tensors)

    def proxy(self, *tensors: Tensor) -> Sequence[Tensor]:
        return self.compose(lambda op, *xs: op.proxy(*xs), *tensors)

    def domain(self, *tensors: Tensor) -> list[Tensor]:
        """The domain terms of all steps; if derivatives are recorded, up to the first violated
        step.

        Terms after a violated one may be infinite, and then they have no usable derivative.
        """
        if not torch.is_grad_enabled():
            return self.attempt(*tensors)[0]

        def terms(op: OpSpec, *xs: Tensor) -> list[Tensor]:
            if steps and not all(bool((term <= 0).all()) for term in steps[-1]):
                raise RuntimeError(f"{op.name} follows a violated step")
            steps.append(op.domain(*xs))
            return steps[-1]

        steps: list[list[Tensor]] = []
        return self._gathered(terms, tensors)[0]

    def attempt(self, *tensors: Tensor) -> tuple[list[Tensor], Sequence[Tensor]]:
        """`domain` and `torch` in one pass; no outputs if a violated step raises."""
        return self._gathered(lambda op, *xs: op.domain(*xs), tensors)

    def margins(self, *tensors: Tensor) -> list[Tensor]:
        return self._gathered(lambda op, *xs: op.margins(*xs), tensors)[0]

    def _gathered(
        self, terms: Callable[..., list[Tensor]], tensors: Sequence[Tensor]
    ) -> tuple[list[Tensor], Sequence[Tensor]]:
        """The terms of all steps, and the outputs; stops where a step raises after a violated
        term."""
        gathered: list[Tensor] = []

        def apply(op: OpSpec, *xs: Tensor) -> Any:
            gathered.extend(terms(op, *xs))
            return _run(op, *xs)

        try:
            return gathered, self.compose(apply, *tensors)
        except RuntimeError:
            if all(bool((term <= 0).all()) for term in gathered):
                raise
        return gathered, ()


def _run(op: OpSpec, *tensors: Tensor) -> Any:
    return op.torch(*tensors)


class Moves(OpSpec):
    """A step that selects, rearranges or repeats elements by `function`; masks move along."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def torch(self, *tensors: Tensor) -> Any:
        return self.function(*tensors)

    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        return moved(self, *intervals)

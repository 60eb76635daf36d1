"""Declarations of where an authority on ONNX gets an operator wrong, and what decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType


@dataclass(frozen=True)
class Dispute:
    """Where an authority departs from the ONNX standard on an operator.

    authority: "onnx.reference", "function body" (the one that the operator's schema brings along),
    or a backend's name. claim: what it does instead, with the version that was looked at. clause:
    the words of the standard that decide, after the operator and version that they are from.
    dtypes: only where an input or output has one of these; empty means any. where: only where this
    holds of the operator and its input types; None means always. below: only under that opset; 0
    means at all. known: the thread of its project's tracker, where there is one.
    `tests/check/test_disputes.py` fails for what a new version of the authority makes obsolete.
    """

    authority: str
    claim: str
    clause: str
    dtypes: tuple[DType, ...] = ()
    where: Callable[..., bool] | None = None
    below: int = 0
    known: str = ""

    def covers(self, op: Any, opset: int, types: Sequence[TensorType]) -> bool:
        """Whether the authority is not to be trusted with an instance (types are concrete)."""
        if self.below and opset >= self.below:
            return False
        if self.dtypes:
            have = {t.dtype for t in (*types, *op.type_transfer(*types))}
            if have.isdisjoint(self.dtypes):
                return False
        return self.where is None or bool(self.where(op, *types))


def reference(claim: str, clause: str, **scope: Any) -> Dispute:
    """Where onnx.reference is wrong; scope: the further fields of `Dispute`."""
    return Dispute("onnx.reference", f"{claim} (onnx 1.23)", clause, **scope)


def rounds(what: str, clause: str, **scope: Any) -> Dispute:
    """Where onnx.reference has float32 numbers on the way, which shows if the type is float64."""
    claim = f"computes {what} in float32, whatever the type"
    return reference(claim, clause, dtypes=(DType.FLOAT64,), **scope)


def body(claim: str, clause: str, **scope: Any) -> Dispute:
    """Where the function body of an operator's schema, run by onnx.reference, is wrong."""
    return Dispute("function body", f"{claim} (onnx 1.23)", clause, **scope)

"""Waivers: where a reference implementation gets an operator wrong, and the clause that decides.

A module of operators, or one beside it, declares them as `WAIVERS`: tuples of `Waiver` by the
operator's name. The registry merges those of all modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType


@dataclass(frozen=True)
class Waiver:
    """Where a reference implementation departs from the ONNX standard on an operator.

    implementation: "onnx.reference", "function body" (the one that the operator's schema has),
    or a backend's name. claim: what it does instead, with the version that was looked at. clause:
    the words of the standard that decide, after the operator and version that they are from.
    dtypes: only where an input or output has one of these; empty means any. where: only where this
    holds of the operator and its input types; None means always. below: only under that opset; 0
    means at all. until: the implementation's release that is right; "" while there is none. known:
    the thread of its project's tracker, where there is one.
    `tests/check/test_waivers.py` fails for a waiver that a new version of the implementation makes
    obsolete.
    """

    implementation: str
    claim: str
    clause: str
    dtypes: tuple[DType, ...] = ()
    where: Callable[..., bool] | None = None
    below: int = 0
    until: str = ""
    known: str = ""

    def covers(self, op: Any, opset: int, types: Sequence[TensorType]) -> bool:
        """Whether the implementation is not to be trusted with an instance (types are concrete)."""
        if self.below and opset >= self.below:
            return False
        if self.dtypes:
            have = {t.dtype for t in (*types, *op.type_transfer(*types))}
            if have.isdisjoint(self.dtypes):
                return False
        return self.where is None or bool(self.where(op, *types))


class Waivers:
    """Waivers by the operator's name."""

    def __init__(self, declared: Mapping[str, Sequence[Waiver]] | None = None) -> None:
        self._declared = {name: tuple(waivers) for name, waivers in (declared or {}).items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def of(self, name: str) -> tuple[Waiver, ...]:
        """The waivers of one operator, in order of declaration."""
        return self._declared.get(name, ())

    def and_also(self, more: Mapping[str, Sequence[Waiver]]) -> Waivers:
        """These waivers and others, each once."""
        names = dict.fromkeys([*self, *more])
        return Waivers({n: list(dict.fromkeys([*self.of(n), *more.get(n, ())])) for n in names})

    def covering(self, op: Any, opset: int, types: Sequence[TensorType]) -> list[Waiver]:
        """Waivers that apply to an operator, or to its bodies, on concrete types at an opset."""
        waivers = [d for d in self.of(op.name) if d.covers(op, opset, types)]
        for inner, inputs in op.executes(*types):
            waivers += self.covering(inner, opset, inputs)
        return waivers


NONE = Waivers()


def reference(claim: str, clause: str, **scope: Any) -> Waiver:
    """Where onnx.reference is wrong; scope: the further fields of `Waiver`."""
    return Waiver("onnx.reference", f"{claim} (onnx 1.23)", clause, **scope)


def rounds(what: str, clause: str, **scope: Any) -> Waiver:
    """Where onnx.reference has float32 numbers on the way, which shows if the type is float64."""
    claim = f"computes {what} in float32, whatever the type"
    return reference(claim, clause, dtypes=(DType.FLOAT64,), **scope)


def body(claim: str, clause: str, **scope: Any) -> Waiver:
    """Where the function body of an operator's schema, run by onnx.reference, is wrong."""
    return Waiver("function body", f"{claim} (onnx 1.23)", clause, **scope)

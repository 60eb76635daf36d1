"""Waivers: cases in which a reference implementation is wrong, with the clause that proves it.

A module of operators declares them as `WAIVERS`: tuples of `Waiver` by the operator's name. The
registry merges the waivers of all modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType


@dataclass(frozen=True)
class Waiver:
    """A case in which a reference implementation deviates from the ONNX standard.

    implementation: "onnx.reference", "function body" (of the operator's schema), or a backend's
    name. claim: what the implementation does, and its version. clause: the words of the standard
    that decide, preceded by the operator and version. dtypes: the case needs an input or output of
    one of these; empty: any. where: predicate over the operator and its input types; None: always.
    below: only at opsets below this one; 0: at all opsets. known: address of the upstream issue, if
    any.
    `tests/check/test_waivers.py` fails for a waiver that a new release makes obsolete.
    """

    implementation: str
    claim: str
    clause: str
    dtypes: tuple[DType, ...] = ()
    where: Callable[..., bool] | None = None
    below: int = 0
    known: str = ""

    def __str__(self) -> str:
        """A sentence that says what the implementation does, and the words of the standard."""
        return f"It {self.claim}{self.known and f', see {self.known}'}. {self.clause}"

    def covers(self, op: Any, opset: int, types: Sequence[TensorType]) -> bool:
        """Whether the case applies to an operator instance with concrete input types."""
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
        """The waivers of an operator, in order of declaration."""
        return self._declared.get(name, ())

    def and_also(self, more: Mapping[str, Sequence[Waiver]]) -> Waivers:
        """These waivers and further ones, without duplicates."""
        names = dict.fromkeys([*self, *more])
        return Waivers({n: list(dict.fromkeys([*self.of(n), *more.get(n, ())])) for n in names})

    def covering(self, op: Any, opset: int, types: Sequence[TensorType]) -> list[Waiver]:
        """Waivers that apply to an operator, or to operators inside it. types: concrete."""
        waivers = [d for d in self.of(op.name) if d.covers(op, opset, types)]
        for inner, inputs in op.executes(*types):
            waivers += self.covering(inner, opset, inputs)
        return waivers


NONE = Waivers()


def reference(claim: str, clause: str, **scope: Any) -> Waiver:
    """A waiver for onnx.reference. scope: further fields of `Waiver`."""
    return Waiver("onnx.reference", f"{claim} (onnx 1.23)", clause, **scope)


def rounds(what: str, clause: str, **scope: Any) -> Waiver:
    """A waiver for onnx.reference, which computes `what` in float32 even for float64."""
    claim = f"computes {what} in float32, whatever the type"
    return reference(claim, clause, dtypes=(DType.FLOAT64,), **scope)


def body(claim: str, clause: str, **scope: Any) -> Waiver:
    """A waiver for the function body of an operator's schema, as onnx.reference runs it."""
    return Waiver("function body", f"{claim} (onnx 1.23)", clause, **scope)

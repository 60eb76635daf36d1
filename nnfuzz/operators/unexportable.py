"""Declarations of cases that PyTorch's exporters get wrong, so that generation avoids them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType

FROM_PYTORCH = ("torchscript", "dynamo")
"""The exporters of PyTorch."""


@dataclass(frozen=True)
class Unexportable:
    """A case in which an exporter refuses a correct operator, or exports it wrongly, and why.

    exporter: "torchscript" or "dynamo". dtypes: the case needs an input of one of these; empty:
    any. scalars: it needs this many of those inputs (or all, if there are fewer) to have rank 0.
    below: only at opsets below this one; 0: at all opsets.
    """

    exporter: str
    reason: str
    dtypes: tuple[DType, ...] = ()
    scalars: int = 0
    below: int = 0

    def covers(self, exporter: str, opset: int, types: Sequence[TensorType]) -> bool:
        """Whether the case applies to inputs of these types (shapes may be symbolic)."""
        if not self.concerns(exporter, opset, [t.dtype for t in types]):
            return False
        ranks = [t.rank for t in types if not self.dtypes or t.dtype in self.dtypes]
        return ranks.count(0) >= min(self.scalars, len(ranks))

    def concerns(self, exporter: str, opset: int, dtypes: Sequence[DType]) -> bool:
        """`covers` for inputs of any rank."""
        return (
            self.exporter == exporter
            and not (self.below and opset >= self.below)
            and not (self.dtypes and not any(d in self.dtypes for d in dtypes))
        )


def unknown_dtype(exporter: str, dtypes: Iterable[DType]) -> bool:
    """Whether PyTorch's exporters lack the operator, since PyTorch holds a dtype in a wider one.

    Direct emission knows every dtype.
    """
    return exporter in FROM_PYTORCH and any(dtype.carried for dtype in dtypes)


SCALAR_DOUBLES = Unexportable(
    "torchscript",
    "takes float64 of rank 0 for Python numbers, that is for float32 (torch 2.13, "
    "scalar_type_analysis.cpp)",
    dtypes=(DType.FLOAT64,),
    scalars=2,
)
SCALAR_DOUBLE = replace(SCALAR_DOUBLES, scalars=1)

DECOMPOSED = tuple(
    Unexportable(
        exporter,
        "spells it out in dozens to hundreds of primitive operators; compilers never see the "
        "operator itself, which direct emission gives them",
    )
    for exporter in FROM_PYTORCH
)

CHAINED_BYTES = Unexportable(
    "torchscript",
    "widens the first of several sums of 8 or 16 bits, and not the others, at opset 13 "
    "(torch 2.13)",
    dtypes=(DType.INT8, DType.INT16, DType.UINT8, DType.UINT16),
    below=14,
)

HALF_PROMOTED = Unexportable(
    "dynamo",
    "casts 16-bit floats to float32 in front of abs, amax, amin, sum, prod and cumsum, and not "
    "back (torch 2.13)",
    dtypes=(DType.FLOAT16, DType.BFLOAT16),
)

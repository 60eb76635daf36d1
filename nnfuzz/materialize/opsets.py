"""Which ONNX opsets each exporter reaches. Imports nothing, so that the command line can ask."""

from __future__ import annotations

from collections.abc import Mapping

OPSETS: Mapping[str, tuple[int, int]] = {
    # It goes down to 7; it warns above 20, where it labels what it knows from 20.
    "torchscript": (13, 20),
    # Beyond 23 its converter leaves some models at 18 without a word.
    "dynamo": (18, 23),
    # Specs lower to 13 and later; ONNX Runtime 1.31 refuses 27.
    "direct": (13, 26),
}
"""Exporter -> lowest and highest opset."""

DYNAMIC = "direct-dynamic"
"""Direct emission with symbolic dimensions. Some test cases get it whatever the exporter is, none
can ask for it."""

MIXED = ("direct", "torchscript")
"""The exporters that campaigns mix unless told otherwise: the one that writes everything, and the
one whose patterns compilers meet most."""

LATER_BY_CONVERSION = {"dynamo": 20}
"""Exporters that reach their last opsets by converting what they made for an earlier one."""


def opset_range(exporter: str) -> tuple[int, int]:
    """Lowest and highest opset. Raises: KeyError naming the known exporters."""
    if exporter not in OPSETS:
        raise KeyError(f"unknown exporter {exporter!r}; known: {', '.join(OPSETS)}")
    return OPSETS[exporter]


def default_opset(exporter: str) -> int:
    """The newest opset that an exporter writes by itself. Raises: KeyError."""
    return LATER_BY_CONVERSION.get(exporter, opset_range(exporter)[1])

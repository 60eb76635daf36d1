"""Which ONNX opsets each exporter reaches. Imports nothing, so that the command line can ask."""

from __future__ import annotations

from collections.abc import Mapping

OPSETS: Mapping[str, tuple[int, int]] = {
    # It goes down to 7; it warns above 20, where it labels what it knows from 20.
    "torchscript": (13, 20),
    # Beyond 23 its converter leaves some models at 18 without a word.
    "dynamo": (18, 23),
    # What older opsets than 11 cannot say is cut off; ONNX Runtime 1.31 refuses 27.
    "direct": (7, 26),
}
"""Exporter -> lowest and highest opset."""

READ_FROM = 13
"""The oldest opset at which nodes of foreign models are compared with lowerings; models of older
ones are converted to it."""

DYNAMIC = "direct-dynamic"
"""Direct emission with symbolic dimensions. Some test cases get it whatever the exporter is, none
can ask for it."""

MIXED = ("direct", "torchscript")
"""The exporters that campaigns mix unless told otherwise: the one that writes everything, and the
one whose patterns compilers meet most."""

LATER_BY_CONVERSION = {"dynamo": 20}
"""Exporters that reach their last opsets by converting what they made for an earlier one."""


AT = "@"
"""Stands between an exporter and an opset in the name of a writer, such as "direct@17"."""


def writer(exporter: str, opset: int) -> str:
    """The name of an exporter at one of the opsets that are drawn for it."""
    return f"{exporter}{AT}{opset}"


def exporter_of(name: str) -> str:
    """The exporter of a writer; of an exporter that writes a single opset the name itself."""
    return name.partition(AT)[0]


def opset_of(name: str) -> int:
    """The opset of a writer; 0 for the name of an exporter. Raises: ValueError."""
    return int(name.partition(AT)[2] or 0)


def opset_range(exporter: str) -> tuple[int, int]:
    """Lowest and highest opset. Raises: KeyError naming the known exporters."""
    if exporter not in OPSETS:
        raise KeyError(f"unknown exporter {exporter!r}; known: {', '.join(OPSETS)}")
    return OPSETS[exporter]


def opsets_up_to(newest: Mapping[str, int], oldest: int = 0) -> dict[str, tuple[int, ...]]:
    """By exporter, all opsets that it writes from the oldest to the newest one that is wanted.

    Raises: KeyError for an unknown exporter.
    """
    return {
        name: tuple(range(max(oldest, opset_range(name)[0]), last + 1))
        for name, last in newest.items()
    }


def default_opset(exporter: str) -> int:
    """The newest opset that an exporter writes by itself. Raises: KeyError."""
    return LATER_BY_CONVERSION.get(exporter, opset_range(exporter)[1])

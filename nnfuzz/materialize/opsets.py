"""Which ONNX opsets each exporter can write. Imports nothing heavy, for use by the command line."""

from __future__ import annotations

from collections.abc import Mapping

OPSETS: Mapping[str, tuple[int, int]] = {
    # It goes down to 7. Above 20 it warns, and writes opset 20's operators under the newer number.
    "torchscript": (13, 20),
    # Beyond 23 its converter silently leaves some models at 18.
    "dynamo": (18, 23),
    # Below 11, nodes that the opset cannot express are cut off; ONNX Runtime 1.31 refuses 27.
    "direct": (7, 26),
}
"""Exporter -> lowest and highest opset."""

READ_FROM = 13
"""The oldest opset at which nodes of imported models are compared with lowerings; older models are
converted to it."""

CALLED = "-called"
"""The end of an exporter's name if its models are called several times (nnfuzz.ir.sizes)."""
CALLED_DIRECT = "direct" + CALLED
"""The exporter of such models that uses direct emission. It writes all symbolic dimensions, even if
another exporter is selected."""

MIXED = ("direct", "torchscript")
"""The exporters that campaigns use by default: "direct" can write every operator, and compilers
most often see the patterns of "torchscript"."""

LATER_BY_CONVERSION = {"dynamo": 20}
"""Exporter -> its last opset without conversion; later ones are converted from an earlier one."""


AT = "@"
"""Separates exporter and opset in a writer's name, such as "direct@17"."""


def is_called(form: str) -> bool:
    """Whether a model of a form is called several times."""
    return form.partition("+")[0].endswith(CALLED)


def once(form: str) -> str:
    """The form of the same model where it is called once."""
    exporter, *steps = form.split("+")
    return "+".join((exporter.removesuffix(CALLED), *steps))


def writer(exporter: str, opset: int) -> str:
    """The name of an exporter together with an opset."""
    return f"{exporter}{AT}{opset}"


def exporter_of(name: str) -> str:
    """The exporter in a writer's name; a name without an opset is returned as it is."""
    return name.partition(AT)[0]


def opset_of(name: str) -> int:
    """The opset in a writer's name; 0 if it has none. Raises: ValueError."""
    return int(name.partition(AT)[2] or 0)


def opset_range(exporter: str) -> tuple[int, int]:
    """Lowest and highest opset. Raises: KeyError naming the known exporters."""
    if exporter not in OPSETS:
        raise KeyError(f"unknown exporter {exporter!r}; known: {', '.join(OPSETS)}")
    return OPSETS[exporter]


def opsets_up_to(newest: Mapping[str, int], oldest: int = 0) -> dict[str, tuple[int, ...]]:
    """By exporter, all opsets that it can write from `oldest` up to `newest[exporter]`.

    Raises: KeyError for an unknown exporter.
    """
    return {
        name: tuple(range(max(oldest, opset_range(name)[0]), last + 1))
        for name, last in newest.items()
    }


def default_opset(exporter: str) -> int:
    """The newest opset that an exporter writes without conversion. Raises: KeyError."""
    return LATER_BY_CONVERSION.get(exporter, opset_range(exporter)[1])

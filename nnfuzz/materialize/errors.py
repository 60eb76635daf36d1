"""Errors on the way from a graph to a model, by the party at fault."""

from __future__ import annotations

from collections.abc import Sequence


class MaterializeError(Exception):
    """A graph did not become a model."""


class ExportError(MaterializeError):
    """An exporter of PyTorch failed on a module that runs: an outcome of the stage "export".

    The exporter's own exception is the `__cause__`; `unsupported` is True if that says so.
    """

    def __init__(self, exporter: str, opset: int, cause: BaseException) -> None:
        self.exporter = exporter
        self.opset = opset
        self.unsupported = _unsupported(cause)
        text = str(cause).strip() or "(no message)"
        super().__init__(f"{exporter}, opset {opset}: {type(cause).__name__}: {text}")


def _unsupported(cause: BaseException) -> bool:
    name = type(cause).__name__
    return name == "UnsupportedOperatorError" or (
        name == "SymbolicValueError" and str(cause).startswith("Unsupported:")
    )


class ExporterDied(Exception):
    """The process in which an exporter wrote a model died; `words` are its last lines of output."""

    def __init__(self, signal: str, words: str) -> None:
        super().__init__(f"the process died of {signal}")
        self.add_note(words)


class GraphFault(MaterializeError):
    """A defect of an operator spec or of generation, never an outcome of anything under test.

    `operator` is the spec's name. `step` is "torch" (reference semantics) or "onnx" (lowering).
    """

    def __init__(self, operator: str, step: str, detail: str) -> None:
        self.operator = operator
        self.step = step
        super().__init__(f"{operator}.{step}: {detail}")


class OpsetError(ValueError):
    """An opset that an exporter or an operator's lowering does not support."""

    def __init__(self, what: str, opset: int, opsets: Sequence[int]) -> None:
        lo, hi = opsets
        super().__init__(f"{what} reaches the opsets {lo} to {hi}, not {opset}")

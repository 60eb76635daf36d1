"""Operators of the domain ai.onnx.ml: what comes before and in classical models."""

from nnfuzz.operators.operator import S, operator


def ml(cls: type[S]) -> type[S]:
    """Marks a class as a complete spec of the operator of ai.onnx.ml that has its name."""
    return operator(cls, "ai.onnx.ml")

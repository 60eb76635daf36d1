"""Operators of the domain com.microsoft, which several compilers take beside those of ONNX."""

from nnfuzz.operators.operator import S, operator


def microsoft(cls: type[S]) -> type[S]:
    """Marks a class as a complete spec of the operator of com.microsoft that has its name."""
    return operator(cls, "com.microsoft")

"""A plug-in: a compiler with a wrong fusion, and one that cannot build an operator."""

from __future__ import annotations

import onnx
from nnfuzz.backends.onnxruntime import OnnxRuntime


class Fusing(OnnxRuntime):
    """ONNX Runtime that subtracts where an inner Mul is added, if it optimises."""

    name = "fusing"
    levels = ("O0", "O3")

    def build(self, module, level):
        model = onnx.load_model_from_string(module)
        ends = {value.name for value in model.graph.output}
        inner = {n.output[0] for n in model.graph.node if n.op_type == "Mul"} - ends
        for node in model.graph.node:
            if node.op_type == "Add" and not inner.isdisjoint(node.input) and level == "O3":
                node.op_type = "Sub"
        return super().build(model.SerializeToString(), level)


class Raising(OnnxRuntime):
    """ONNX Runtime that cannot build Erf."""

    name = "raising"
    levels = ("O0", "O3")

    def build(self, module, level):
        model = onnx.load_model_from_string(module)
        if any(node.op_type == "Erf" for node in model.graph.node):
            raise ValueError("assertion failed: no such kernel")
        return super().build(module, level)

"""A plug-in: a compiler with a wrong fusion, and one that cannot build an operator."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import onnx
from nnfuzz.backends.onnxruntime import OnnxRuntime

from nnfuzz.backend.contract import Override
from nnfuzz.backend.target import DEFAULT


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


class Giving(OnnxRuntime):
    """ONNX Runtime that rounds results to float16, unless "digits=all" is set; and computes float64
    in float32 by design.
    """

    name = "giving"
    overrides = (Override("digits=all", "results have three digits"),)
    narrows: ClassVar = {"float64": "float32"}

    def build(self, module, level):
        program = super().build(module, "O3")
        rounds = level == DEFAULT

        def run(inputs):
            arrays = program(inputs)
            narrow = {n: a.astype(np.float32).astype(a.dtype) for n, a in arrays.items()}
            return {
                n: a.astype(np.float16).astype(a.dtype) if rounds else narrow[n]
                for n, a in arrays.items()
            }

        return run


class Raising(OnnxRuntime):
    """ONNX Runtime that cannot build Erf."""

    name = "raising"
    levels = ("O0", "O3")

    def build(self, module, level):
        model = onnx.load_model_from_string(module)
        if any(node.op_type == "Erf" for node in model.graph.node):
            raise ValueError("assertion failed: no such kernel")
        return super().build(module, level)

"""A plug-in: a compiler that doubles an output, and one that does not."""

from __future__ import annotations

import numpy as np
from nnfuzz.backends.onnxruntime import OnnxRuntime


class Doubling(OnnxRuntime):
    """ONNX Runtime that doubles the output y."""

    name = "doubling"
    levels = ("O0", "O3")

    def build(self, module, level):
        program = super().build(module, level)
        return lambda inputs: {
            name: np.asarray(2 * array).astype(array.dtype) if name == "y" else array
            for name, array in program(inputs).items()
        }


class Plain(OnnxRuntime):
    """ONNX Runtime as it is, at two levels."""

    name = "plain"
    levels = ("O0", "O3")

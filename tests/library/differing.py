"""A plug-in: compilers that double what SequenceAt gives, always or where they optimise."""

from __future__ import annotations

import numpy as np
from nnfuzz.backends.onnxruntime import OnnxRuntime


class Doubling(OnnxRuntime):
    """ONNX Runtime that doubles the output y."""

    name = "doubling"
    levels = ("O0", "O3")
    doubled: tuple[str, ...] = ("O0", "O3")

    def build(self, module, level):
        program = super().build(module, level)
        factor = 2 if level in self.doubled else 1
        return lambda inputs: {
            name: np.asarray(factor * array).astype(array.dtype) if name == "y" else array
            for name, array in program(inputs).items()
        }


class Optimising(Doubling):
    """The same where it optimises."""

    name = "optimising"
    doubled = ("O3",)


class Plain(OnnxRuntime):
    """ONNX Runtime as it is, at two levels."""

    name = "plain"
    levels = ("O0", "O3")

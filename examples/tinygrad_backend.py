"""Fuzz tinygrad: a plug-in of fifty lines for a compiler that nnfuzz has never heard of.

nnfuzz fuzz --backend tinygrad --plugin examples/tinygrad_backend.py
"""

import importlib.metadata
from typing import Any

import numpy as np
from ml_dtypes import bfloat16 as bf16

from nnfuzz.backend.contract import Backend, Program
from nnfuzz.backend.outcome import Stage


class Tinygrad(Backend):
    name = "tinygrad"
    levels = ("O0", "O3")  # without and with optimisation of kernels
    preload = ("tinygrad",)  # not tinygrad.nn.onnx, which opens the device: it does not fork

    def versions(self) -> dict[str, str]:
        return {"tinygrad": importlib.metadata.version("tinygrad")}

    def load(self, model: bytes) -> Any:
        from tinygrad import Tensor
        from tinygrad.nn.onnx import OnnxRunner

        OnnxRunner(Tensor(model))  # fails here; below it is one per run, for it keeps values
        return lambda: OnnxRunner(Tensor(model))

    def build(self, module: Any, level: str) -> Program:
        from tinygrad import Tensor, dtypes
        from tinygrad.helpers import Context

        def tensor(a: np.ndarray) -> Any:
            return Tensor(a.view("uint16")).bitcast("bfloat16") if a.dtype == bf16 else Tensor(a)

        def array(t: Any) -> Any:
            if isinstance(t, Tensor) and t.dtype == dtypes.bfloat16:
                return t.bitcast("uint16").numpy().view(bf16)
            return t.numpy() if isinstance(t, Tensor) else np.asarray(t)  # Size is a number

        def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            with Context(NOOPT=int(level == "O0"), CACHELEVEL=0):  # no kernels of yesterday
                found = module()({name: tensor(a) for name, a in inputs.items()})
                return {name: array(t) for name, t in found.items()}

        return run

    def is_unsupported(self, error: BaseException, stage: Stage) -> bool:
        return isinstance(error, NotImplementedError) or "is not a valid OnnxDataType" in str(error)

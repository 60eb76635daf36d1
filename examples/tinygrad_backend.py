"""Fuzz tinygrad: a plug-in of fifty lines for a compiler that nnfuzz has never heard of.

pip install tinygrad        (its CPU device needs clang on the PATH as well)
nnfuzz fuzz --backend tinygrad --plugin examples/tinygrad_backend.py
"""

import importlib.metadata

from ml_dtypes import bfloat16

from nnfuzz.execute.backend import Backend


class Tinygrad(Backend):
    # O0 is without optimisation of kernels (NOOPT).
    name = "tinygrad"
    levels = ("O0", "O3")
    preload = ("tinygrad",)  # not tinygrad.nn.onnx, which opens the device: it does not fork

    def versions(self):
        return {"tinygrad": importlib.metadata.version("tinygrad")}

    def load(self, model):
        from tinygrad import Tensor
        from tinygrad.nn.onnx import OnnxRunner

        OnnxRunner(Tensor(model))  # what it cannot parse fails here
        return lambda: OnnxRunner(Tensor(model))  # one per run, for it keeps values

    def build(self, module, level):
        from tinygrad import Tensor, dtypes
        from tinygrad.helpers import Context

        def tensor(a):
            foreign = a.dtype == bfloat16
            return Tensor(a.view("uint16")).bitcast("bfloat16") if foreign else Tensor(a)

        def array(t):
            foreign = t.dtype == dtypes.bfloat16
            return t.bitcast("uint16").numpy().view(bfloat16) if foreign else t.numpy()

        def run(inputs):
            with Context(NOOPT=int(level == "O0"), CACHELEVEL=0):  # no kernels of yesterday
                found = module()({name: tensor(a) for name, a in inputs.items()})
                return {name: array(t) for name, t in found.items()}

        return run

    def is_unsupported(self, error, stage):
        return isinstance(error, NotImplementedError) or "is not a valid OnnxDataType" in str(error)

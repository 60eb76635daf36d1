"""An operator that PyTorch's TorchScript exporter does not know. Nor does ONNX: what the
other exporter writes is anything legal.
"""

import torch

from nnfuzz.operators.families.elementwise import Unary
from nnfuzz.operators.operator import operator


@operator
class Bessel(Unary):
    codomain = (-1, 1)

    def torch(self, x):
        return torch.special.bessel_j0(x.double()).to(x.dtype)

    def onnx(self, emit, x):
        return emit("Cos", x)

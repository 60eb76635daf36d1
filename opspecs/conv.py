"""Convolutions over one to three spatial axes."""

from __future__ import annotations

from nnfuzz.ir.expr import product
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.families.window import Convolution, WeightedSum
from nnfuzz.operators.operator import operator


@operator
class Conv(WeightedSum, Convolution):
    """(N, C, *S) * (M, C / group, *K) + (M,) -> (N, M, *S'); the bias is optional.

    Source: ONNX Conv-11; torch.nn.functional.conv2d.
    """

    def requires(self, x, w, *bias):
        yield from self.convolves(x, w)
        for b in bias:
            yield b.shape[0] == w.shape[0]

    def type_transfer(self, x, w, *_):
        return [x.with_shape(self.convolved_shape(x, w))]

    def complete(self, draw, first, dtypes):
        return self._typed(first, self.kernel_shape(draw, first), dtypes)

    def infer_input_types(self, draw, first, dtypes, output):
        x = TensorType(dtypes[0], (output.shape[0], *first.shape[1:]))
        return self._typed(x, self.kernel_shape(draw, x, output.shape[1]), dtypes)

    def _typed(self, x, kernels, dtypes):
        return [TensorType(d, s) for d, s in zip(dtypes, (x.shape, kernels, kernels[:1]))]

    def certain(self, x, w, *bias):
        """0 occurs where a window lies in the padding."""
        return ((0, 0),) if not bias and self.partly_outside(x, w) else ()

    def torch(self, x, w, bias=None):
        return self.convolve(x, w, bias)

    def terms(self, x, w, *bias):
        return product(w.shape[1:]) + len(bias)

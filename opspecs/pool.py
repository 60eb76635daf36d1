"""Pooling over one to three spatial axes."""

from __future__ import annotations

import functools
import math

import torch

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.expr import or_, product
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice, Sym
from nnfuzz.operators.families.sums import Averaging, Summing, largest
from nnfuzz.operators.families.window import (
    AUTO_PAD,
    EXPLICIT,
    NO_AUTO_PAD,
    Window,
    chosen,
    paddings,
    per_axis,
    spatial,
)
from nnfuzz.operators.intervals import Interval, ends
from nnfuzz.operators.operator import In, OpSpec, operator
from nnfuzz.operators.rounding import by_squares, largest_first, underflow
from nnfuzz.operators.unexportable import DECOMPOSED, HALF_PROMOTED

GAPS = per_axis(1, 1, 1, 2, unless=lambda op: op.auto_pad != EXPLICIT)
"""No dilations with `auto_pad`, whose formula in LpPool-22 holds only for windows without gaps."""


class Pool(Window):
    """Base of pools with windows of a fixed size, each of which touches the unpadded input."""

    inputs = (In("T", FLOATS, (3, 5)),)
    kernel_shape = Sym(1, 6, spatial)
    strides = per_axis(1, 1, 2, 2, 3)
    auto_pad = AUTO_PAD
    pads = paddings(3, lambda op: op.kernel_shape)
    ceil_mode = chosen(lambda op: (0, 0, 1) if op.auto_pad == EXPLICIT else (0,))

    def window_shape(self, *inputs):
        return self.kernel_shape

    def requires(self, x):
        yield len(self.kernel_shape) == x.rank - 2
        yield self.auto_pad == EXPLICIT or set(self.dilations or ()) <= {1}
        yield from self.window_fits(x)
        counts = self.window_counts(x)
        for count, (size, window, stride, dilation, before, behind) in zip(counts, self.axes(x)):
            # ONNX Runtime and PyTorch demand that every window reaches beyond the padding.
            yield before < window
            # The same behind the input.
            yield behind < window
            if dilation > 1:
                # A window that lies in the padding as a whole has no mean and no maximum.
                yield or_(before == 0, size >= dilation)
            if self.ceil_mode and stride > 1:
                # From opset 22 on, a window that starts in the padding behind is ignored.
                yield (count - 1) * stride < size + before

    def type_transfer(self, x):
        return [x.with_shape((*x.shape[:2], *self.window_counts(x)))]

    def cost(self, x):
        return self.type_transfer(x)[0].numel * product(self.kernel_shape)

    def infer_input_types(self, draw, first, dtypes, output):
        return [TensorType(dtypes[0], (*output.shape[:2], *first.shape[2:]))]

    def value_range(self, x):
        return x

    def native(self):
        """The padding if PyTorch's kernels support it (at most half the window), else None."""
        n = len(self.pads) // 2
        fits = all(2 * p <= k for p, k in zip(self.pads, self.kernel_shape))
        return self.pads[:n] if fits and self.symmetric() else None


@operator
class MaxPool(Pool):
    """Source: ONNX MaxPool-12; torch.nn.functional.max_pool2d."""

    copies = True
    inputs = (In("T", (*FLOATS, DType.INT8, DType.UINT8), (3, 5)),)
    monotone = (1,)
    whole = "kept"
    dilations = GAPS

    def torch(self, x):
        if not x.is_floating_point():
            return self.torch(x.float()).to(x.dtype)
        n = x.dim() - 2
        pool = (torch.max_pool1d, torch.max_pool2d, torch.max_pool3d)[n - 1]
        padding = self.native()
        if padding is None:
            padding, x = (0,) * n, self.padded(x, -torch.inf)
        return pool(
            x, self.kernel_shape, self.strides, padding, self.dilations, bool(self.ceil_mode)
        )


@operator
class AveragePool(Averaging, Pool):
    """The mean over each window, or over its unpadded part (count_include_pad = 0).

    With ceil_mode, a window may overhang the padded input; what lies beyond is never counted.
    Source: ONNX AveragePool-22; torch.nn.functional.avg_pool2d.
    """

    monotone = (1,)
    count_include_pad = Choice((0, 1))

    def _sliding(self, x, padding, include):
        n = x.dim() - 2
        pool = (
            torch.nn.functional.avg_pool1d,
            torch.nn.functional.avg_pool2d,
            torch.nn.functional.avg_pool3d,
        )[n - 1]
        return pool(x, self.kernel_shape, self.strides, padding, bool(self.ceil_mode), include)

    def torch(self, x):
        if x.dtype in (torch.float16, torch.bfloat16) and x.dim() == 5:  # PyTorch lacks the kernel.
            return self.torch(x.float()).to(x.dtype)
        # avg_pool3d demands that the window fits into the unpadded input.
        padding = self.native() if x.dim() < 5 else None
        if padding is not None:
            return self._sliding(x, padding, bool(self.count_include_pad))
        none = (0,) * (x.dim() - 2)
        y = self._sliding(self.padded(x, 0.0), none, True)
        if self.count_include_pad:
            return y
        inside = self.padded(torch.ones_like(x[:1, :1]), 0.0)
        return y / self._sliding(inside, none, True)

    def value_range(self, x):
        if self.count_include_pad:
            return min(x[0], 0.0), max(x[1], 0.0)
        return x

    def terms(self, x):
        return product(self.kernel_shape)

    @property
    def varying(self):
        return bool(self.ceil_mode) or (not self.count_include_pad and any(self.pads))

    def partial(self, x):
        if self.varying or self.terms(x) < 3:
            return None
        return by_squares(self.torch(x * x) / self.terms(x), self.terms(x))


@operator
class AveragePoolDilated(AveragePool):
    """The mean over windows with gaps. Source: ONNX AveragePool-19."""

    since = 19
    unexportable = DECOMPOSED
    auto_pad = NO_AUTO_PAD
    dilations = per_axis(2, 2, 1, 3)

    def torch(self, x):
        counted = float(self.count_include_pad)
        return self.window_sums(x) / self.window_sums(torch.ones_like(x[:1, :1]), counted)

    def onnx(self, emit, x):
        return emit("AveragePool", x, **self.onnx_attributes())


class PowerSum(Summing):
    """Base of p-norms: the p-th root of a sum of p-th powers."""

    exactness = ""
    p = Choice((1, 2, 2, 3))

    def sums(self, x):
        """The sums of non-negative numbers."""
        raise NotImplementedError

    def torch(self, x):
        """Computes float16 in float32, because p-th powers and their sums overflow and subnormals
        lose bits."""
        if x.dtype not in (torch.float32, torch.float64):
            return self.torch(x.float()).to(x.dtype)
        return self._root(self.sums(x.abs() ** self.p))

    def _root(self, s):
        if self.p == 1:
            return s
        return s.sqrt() if self.p == 2 else s ** (1 / self.p)

    def absolute(self, x):
        return self.sums(x.abs() ** self.p)

    def domain(self, x):
        return [self.absolute(x.double()) - largest(x) / 2]

    def interval(self, x):
        near, far = x.magnitudes()
        interval = Interval(near, near if x.exact else far, x.any)
        lo, hi = ends(self.torch, (1,), interval)
        return [Interval(lo, hi, None if x.any is None else self.sums(x.any.double()) > 0)]

    def value_range(self, x):
        return 0.0, 0.0 if x[0] == 0 == x[1] else math.inf

    def radius(self, u, y, x):
        """Error of the root of a sum that is off by (k + 2 p) u and whose terms may underflow."""
        k, s = self.terms(x), self.absolute(x)
        off = u * (k + 2 * self.p + 2) * s + k * underflow(u)
        upper, lower = self._root(s + off), self._root((s - off).clamp(min=0))
        logs = s.clamp(min=underflow(u)).log().abs() / self.p
        inexact = 8 + 4 * logs if self.p > 2 else 2.5
        return torch.maximum(upper - y, y - lower) + u * inexact * upper


@operator
class LpPool(PowerSum, Pool):
    """The p-norm of each window. Source: ONNX LpPool-18, LpPool-11."""

    unexportable = DECOMPOSED
    dilations = GAPS

    def sums(self, x):
        return self.window_sums(x)

    def refusal(self, exporter, opset, *inputs):
        """`ceil_mode` and `dilations` came with opset 18."""
        older = opset < 18 and (self.ceil_mode or {*self.dilations} != {1})
        return "LpPool-11 has neither" if older else super().refusal(exporter, opset, *inputs)

    def onnx(self, emit, x):
        added = () if emit.opset >= 18 else ("ceil_mode", "dilations")
        named = {name: v for name, v in self.onnx_attributes().items() if name not in added}
        return emit("LpPool", x, **named)

    def terms(self, x):
        return product(self.kernel_shape)


class GlobalPool(OpSpec):
    """(N, C, *S) -> (N, C, 1, ...)."""

    inputs = (In("T", FLOATS, (3, 5)),)
    monotone = (1,)

    def type_transfer(self, x):
        return [x.with_shape((*x.shape[:2], *(1 for _ in x.shape[2:])))]

    def value_range(self, x):
        return x


@operator
class GlobalAveragePool(GlobalPool, Averaging):
    def torch(self, x):
        return x.mean(tuple(range(2, x.dim())), keepdim=True)

    def terms(self, x):
        return x[0, 0].numel()

    def partial(self, x):
        axes = tuple(range(2, x.dim()))
        return functools.partial(largest_first, x.abs() / self.terms(x), axes)


@operator
class GlobalMaxPool(GlobalPool):
    unexportable = (HALF_PROMOTED,)

    def torch(self, x):
        return x.amax(tuple(range(2, x.dim())), keepdim=True)


@operator
class GlobalLpPool(PowerSum, GlobalPool):
    """The p-norm of all spatial elements. Source: ONNX GlobalLpPool-2."""

    def sums(self, x):
        return x.sum(tuple(range(2, x.dim())), keepdim=True)

    def terms(self, x):
        return x[0, 0].numel()

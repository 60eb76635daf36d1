"""Weights of 2, 4 and 8 bits in bytes, and what multiplies or selects them."""

from __future__ import annotations

import numpy as np
import torch

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType, tensor_types
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.composite import Composite, Moves
from nnfuzz.operators.families.index import INDICES, span
from nnfuzz.operators.intervals import Interval, corners
from nnfuzz.operators.operator import In, OpSpec
from nnfuzz.operators.waiver import Waiver

from ..arithmetic import Add
from ..dense import MatMul
from ..index import Gather
from ..quantize import BlockDequantizeLinear
from . import microsoft

BLOCKS = Choice((16, 16, 32, 32, 64, 128, 256))
TRANSPOSED = Moves(lambda t: t.t())


def unpacked(packed, bits):
    """The last axis of bytes as the numbers in them, the lower bits first."""
    steps = torch.arange(0, 8, bits, dtype=torch.int32)
    mask = (1 << bits) - 1
    return ((packed.to(torch.int32).unsqueeze(-1) >> steps) & mask).flatten(-2)


class Unpacked(OpSpec):
    """Weights (N, K) out of bytes, by scales (N, blocks) and maybe zero points of the same shape.

    group: the block of each of the K columns. Zero points are packed like weights, or floats.
    """

    def __init__(self, bits, group):
        self.bits, self.group = bits, torch.as_tensor(group)

    def _zeros(self, scales, zero):
        if zero and zero[0].is_floating_point():
            return zero[0]
        if zero:
            return unpacked(zero[0], self.bits)[:, : scales.shape[1]].to(scales.dtype)
        return torch.full_like(scales, 1 << (self.bits - 1))

    def _numbers(self, b, like):
        return unpacked(b, self.bits).flatten(1)[:, : len(self.group)].to(like.dtype)

    def torch(self, b, scales, *zero):
        shift = self._zeros(scales, zero)
        return (self._numbers(b, scales) - shift[:, self.group]) * scales[:, self.group]

    def interval(self, b, scales, *zero):
        lo, hi = (self._zeros(getattr(scales, e), [getattr(z, e) for z in zero]) for e in LOHI)
        whole = self._numbers(b.lo, scales.lo)
        steps = Interval(whole - hi[:, self.group], whole - lo[:, self.group])
        wide = Interval(scales.lo[:, self.group], scales.hi[:, self.group])
        product = corners(torch.mul, steps, wide)
        return [Interval(product.lo, product.hi, self._open(b, scales, zero))]

    def _open(self, b, scales, zero):
        """Mask of the weights that cannot be compared: a range of bytes has no range of numbers."""
        mask = self._numbers(((b.lo != b.hi) | b.mask()) * 255, b.lo) != 0
        blocks = scales.mask()
        for z in zero:
            own = z.mask() | (z.lo != z.hi) & (not z.lo.is_floating_point())
            if not z.lo.is_floating_point():
                own = unpacked(own * 255, self.bits)[:, : blocks.shape[1]] != 0
            blocks = blocks | own
        return mask | blocks[:, self.group]

    def radius(self, u, y, b, scales, *zero):
        """The difference may be taken after the products."""
        shift = self._zeros(scales, zero)[:, self.group]
        size = (self._numbers(b, scales).abs() + shift.abs()) * scales[:, self.group].abs()
        return 3 * u * size if zero and zero[0].is_floating_point() else u * y.abs()


LOHI = ("lo", "hi")


class Blocked(Composite):
    """An operator of a matrix (N, K) of small numbers in blocks along K, each with a scale."""

    bits = Choice((4, 4, 8, 2))
    block = BLOCKS

    def _sizes(self, k):
        """Blocks of a row, bytes of a block, and bytes of the zero points of a row."""
        blocks = (k + self.block - 1) // self.block
        return blocks, self.block * self.bits // 8, (blocks * self.bits + 7) // 8


@microsoft
class MatMulNBits(Blocked):
    """A @ B^T, with B (N, K) as numbers of 2, 4 or 8 bits in blocks, each with a scale and maybe a
    zero point.

    `turned`: the blocks of the columns are listed in an input, in another order than they are
    stored in. Source: com.microsoft.MatMulNBits-1.
    """

    inputs = (
        In("T", (DType.FLOAT32, DType.FLOAT16), (2, 3)),
        In("B", (DType.UINT8,), (3, 3), weight=True),
        In("T", ranks=(2, 2), weight=True),
        In("B", ranks=(2, 2), weight=True),
    )
    variadic = (3, 4)
    turned = Choice(lambda op, *_: (0, 0, 0, 1) if op.bits == 4 else (0,), default=0)
    """ONNX Runtime has no kernel for groups of 8 bits."""

    def requires(self, a, b, scales, *zero):
        blocks, size, zeros = self._sizes(a.shape[-1])
        yield b.shape[1] == blocks
        yield b.shape[2] == size
        yield scales.shape[0] == b.shape[0]
        yield scales.shape[1] == blocks
        for z in zero:
            yield z.shape[0] == b.shape[0]
            yield z.shape[1] == zeros

    def type_transfer(self, a, b, *_):
        return [a.with_shape((*a.shape[:-1], b.shape[0]))]

    def complete(self, draw, first, dtypes):
        return self._typed(first.shape, draw.dim(2), dtypes)

    def infer_input_types(self, draw, first, dtypes, output):
        return self._typed((*output.shape[:-1], first.shape[-1]), output.shape[-1], dtypes)

    def _typed(self, a, n, dtypes):
        blocks, size, zeros = self._sizes(a[-1])
        return tensor_types(dtypes, a, (n, blocks, size), (n, blocks), (n, zeros))

    def cost(self, a, b, *_):
        return 2 * a.elements * b.shape[0]

    def _group(self, k):
        """The block of each of K columns."""
        group = np.arange(k) // self.block
        return group[::-1].copy() if self.turned else group

    def compose(self, apply, a, b, scales, *zero):
        weights = apply(Unpacked(self.bits, self._group(a.shape[-1])), b, scales, *zero)
        return [apply(MatMul(), a, apply(TRANSPOSED, weights))]

    def onnx(self, emit, a, b, scales, *zero):
        return self._emitted(emit, a, b, scales, zero)

    def _emitted(self, emit, a, b, scales, zero, bias=()):
        k, n = emit.type(a).shape[-1], emit.type(b).shape[0]
        group = emit.const(self._group(k), DType.INT32) if self.turned else ""
        written = {"K": k, "N": n, "bits": self.bits, "block_size": self.block}
        given = (a, b, scales, *(zero or ("",)), group, *bias)
        return emit(MatMulNBits.name, *given, **written)


WAIVERS = {
    MatMulNBits.name: (
        Waiver(
            "onnxruntime",
            "ignores packed zero points where g_idx is given (onnxruntime 1.31)",
            "ContribOperators.md: dequantized_weight = (quantized_weight - zero_point) * scale",
            where=lambda op, *inputs: op.turned and len(inputs) > 3,
        ),
    )
}


@microsoft
class MatMulNBitsBias(MatMulNBits):
    """MatMulNBits plus a vector, maybe with zero points that are floats.

    Source: com.microsoft.MatMulNBits-1, bias, T3 as float.
    """

    inputs = (  # type: ignore[assignment]
        *MatMulNBits.inputs[:3],
        In("T", ranks=(1, 1), weight=True),
        In("T", ranks=(2, 2), weight=True),
    )
    variadic = (4, 5)
    order = (0, 1, 2, 5, 3, 4)
    bits = Choice((4, 4, 2, 8))
    turned = Choice((0,), default=0)

    def requires(self, a, b, scales, bias, *zero):
        yield from super().requires(a, b, scales)
        yield bias.shape[0] == b.shape[0]
        for z in zero:
            yield self.bits < 8  # the kernel's own condition
            yield z.shape[0] == scales.shape[0]
            yield z.shape[1] == scales.shape[1]

    def _typed(self, a, n, dtypes):
        blocks, size, _ = self._sizes(a[-1])
        return tensor_types(dtypes, a, (n, blocks, size), (n, blocks), (n,), (n, blocks))

    def compose(self, apply, a, b, scales, bias, *zero):
        (y,) = super().compose(apply, a, b, scales, *zero)
        return [apply(Add(), y, bias)]

    def onnx(self, emit, a, b, scales, bias, *zero):
        return self._emitted(emit, a, b, scales, zero, (bias,))


@microsoft
class GatherBlockQuantized(Blocked):
    """Rows of a matrix of weights in blocks, as floats; indices from the end are negative.

    `gather_axis` is 0 and `quantize_axis` 1. Source: com.microsoft.GatherBlockQuantized-1.
    """

    inputs = (
        In("B", (DType.UINT8,), (2, 2), weight=True),
        In("I", INDICES, (0, 3), index=True),
        In("T", (DType.FLOAT32, DType.FLOAT16), (2, 2), weight=True),
        In("B", ranks=(2, 2), weight=True),
    )
    variadic = (3, 4)

    def _columns(self, b):
        return b.shape[1] * 8 // self.bits

    def requires(self, b, indices, scales, *zero):
        blocks, _, zeros = self._sizes(self._columns(b))
        yield from (x.shape[0] == b.shape[0] for x in (scales, *zero))
        yield scales.shape[1] == blocks
        yield from (z.shape[1] == zeros for z in zero)

    def type_transfer(self, b, indices, scales, *_):
        return [TensorType(scales.dtype, (*indices.shape, self._columns(b)))]

    def complete(self, draw, first, dtypes):
        rank = draw.integer(0, 3)
        return self._typed(first.shape, tuple(draw.dim(rank + 1) for _ in range(rank)), dtypes)

    @classmethod
    def input_rank(cls, draw, output_rank):
        return 2 if 1 <= output_rank <= 4 else None

    def infer_input_types(self, draw, first, dtypes, output):
        columns = output.shape[-1] * self.bits // 8
        return self._typed((first.shape[0], columns), output.shape[:-1], dtypes)

    def _typed(self, b, indices, dtypes):
        blocks, _, zeros = self._sizes(b[1] * 8 // self.bits)
        return tensor_types(dtypes, b, indices, (b[0], blocks), (b[0], zeros))

    def integer_range(self, b, *_):
        return None, span(b.shape[0])

    def compose(self, apply, b, indices, scales, *zero):
        group = np.arange(b.shape[1] * 8 // self.bits) // self.block
        weights = apply(Unpacked(self.bits, group), b, scales, *zero)
        return [apply(Gather(axis=0), weights, indices)]

    def onnx(self, emit, *values):
        written = {"gather_axis": 0, "quantize_axis": 1, "bits": self.bits}
        return emit(self.name, *values, block_size=self.block, **written)


@microsoft
class GatherBlockQuantizedInt4(GatherBlockQuantized):
    """GatherBlockQuantized of matrices of 4-bit integers, without zero points or with such.

    Source: com.microsoft.GatherBlockQuantized-1, T1 as int4 and uint4.
    """

    since = 21
    inputs = (
        In("B", (DType.INT4, DType.UINT4), (2, 2), weight=True),
        GatherBlockQuantized.inputs[1],
        GatherBlockQuantized.inputs[2],
        In("B", ranks=(2, 2), weight=True),
    )
    bits = Choice((8,))
    """Elements of the matrix are numbers themselves."""

    def compose(self, apply, b, indices, scales, *zero):
        widens = BlockDequantizeLinear(axis=1, block_size=self.block, typed=0)
        return [apply(Gather(axis=0), apply(widens, b, scales, *zero), indices)]

    def onnx(self, emit, *values):
        written = {"gather_axis": 0, "quantize_axis": 1, "block_size": self.block}
        return emit(GatherBlockQuantized.name, *values, **written)

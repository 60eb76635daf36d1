"""What skeletons are made of: sizes, projections, normalisations, masks."""

from __future__ import annotations

import math
from typing import Any

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import Int
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.motif import Writer

from ..motifs.activation import gelu_erf, gelu_tanh, quick_gelu
from ..motifs.norm import layer_norm as layer_norm_spelled
from ..motifs.norm import rms_norm as rms_norm_spelled

WIDTHS = (4, 8, 8, 16, 16, 32)
"""Widths of vectors and tiles, at and next to which hidden sizes are drawn."""
WIDEST = 48
"""No matrix of a skeleton has more columns."""
MOST_OF_FIVE = 12
"""The largest dimension of a tensor with five axes."""
DEPLOYED = {DType.FLOAT32: 4.0, DType.FLOAT16: 2.0}
"""How much more frequent dtypes are in deployed models than elsewhere."""
COPIED = {"operand": "initializer", "inferred": -1, "allowzero": 0, "copied": (0, 1)}
"""Of a Reshape that copies the sizes of the first two axes, as exporters write it."""
LAST = {"axes": (-1,), "keepdims": 1}
NIBBLES = (DType.INT4, DType.UINT4)


# -- where skeletons begin -------------------------------------------------------------------


def near(draw, options=WIDTHS):
    """One of the options, the next smaller or the next larger size."""
    return draw.choice(options) + draw.choice((0, 0, 0, -1, 1))


def drawn(draw, weights, shape):
    """The type of that shape, with a dtype drawn by weights; those of DEPLOYED are favoured. None
    where there is no dtype."""
    shares = [weight * DEPLOYED.get(dtype, 1.0) for dtype, weight in weights.items()]
    if not any(shares):
        return None
    return TensorType(draw.rng.choices([*weights], shares)[0], shape)


def sequence(draw, weights):
    """(batch, length, hidden)."""
    batch, length = draw.choice((1, 1, 2, 3)), draw.choice((1, 2, 3, 4, 5, 7, 8, 9, 16))
    return drawn(draw, weights, (batch, length, near(draw)))


def image(draw, weights):
    """(batch, channels, height, width)."""
    return _image(draw, weights, (4, 8, 8, 16))


def small_image(draw, weights):
    """The same with so few places that they fit one axis."""
    return _image(draw, weights, (2, 4, 4, 6))


def tiny_image(draw, weights):
    """The same with so few that they fit an axis of five."""
    return _image(draw, weights, (2,))


def _image(draw, weights, sizes):
    height = near(draw, sizes)
    width = height if draw.chance(0.7) else near(draw, sizes)
    channels = near(draw, (4, 4, 8, 16))
    return drawn(draw, weights, (draw.choice((1, 1, 2)), channels, height, width))


def rows(draw, weights):
    """(rows, hidden)."""
    return drawn(draw, weights, (draw.choice((1, 1, 2, 3, 5, 8)), near(draw)))


def tokens(draw, weights):
    """(batch, length) of positions in an embedding."""
    return drawn(draw, weights, (draw.choice((1, 1, 2, 3)), draw.choice((1, 2, 4, 5, 8, 16))))


def head_sizes(m, hidden):
    """Number and width of heads, which divide the hidden size where they can."""
    fitting = [n for n in (1, 2, 3, 4, 8) if hidden % n == 0 and hidden > n]
    if fitting and m.draw.chance(0.9):
        heads = m.draw.choice(fitting)
        return heads, hidden // heads
    return m.draw.choice((1, 2, 3)), m.draw.choice((2, 4, 8))


# -- layers ------------------------------------------------------------------------------------


def linear(m: Writer, x: str, width: Int, bias: bool = True) -> Any:
    """A projection of the last axis; the bias is the second operand of its Add, or the first."""
    shape = m.shape(x)
    if len(shape) == 2 and m.draw.chance(0.5):
        return m("Gemm", x, *_gemm(m, x, width, bias), alpha=1.0, beta=1.0, transA=0, transB=1)
    y = m("MatMul", x, m.weight(x, shape[-1], width))
    if not bias:
        return y
    row = m.weight(y, width)
    return m("Add", y, row) if m.draw.chance(0.6) else m("Add", row, y)


def _gemm(m, x, width, bias):
    return (m.weight(x, width, m.shape(x)[-1]), *([m.weight(x, width)] if bias else ()))


def convolved(m, x, channels, kernel, pads, stride=1, dilation=1, group=1, bias=True):
    """A convolution with weights; stride and dilation are those of all axes."""
    operands = [m.weight(x, channels, m.shape(x)[1] // group, *kernel)]
    operands += [m.weight(x, channels)] if bias else []
    steps, gaps = ((n,) * len(kernel) for n in (stride, dilation))
    given = {"group": group, "strides": steps, "pads": pads, "dilations": gaps}
    return m("Conv", x, *operands, **given, auto_pad="NOTSET")


def stored_weight(m, x, depth, width):
    """A weight of integers with one scale, one for each column, or one for each block of rows."""
    kind = m.draw.choice((DType.INT8, DType.UINT8, DType.INT4, DType.UINT4))
    fitting = [size for size in (2, 4, 16, 16, 16, 32, 32) if depth % size == 0]
    block = m.draw.choice(fitting or [1])
    blocked = kind in NIBBLES and block > 1 and m.draw.chance(0.8)
    scales = (depth // block, width) if blocked else m.draw.choice(((), (width,)))
    operands = stored_integers(m, kind, (depth, width), m.weight(x, *scales))
    if blocked:
        return m("BlockDequantizeLinear", *operands, axis=0, block_size=block)
    return m("DequantizeLinear", *operands, axis=1 if scales else None)


def stored_integers(m, kind, shape, scales):
    """The operands of a DequantizeLinear of constants: integers of a kind, scales of a type, and
    zero points in the middle of what the kind holds."""
    least, most = map(int, kind.limits)
    stored = m.shared(TensorType(kind, shape), least, most)
    scale = m.shared(scales, 0.01, 0.05)
    return stored, scale, m.shared(TensorType(kind, scales.shape), (least + most + 1) // 2)


def layer_norm(m: Writer, x: str) -> Any:
    """LayerNormalization, or written out."""
    if m.takes("LayerNormalization") and m.draw.chance(0.6):
        row = m.weight(x, m.shape(x)[-1])
        both = (row, row) if m.draw.chance(0.9) else (row,)
        return m("LayerNormalization", x, *both, axis=-1, epsilon=m.draw.choice((1e-5, 1e-12)))
    return exported_norm(m, x) if m.draw.chance(0.7) else layer_norm_spelled.write(m, x)


def exported_norm(m, x):
    """LayerNormalization word for word as PyTorch's exporter writes it below opset 17."""
    centred = m("Sub", x, m("ReduceMean", x, **LAST))
    variance = m("ReduceMean", m("Pow", centred, 2.0), **LAST)
    y = m("Div", centred, m("Sqrt", m("Add", variance, m.draw.choice((1e-5, 1e-12)))))
    size = m.shape(x)[-1]
    return m("Add", m("Mul", y, m.weight(x, size)), m.weight(x, size))


def rms_norm(m, x):
    """RMSNormalization, or written out."""
    if m.takes("RMSNormalization") and m.draw.chance(0.3):
        return m("RMSNormalization", x, m.weight(x, m.shape(x)[-1]), axis=-1, epsilon=1e-6)
    return rms_norm_spelled.write(m, x)


def group_norm(m, x):
    """Normalisation of groups of channels: by InstanceNormalization, or spelled out, with a scale
    and a shift per channel."""
    batch, channels, *rest = m.shape(x)
    size = math.prod((channels, *rest))
    fitting = [n for n in (1, 2, 4) if channels % n == 0 and size // n <= WIDEST]
    groups = m.draw.choice(fitting or [channels])
    y = m("Reshape", x, shape=(batch, groups, size // groups))
    if m.draw.chance(0.6):
        ones, zeros = (m.shared(m.weight(x, groups), n) for n in (1.0, 0.0))
        y = m("InstanceNormalization", y, ones, zeros, epsilon=1e-5)
    else:
        centred = m("Sub", y, m("ReduceMean", y, **LAST))
        spread = m("ReduceMean", m("Mul", centred, centred), **LAST)
        y = m("Div", centred, m("Sqrt", m("Add", spread, 1e-5)))
    y = m("Reshape", y, shape=(batch, channels, *rest))
    column = (channels, *(1,) * len(rest))
    return m("Add", m("Mul", y, m.weight(x, *column)), m.weight(x, *column))


def silu(m, x):
    return m("Mul", x, m("Sigmoid", x))


def gelu(m, x):
    """GELU written out by Erf, Tanh or Sigmoid, or as the operator."""
    ways = [gelu_erf, gelu_erf, gelu_tanh, quick_gelu]
    if m.takes("Gelu") and m.draw.chance(0.2):
        return m("Gelu", x, approximate=m.draw.choice(("none", "tanh")))
    return m.draw.choice(ways).write(m, x)


def positions(m, *shape):
    """New positions to look up, which are constant."""
    return m.index(TensorType(DType.INT64, shape), constant=True)


def identifiers(m, *shape):
    """New positions to look up, which whoever runs the model gives."""
    return m.index(TensorType(DType.INT64, shape))


def counted(m, ids, batches):
    """Positions 0, 1, 2, ... of (batch, length) tokens, counted from their shape: in each batch,
    or once."""
    batch, length = m.shape(ids)
    row = m("Range", ids, axis=1, start=0, delta=1, dtype=DType.INT64)
    if not batches:
        return row
    return m("Expand", m("Unsqueeze", row, axes=(0,)), shape=(batch, length))


def wider(m, size):
    """The width of a feed-forward layer."""
    return m.draw.choice([n for n in (size, 2 * size, 3 * size, 4 * size) if n <= WIDEST] or [size])


def added(m, x, y):
    """A residual connection, with the branch behind or in front."""
    return m("Add", x, y) if m.draw.chance(0.5) else m("Add", y, x)


# -- heads and masks ---------------------------------------------------------------------------


def split_heads(m, x, heads, width):
    """(batch, length, heads * width) -> (batch, heads, length, width)."""
    batch, length, _ = m.shape(x)
    y = m("Reshape", x, shape=(batch, length, heads, width), **m.draw.choice(({}, COPIED)))
    return m("Transpose", y, perm=(0, 2, 1, 3))


def merge_heads(m, x):
    """(batch, heads, length, width) -> (batch, length, heads * width)."""
    batch, heads, length, width = m.shape(x)
    y = m("Transpose", x, perm=(0, 2, 1, 3))
    given = m.draw.choice(({}, COPIED))
    return m("Reshape", y, shape=(batch, length, heads * width), **given)


def masked_value(m, x):
    """What stands for minus infinity in scores."""
    least = m.type(x).dtype.limits[0]
    return m.draw.choice([value for value in (-1e4, -1e4, -1e9, least) if value >= least])


def padding_mask(m, scores):
    """Scores less 10,000 where a mask of (batch, keys) is 0, as BERT adds it."""
    batch, _, _, keys = m.shape(scores)
    kind = m.draw.choice((DType.INT64, DType.INT32, DType.BOOL))
    mask = m("Unsqueeze", m.free(TensorType(kind, (batch, keys))), axes=(1,))
    mask = m("Unsqueeze", mask, axes=(2,))
    low = m("Sub", 1.0, m("Cast", mask, to=m.type(scores).dtype))
    return m("Add", scores, m("Mul", low, -1e4))


def causal_mask(m, scores, window=0):
    """Scores where a query sees a key, a large negative number elsewhere: a key is no later, and at
    most `window` earlier unless that is 0."""
    queries, keys = m.shape(scores)[-2:]
    shape = (1, 1, queries, keys)
    if m.takes("Trilu") and m.draw.chance(0.7):
        seen = m.shared(TensorType(DType.FLOAT32, (queries, keys)), 1.0)
        seen = m("Trilu", seen, upper=0, k=keys - queries)
        if window:
            seen = m("Trilu", seen, upper=1, k=keys - queries - window)
        seen = m("Reshape", m("Cast", seen, to=DType.BOOL), shape=shape)
    else:  # one that was folded
        seen = m.shared(TensorType(DType.BOOL, shape))
    return m("Where", seen, scores, masked_value(m, scores))


def scores_of(m, q, k):
    """Scaled products of queries and keys of the same width."""
    width = m.shape(q)[-1]
    scale = math.sqrt(width)
    how = m.draw.choice(("Div", "Mul", "both", "queries"))
    flipped = (0, 1, 3, 2)
    if how == "queries":
        return m("MatMul", m("Mul", q, 1 / scale), m("Transpose", k, perm=flipped))
    if how == "both":  # as PyTorch writes scaled_dot_product_attention
        root = scale**-0.5
        return m("MatMul", m("Mul", q, root), m("Mul", m("Transpose", k, perm=flipped), root))
    scores = m("MatMul", q, m("Transpose", k, perm=flipped))
    return m(how, scores, scale if how == "Div" else 1 / scale)


def attended(m, scores, v):
    """Values weighted by the softmax of scores, whose axis is counted from the front or the back,
    as exporters below and from opset 13 on write it."""
    last = m.draw.choice((-1, -1, len(m.shape(scores)) - 1))
    return m("MatMul", m("Softmax", scores, axis=last), v)


def rotated(m, x):
    """Rotary position embedding of (batch, heads, length, width): of all features, as Llama writes
    it, or of the first ones, as GPT-NeoX does."""
    width = m.shape(x)[-1]
    if width < 4 or m.draw.chance(0.7):
        return _turned(m, x)
    first, rest = m("Split", x, axis=-1, split=(width // 2, width - width // 2))
    return m("Concat", _turned(m, first), rest, axis=-1)


def _turned(m, x):
    """Both halves of the features turned by angles that the position decides. Cosines and sines are
    constant, or looked up by positions in tables of which the first rows are taken."""
    batch, *_, length, width = m.shape(x)
    low, high = _halves(m, x, width)
    turned = m("Concat", m("Neg", high), low, axis=-1)
    if len(m.shape(x)) < 4 or m.draw.chance(0.7):
        cos, sin = (m.shared(m.weight(x, length, width), -1.0, 1.0) for _ in range(2))
    else:
        at = identifiers(m, batch, length)
        cos, sin = (_looked_up(m, x, at, length, width) for _ in range(2))
    return m("Add", m("Mul", x, cos), m("Mul", turned, sin))


def _halves(m, x, width):
    """The first and the second half of the last axis, by slices or by a split."""
    half = width // 2
    if m.draw.chance(0.3):
        return m("Split", x, axis=-1, split=(half, width - half))
    return [
        m("Slice", x, axes=(-1,), starts=(start,), ends=(end,), steps=(1,))
        for start, end in ((0, half), (half, width))
    ]


def _looked_up(m, x, at, length, width):
    table = m.shared(m.weight(x, 16, width), -1.0, 1.0)
    rows = m("Slice", table, axes=(0,), starts=(0,), ends=(max(length, 2),), steps=(1,))
    return m("Unsqueeze", m("Gather", rows, at, axis=0), axes=(1,))


def repeated(m, x, times):
    """Heads that several queries share, repeated: by Expand, or by Concat."""
    batch, heads, length, width = m.shape(x)
    if times == 1:
        return x
    if length > MOST_OF_FIVE:
        return m("Concat", *[x] * times, axis=1)
    y = m("Unsqueeze", x, axes=(2,))
    if m.draw.chance(0.7):
        y = m("Expand", y, shape=(batch, heads, times, length, width))
    else:
        y = m("Concat", *[y] * times, axis=2)
    return m("Reshape", y, shape=(batch, heads * times, length, width))


def with_cache(m, *values):
    """Keys and values behind earlier ones: by Concat, or scattered into a buffer."""
    past = m.draw.choice((1, 3, 4, 7, 8))
    way = m.draw.choice((_behind, _behind, _behind, _put, _scattered))
    return [way(m, x, past) for x in values]


def _behind(m, x, past):
    batch, heads, _, width = m.shape(x)
    return m("Concat", m.free(m.weight(x, batch, heads, past, width)), x, axis=2)


def _put(m, x, past):
    """By TensorScatter, where there is one."""
    if not m.takes("TensorScatter"):
        return _behind(m, x, past)
    batch, heads, length, width = m.shape(x)
    buffer = m.free(m.weight(x, batch, heads, past + length, width))
    return m("TensorScatter", buffer, x, axis=2, from_back=1)


def _scattered(m, x, past):
    """By ScatterND of rows, as the exporters of PyTorch write an assignment to a slice."""
    batch, heads, length, width = m.shape(x)
    rows = m("Transpose", x, perm=(2, 0, 1, 3))
    buffer = m.free(m.weight(x, past + length, batch, heads, width))
    buffer = m("ScatterND", buffer, positions(m, length, 1), rows, depth=1)
    return m("Transpose", buffer, perm=(1, 2, 0, 3))

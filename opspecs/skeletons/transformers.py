"""Layers of transformers, whole, and the parts between attention and attention."""

from __future__ import annotations

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.motif import skeleton

from .attention import encoder_attention, grouped_attention, packed_attention, self_attention
from .parts import (
    LAST,
    WIDEST,
    added,
    gelu,
    layer_norm,
    linear,
    rms_norm,
    rows,
    sequence,
    silu,
    stored_weight,
    wider,
)

PACKED, MERGED = "com.microsoft.MatMulNBits", "com.microsoft.SkipLayerNormalization"


def feed_forward(m, x):
    """Two projections with an activation between them."""
    hidden = m.shape(x)[-1]
    kind = m.draw.choice((gelu, gelu, gelu, lambda m, y: m("Relu", y)))
    return linear(m, kind(m, linear(m, x, wider(m, hidden))), hidden)


def gated(m, x, kind):
    """(kind(x A) * x B) C; A and B are two weights, or the halves of one."""
    hidden = m.shape(x)[-1]
    width, bias = wider(m, hidden), m.draw.chance(0.3)
    if 2 * width <= WIDEST and m.draw.chance(0.4):
        gate, up = m("Split", linear(m, x, 2 * width, bias), axis=-1, split=(width, width))
    else:
        gate, up = (linear(m, x, width, bias) for _ in range(2))
    return linear(m, m("Mul", kind(m, gate), up), hidden, bias)


@skeleton(size=72, begin=sequence, weight=2.0)
def encoder_layer(m, x):
    """A layer of BERT: attention and feed-forward, each with a residual and then normalised."""
    x = layer_norm(m, x)
    y = layer_norm(m, added(m, encoder_attention(m, x), x))
    layer_norm(m, added(m, feed_forward(m, y), y))


@skeleton(size=62, begin=sequence)
def vision_layer(m, x):
    """A layer of ViT: normalised first, without a mask."""
    y = added(m, x, self_attention(m, layer_norm(m, x), mask=None))
    added(m, y, feed_forward(m, layer_norm(m, y)))


@skeleton(size=72, begin=sequence)
def causal_layer(m, x):
    """A layer of GPT-2, with or without a cache."""
    y = added(m, x, packed_attention(m, layer_norm(m, x), cached=m.draw.chance(0.4)))
    added(m, y, feed_forward(m, layer_norm(m, y)))


@skeleton(size=88, begin=sequence)
def decoder_layer(m, x):
    """A layer of Llama: grouped and rotated attention, gated feed-forward, RMS norms."""
    y = added(m, x, grouped_attention(m, rms_norm(m, x), cached=m.draw.chance(0.5)))
    added(m, y, gated(m, rms_norm(m, y), silu))


@skeleton(size=14, begin=sequence)
def swiglu(m, x):
    """The feed-forward part of Llama."""
    gated(m, x, silu)


@skeleton(size=18, begin=sequence)
def geglu(m, x):
    """The feed-forward part of T5 1.1, with any GELU."""
    gated(m, x, gelu)


@skeleton(size=26, begin=sequence)
def skipped_norms(m, x):
    """Two residual connections with a bias, each normalised; the sum is read once more."""
    hidden = m.shape(x)[-1]
    norm = m.draw.choice((layer_norm, rms_norm))
    y = m("Add", x, m.free(m.type(x)))
    if m.draw.chance(0.5):
        y = m("Add", y, m.weight(x, hidden))
    z = linear(m, norm(m, y), hidden)
    if m.takes(MERGED) and m.draw.chance(0.5):
        return _merged_norm(m, z, y)
    return norm(m, added(m, y, z))


def _merged_norm(m, x, y):
    """The normalised sum as tools that optimise transformers leave it: as one operator."""
    row = m.weight(x, m.shape(x)[-1])
    rows = (row,) * m.draw.choice((1, 2, 2, 2, 3))
    return m(MERGED, *m.draw.shuffled((x, y)), *rows, epsilon=1e-12, total=0)


@skeleton(size=24, begin=rows)
def expert_router(m, x):
    """A mixture of experts: the weights of the best two, and the sum of what they compute."""
    hidden = m.shape(x)[-1]
    experts, best = m.draw.choice((4, 8)), m.draw.choice((1, 2))
    gates = m("Softmax", linear(m, x, experts, bias=False), axis=-1)
    top, places = m("TopK", gates, axis=-1, k=best, largest=1, sorted=1)
    if m.draw.chance(0.7):
        top = m("Div", top, m("ReduceSum", top, **LAST))
    chosen = m("OneHot", places, m.shared(m.weight(x, 2), 0.0, 1.0), axis=-1, depth=experts)
    shares = m("Squeeze", m("MatMul", m("Unsqueeze", top, axes=(1,)), chosen), axes=(1,))
    y = m("MatMul", m("Unsqueeze", x, axes=(0,)), m.weight(x, experts, hidden, hidden))
    y = m("Transpose", silu(m, y), perm=(1, 2, 0))
    m("Squeeze", m("MatMul", y, m("Unsqueeze", shares, axes=(2,))), axes=(2,))


@skeleton(size=20, begin=sequence)
def modulated_layer(m, x):
    """A norm whose scale and shift follow from a condition, as diffusion transformers have it."""
    batch, _, hidden = m.shape(x)
    condition = silu(m, m.free(m.weight(x, batch, hidden)))
    parts = m("Split", linear(m, condition, 3 * hidden), axis=-1, split=(hidden,) * 3)
    scale, shift, gate = (m("Unsqueeze", part, axes=(1,)) for part in parts)
    y = m("LayerNormalization", x, axis=-1)
    y = m("Add", m("Mul", y, m("Add", scale, 1.0)), shift)
    m("Add", x, m("Mul", gate, linear(m, y, hidden)))


@skeleton(size=10, begin=sequence)
def low_rank_adapter(m, x):
    """A projection plus a narrow one that is scaled, as LoRA adds it."""
    hidden = m.shape(x)[-1]
    rank = m.draw.choice((1, 2, 4))
    down = m("MatMul", x, m.weight(x, hidden, rank))
    up = m("Mul", m("MatMul", down, m.weight(x, rank, hidden)), m.draw.choice((0.5, 1.0, 2.0)))
    m("Add", linear(m, x, hidden), up)


@skeleton(size=8, begin=sequence, dtypes=(DType.FLOAT32, DType.FLOAT16))
def weight_only_projection(m, x):
    """Projections with weights that are stored in integers of 8 or 4 bits."""
    hidden = m.shape(x)[-1]
    packed = m.takes(PACKED) and m.draw.chance(0.5)
    for width in (wider(m, hidden), hidden):
        if packed:
            x = _packed_product(m, x, width)
        else:
            x = m("MatMul", x, stored_weight(m, x, m.shape(x)[-1], width))
        if m.draw.chance(0.5):
            x = m("Add", x, m.weight(x, width))
    return x


def _packed_product(m, x, width):
    """The product as tools for language models write it: one operator on blocks of numbers of 4 or
    8 bits."""
    bits, block = m.draw.choice((4, 4, 8)), m.draw.choice((16, 32))
    blocks = -(-m.shape(x)[-1] // block)
    stored = m.shared(TensorType(DType.UINT8, (width, blocks, block * bits // 8)), 0, 255)
    scale = m.shared(m.weight(x, width, blocks), 0.01, 0.05)
    return m(PACKED, x, stored, scale, bits=bits, block=block)

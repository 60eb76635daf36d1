"""Models that rank, and layers over sequences: recurrent networks, convolutions over time, state
spaces, transformers."""

from __future__ import annotations

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.motif import skeleton

from .attention import encoder_attention, grouped_attention, packed_attention, self_attention
from .parts import (
    LAST,
    WIDEST,
    added,
    convolved,
    drawn,
    gelu,
    identifiers,
    layer_norm,
    linear,
    near,
    positions,
    rms_norm,
    rows,
    sequence,
    silu,
    stored_weight,
    wider,
)

LOOKED_UP = (2, 3)
"""How many features are looked up: a Concat of our models takes no more beside the dense one."""


def features(draw, weights):
    """(rows, width) with so few columns that all features side by side fit one axis."""
    return drawn(draw, weights, (draw.choice((1, 1, 2, 3, 8)), draw.choice((2, 3))))


@skeleton(size=12, begin=rows)
def perceptron(m, x):
    """Dense layers with activations, and a score."""
    kind = m.draw.choice(("Relu", "Relu", "Sigmoid", "Tanh"))
    for _ in range(m.draw.choice((1, 2, 3))):
        x = m(kind, linear(m, x, near(m.draw)))
    m("Sigmoid", linear(m, x, m.draw.choice((1, 1, 2, 5))))


@skeleton(size=60, begin=features)
def feature_interaction(m, x):
    """All products of two features of DLRM, beside the dense ones: one dense feature and those that
    are looked up, as inputs or in tables."""
    batch, width = m.shape(x)
    count = m.draw.choice(LOOKED_UP)
    if m.draw.chance(0.5):
        others = [_looked_up(m, x, batch, width) for _ in range(count)]
    else:
        others = [m.free(m.type(x)) for _ in range(count)]
    dense = m("Relu", x) if m.draw.chance(0.5) else x
    joined = m("Concat", dense, *others, axis=1)
    vectors = m("Reshape", joined, shape=(batch, count + 1, width))
    products = m("MatMul", vectors, m("Transpose", vectors, perm=(0, 2, 1)))
    pairs = (count + 1) * count // 2
    flat = m("Reshape", products, shape=(batch, (count + 1) ** 2))
    chosen = m("Gather", flat, positions(m, pairs), axis=1)
    return linear(m, m("Concat", dense, chosen, axis=1), near(m.draw))


def _looked_up(m, x, batch, width):
    table = m.shared(m.weight(x, m.draw.choice((4, 8)), width))
    return m("Gather", table, identifiers(m, batch), axis=0)


def short(draw, weights):
    """(batch, length, hidden) with few steps, which recurrent operators take one by one."""
    return drawn(draw, weights, (draw.choice((1, 2)), draw.choice((1, 2, 3, 5)), near(draw)))


def _causal(m, x, channels, kernel, dilation=1, **more):
    """A convolution of (batch, channels, length) that is padded in front alone."""
    return convolved(m, x, channels, (kernel,), (dilation * (kernel - 1), 0), 1, dilation, **more)


def _recurrent(m, kind, x, hidden, directions):
    """(batch, length, hidden) through a recurrent operator, whose directions are merged."""
    batch, length, given = m.shape(x)
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind] * hidden
    x = m("Transpose", x, perm=(1, 0, 2))
    direction = "bidirectional" if directions == 2 else "forward"
    weights = (m.weight(x, directions, gates, width) for width in (given, hidden))
    more = {"linear_before_reset": m.draw.choice((0, 1))} if kind == "GRU" else {}
    settings = {"direction": direction, "hidden_size": hidden, "layout": 0, "given": ("B",)}
    settings |= {"lens": (), "clip": None, "activations": (), "kept": (0,), **more}
    y = m(kind, x, *weights, m.weight(x, directions, 2 * gates), **settings)
    y = m("Transpose", y, perm=(2, 0, 1, 3))
    return m("Reshape", y, shape=(batch, length, directions * hidden))


@skeleton(size=18, begin=short)
def lstm_tagger(m, x):
    """One or two LSTM layers in both directions, and the probabilities of tags."""
    for _ in range(m.draw.choice((1, 2))):
        x = _recurrent(m, "LSTM", x, m.draw.choice((2, 4, 5, 8)), m.draw.choice((1, 2)))
    m("LogSoftmax", linear(m, x, m.draw.choice((3, 5, 9))), axis=-1)


@skeleton(size=18, begin=short)
def gru_encoder(m, x):
    """A GRU over projected features, whose last state is projected."""
    x = m("Tanh", linear(m, x, m.draw.choice((3, 4, 8))))
    y = _recurrent(m, "GRU", x, m.draw.choice((3, 4, 8)), m.draw.choice((1, 2)))
    length = m.shape(y)[1]
    y = m("Slice", y, axes=(1,), starts=(length - 1,), ends=(length,), steps=(1,))
    linear(m, m("Squeeze", y, axes=(1,)), near(m.draw, (4, 8)))


def _steps(m, x):
    """Some steps of (batch, length, hidden), each (batch, hidden), as loops that are unrolled over
    time take them."""
    _, length, _ = m.shape(x)
    if length > 1 and m.draw.chance(0.5):
        parts = m("Split", x, axis=1, split=(1,) * length)[:3]
        return [m("Squeeze", part, axes=(1,)) for part in parts]
    rows = [m("Gather", x, step, axis=1) for step in range(min(length, 3))]
    return [m("Squeeze", row, axes=(1,)) if len(m.shape(row)) == 3 else row for row in rows]


def _state(m, x, hidden):
    """The state before the first step: zeros, or an input."""
    type_ = m.weight(x, m.shape(x)[0], hidden)
    return m.free(type_) if m.draw.chance(0.4) else m.shared(type_, 0.0)


def _gates(m, shapes, x):
    """Weight and bias of `_joined`, which all steps share."""
    return m.shared(m.weight(x, *shapes)), m.shared(m.weight(x, shapes[-1]))


def _joined(m, x, h, weight, bias):
    """A projection of input and state side by side, as TensorFlow writes cells."""
    return m("Add", m("MatMul", m("Concat", x, h, axis=1), weight), bias)


@skeleton(size=60, begin=short)
def unrolled_lstm(m, x):
    """Steps of an LSTM, written out: the gates are projected from input and state side by side, as
    TensorFlow does, or from each by itself, as PyTorch does."""
    given, hidden = m.shape(x)[-1], m.draw.choice((1, 2, 4, 5, 8))
    h, c = _state(m, x, hidden), _state(m, x, hidden)
    joined = m.draw.chance(0.6)
    weights = _gates(m, (given + hidden if joined else given, 4 * hidden), x)
    inner = None if joined else _gates(m, (hidden, 4 * hidden), x)
    for step in _steps(m, x):
        if inner is None:
            gates = _joined(m, step, h, *weights)
        else:
            own = m("Add", m("MatMul", step, weights[0]), weights[1])
            gates = m("Add", own, m("Add", m("MatMul", h, inner[0]), inner[1]))
        first, second, third, fourth = m("Split", gates, axis=1, split=(hidden,) * 4)
        i, f, g, o = (first, third, second, fourth) if joined else (first, second, third, fourth)
        f = m("Add", f, 1.0) if joined else f
        c = m(
            "Add",
            m("Mul", m("Sigmoid", i), m("Tanh", g)),
            m("Mul", m("Sigmoid", f), c),
        )
        h = m("Mul", m("Tanh", c), m("Sigmoid", o))


@skeleton(size=60, begin=short)
def unrolled_gru(m, x):
    """Steps of a GRU, written out as TensorFlow does: one projection to both gates, another one
    behind the reset; now and then with other activations, as Keras admits."""
    given, hidden = m.shape(x)[-1], m.draw.choice((1, 2, 4, 5, 8))
    h, width = _state(m, x, hidden), given + hidden
    transposed = m.draw.chance(0.4)
    kept = _transposed if transposed else _gates
    both, last = (kept(m, (width, size), x) for size in (2 * hidden, hidden))
    gate, function = m.draw.choice((*[("Sigmoid", "Tanh")] * 4, ("Sigmoid", "Relu")))
    for step in _steps(m, x):
        project = _projected if transposed else _joined
        gates = m(gate, project(m, step, h, *both))
        reset, update = m("Split", gates, axis=1, split=(hidden, hidden))
        new = m(function, project(m, step, m("Mul", reset, h), *last))
        fresh = m("Mul", m("Sub", 1.0, update), new)
        h = m("Add", fresh, m("Mul", update, h))


def _transposed(m, shapes, x):
    """Weight and bias of `_projected`; the weight is transposed, as PyTorch keeps it."""
    return m.shared(m.weight(x, *shapes[::-1])), m.shared(m.weight(x, 1, shapes[-1]))


def _projected(m, x, h, weight, bias):
    """The projection of `_joined` by Gemm."""
    y = m("Concat", x, h, axis=1)
    return m("Gemm", y, weight, bias, alpha=1.0, beta=1.0, transA=0, transB=1)


@skeleton(size=24, begin=sequence)
def gated_convolution(m, x):
    """A block of WaveNet: a dilated causal convolution, tanh times sigmoid, and two results."""
    y = m("Transpose", x, perm=(0, 2, 1))
    channels, dilation = m.shape(y)[1], m.draw.choice((1, 2, 4))
    filtered, gate = (_causal(m, y, channels, 2, dilation=dilation) for _ in range(2))
    z = m("Mul", m("Tanh", filtered), m("Sigmoid", gate))
    added(m, y, _causal(m, z, channels, 1))
    _causal(m, z, near(m.draw, (4, 8)), 1)


@skeleton(size=42, begin=sequence)
def state_space_layer(m, x):
    """A layer of Mamba: a gate, a depthwise causal convolution, and a decaying sum over time."""
    hidden = m.shape(x)[-1]
    y, gate = (linear(m, rms_norm(m, x), hidden, bias=False) for _ in range(2))
    y = _causal(m, m("Transpose", y, perm=(0, 2, 1)), hidden, 4, group=hidden)
    y = silu(m, m("Transpose", y, perm=(0, 2, 1)))
    step = m("Softplus", m("ReduceMean", y, **LAST))
    decay = m("Mul", m("CumSum", step, axis=1, exclusive=0, reverse=0), -0.1)
    past = m("Mul", y, m("Mul", step, m("Exp", m("Neg", decay))))
    state = m("Mul", m("CumSum", past, axis=1, exclusive=0, reverse=0), m("Exp", decay))
    y = m("Add", state, m("Mul", y, m.weight(x, hidden)))
    added(m, x, linear(m, m("Mul", y, silu(m, gate)), hidden, bias=False))


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

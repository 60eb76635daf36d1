"""Recurrent networks, convolutions over time and state-space models."""

from __future__ import annotations

from nnfuzz.operators.motif import skeleton

from .parts import LAST, added, drawn, linear, near, rms_norm, sequence, silu


def short(draw, weights):
    """(batch, length, hidden) with few steps, which recurrent operators take one by one."""
    return drawn(draw, weights, (draw.choice((1, 2)), draw.choice((1, 2, 3, 5)), near(draw)))


def _convolved(m, x, channels, kernel, group=1, dilation=1):
    """A causal convolution of (batch, channels, length): padded in front alone."""
    given = m.shape(x)[1]
    operands = m.weight(x, channels, given // group, kernel), m.weight(x, channels)
    pads = (dilation * (kernel - 1), 0)
    return m(
        "Conv",
        x,
        *operands,
        group=group,
        strides=(1,),
        pads=pads,
        dilations=(dilation,),
        auto_pad="NOTSET",
    )


def _recurrent(m, kind, x, hidden, directions):
    """(batch, length, hidden) through a recurrent operator, whose directions are merged."""
    batch, length, given = m.shape(x)
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind] * hidden
    x = m("Transpose", x, perm=(1, 0, 2))
    direction = "bidirectional" if directions == 2 else "forward"
    weights = (m.weight(x, directions, gates, width) for width in (given, hidden))
    more = {"linear_before_reset": m.draw.choice((0, 1))} if kind == "GRU" else {}
    y = m(
        kind,
        x,
        *weights,
        m.weight(x, directions, 2 * gates),
        direction=direction,
        hidden_size=hidden,
        layout=0,
        given=("B",),
        lens=(),
        clip=None,
        activations=(),
        kept=(0,),
        **more,
    )
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
    filtered, gate = (_convolved(m, y, channels, 2, dilation=dilation) for _ in range(2))
    z = m("Mul", m("Tanh", filtered), m("Sigmoid", gate))
    added(m, y, _convolved(m, z, channels, 1))
    _convolved(m, z, near(m.draw, (4, 8)), 1)


@skeleton(size=42, begin=sequence)
def state_space_layer(m, x):
    """A layer of Mamba: a gate, a depthwise causal convolution, and a decaying sum over time."""
    hidden = m.shape(x)[-1]
    y, gate = (linear(m, rms_norm(m, x), hidden, bias=False) for _ in range(2))
    y = _convolved(m, m("Transpose", y, perm=(0, 2, 1)), hidden, 4, group=hidden)
    y = silu(m, m("Transpose", y, perm=(0, 2, 1)))
    step = m("Softplus", m("ReduceMean", y, **LAST))
    decay = m("Mul", m("CumSum", step, axis=1, exclusive=0, reverse=0), -0.1)
    past = m("Mul", y, m("Mul", step, m("Exp", m("Neg", decay))))
    state = m("Mul", m("CumSum", past, axis=1, exclusive=0, reverse=0), m("Exp", decay))
    y = m("Add", state, m("Mul", y, m.weight(x, hidden)))
    added(m, x, linear(m, m("Mul", y, silu(m, gate)), hidden, bias=False))

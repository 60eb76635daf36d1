"""Branches that read one value, which optimisers merge, share or turn into a single operator."""

from __future__ import annotations

from nnfuzz.ir.dtypes import ALL
from nnfuzz.operators.motif import motif


@motif(size=4, dtypes=ALL, ranks=(1, 5))
def parallel_gathers(m, x):
    """Gathers of one axis at each of its first places, which are a Split."""
    axis = m.draw.integer(0, len(m.shape(x)) - 1)
    parts = [m("Gather", x, place, axis=axis) for place in (0, 1)]
    if m.draw.chance(0.5):
        m("Concat", *parts, axis=0)


@motif(size=4, dtypes=ALL, ranks=(0, 4))
def stacked(m, x):
    """Values with a new axis each, joined along it, then split again."""
    other = m("Identity", x)
    axis = m.draw.integer(0, len(m.shape(x)))
    parts = [m("Unsqueeze", part, axes=(axis,)) for part in (x, other)]
    m("Concat", *parts, axis=axis)


@motif(size=4, ranks=(1, 5))
def common_subexpression(m, x):
    """The same function of the same value twice, read by one operator."""
    kind = m.draw.choice(("Relu", "Sigmoid", "Exp", "Tanh", "Softmax", "Neg"))
    m(m.draw.choice(("Add", "Mul", "Sub")), m(kind, x), m(kind, x))


@motif(size=4, ranks=(1, 5))
def scaled_sum(m, x):
    """A sum of multiples of two values."""
    other = m("Tanh", x)
    m("Add", m("Mul", x, 0.25), m("Mul", other, 0.75))


@motif(size=4, ranks=(2, 4))
def gated_product(m, x):
    """Two products of one value; one gates the other."""
    depth, width = m.shape(x)[-1], m.dim(2)
    gate, value = (m("MatMul", x, m.weight(x, depth, width)) for _ in range(2))
    m("Mul", m(m.draw.choice(("Sigmoid", "Swish", "Gelu")), gate), value)


@motif(size=3, ranks=(1, 5))
def residual_activation(m, x):
    """An activation of a sum together with the operands of the sum: three operands."""
    y = m("Sum", x, m("Relu", x), m.weight(x, *m.shape(x)))
    m(m.draw.choice(("Relu", "Clip", "LeakyRelu")), y)

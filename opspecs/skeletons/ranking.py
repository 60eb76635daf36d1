"""Models that rank: few dense features, and many that are looked up."""

from __future__ import annotations

from nnfuzz.operators.motif import skeleton

from .parts import drawn, identifiers, linear, near, positions, rows

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

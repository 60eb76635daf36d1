"""Activations written out in elementary operators, and clipping on top of clipping."""

from __future__ import annotations

import math

from nnfuzz.operators.motif import motif

ROOT_HALF = math.sqrt(0.5)


@motif(size=5, weight=2.0)
def gelu_erf(m, x):
    """x * (1 + erf(x / sqrt 2)) / 2 with the half in any place, as PyTorch and BERT write it."""
    inner = ("Div", x, math.sqrt(2)) if m.draw.chance(0.7) else ("Mul", x, ROOT_HALF)
    gate = m("Add", m("Erf", m(*inner)), 1.0)
    return _thirds(m, x, gate, 0.5)


@motif(size=6, weight=2.0)
def bias_gelu(m, x):
    """GELU of x + bias along the last axis."""
    biased = m("Add", x, m.weight(x, m.shape(x)[-1]))
    if m.draw.chance(0.3):
        return m("Gelu", biased)
    return gelu_erf.write(m, biased)


@motif(size=9, weight=3.0)
def gelu_tanh(m, x):
    """The approximation x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2."""
    gate = m("Add", m("Tanh", _cubic(m, x)), 1.0)
    return _thirds(m, x, gate, 0.5)


def _cubic(m, x):
    """sqrt(2 / pi) (x + 0.044715 x^3), by a power, by products, or with x as a factor."""
    root = math.sqrt(2 / math.pi)
    if m.draw.chance(0.3):
        square = m("Mul", m("Mul", x, 0.044715), x)
        return m("Mul", m("Mul", x, root), m("Add", square, 1.0))
    cube = m("Pow", x, 3.0) if m.draw.chance(0.7) else m("Mul", m("Mul", x, x), x)
    return m("Mul", m("Add", x, m("Mul", cube, 0.044715)), root)


def _thirds(m, x, gate, factor):
    """The product of three values: mostly x with the factor first, else in a random order."""
    a, b, c = (x, factor, gate) if m.draw.chance(0.5) else m.draw.shuffled((x, gate, factor))
    return m("Mul", m("Mul", a, b), c)


@motif(size=3)
def quick_gelu(m, x):
    """x * sigmoid(alpha x); alpha is 1.702, or 1 and absent (Swish, SiLU)."""
    inner = m("Mul", x, 1.702) if m.draw.chance(0.6) else x
    return m("Mul", x, m("Sigmoid", inner))


@motif(size=4)
def hard_swish(m, x):
    """x * clip(x / 6 + 1 / 2, 0, 1), by a HardSigmoid or written out."""
    if m.draw.chance(0.4):
        return m("Mul", x, m("HardSigmoid", x, alpha=1 / 6, beta=0.5))
    clipped = m("Clip", m("Add", x, 3.0), min=0.0, max=6.0)
    return m("Div", m("Mul", x, clipped), 6.0)


@motif(size=3)
def mish(m, x):
    """x * tanh(softplus(x))."""
    m("Mul", x, m("Tanh", m("Softplus", x)))


@motif(size=3)
def softplus(m, x):
    """log(1 + exp(x))."""
    m("Log", m("Add", m("Exp", x), 1.0))


@motif(size=4)
def sigmoid(m, x):
    """1 / (1 + exp(-x))."""
    below = m("Add", m("Exp", m("Neg", x)), 1.0)
    if m.draw.chance(0.5):
        m("Reciprocal", below)
    else:
        m("Div", 1.0, below)


@motif(size=2)
def leaky_relu(m, x):
    """max(x, x / 100)."""
    m("Max", x, m("Mul", x, 0.01))


@motif(size=2, ranks=(0, 5))
def relu_clip(m, x):
    """A Relu before or after a Clip that makes it redundant, or nearly redundant."""
    low, high = m.draw.choice(((0.0, 6.0), (0.0, None), (-1.0, 1.0), (0.5, 2.0)))
    if m.draw.chance(0.7):
        m("Clip", m("Relu", x), min=low, max=high)
    else:
        m("Relu", m("Clip", x, min=low, max=high))


@motif(size=2, ranks=(0, 5))
def repeated_function(m, x):
    """Two functions in a row; the second changes nothing or undoes the first."""
    once, twice = m.draw.choice(
        (
            *[(f, f) for f in ("Relu", "Abs", "Neg", "Floor", "Ceil", "Round", "Sign")],
            *[(f, f) for f in ("Reciprocal", "Identity", "Sigmoid")],
            *[("Exp", "Log"), ("Abs", "Relu"), ("Relu", "Abs"), ("Neg", "Abs")],
        )
    )
    m(twice, m(once, x))


@motif(size=5)
def prelu(m, x):
    """relu(x) - slope * relu(-x), with a slope for all or one along the last axis."""
    slope = 0.25 if m.draw.chance(0.5) else m.weight(x, m.shape(x)[-1])
    below = m("Mul", m("Relu", m("Neg", x)), slope)
    m("Sub", m("Relu", x), below)


@motif(size=4)
def elu(m, x):
    """x where it is positive, else exp(x) - 1."""
    m("Where", m("Greater", x, 0.0), x, m("Sub", m("Exp", x), 1.0))

"""Activations written out in elementary operators, clipping on top of clipping, and attention with
what surrounds it."""

from __future__ import annotations

import math

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
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


MASKED = -10000.0


def _flipped(rank):
    """The permutation that exchanges the last two axes."""
    return (*range(rank - 2), rank - 1, rank - 2)


def _scores(m, x, keys):
    """The product of queries and transposed keys, scaled before, after, or not at all."""
    scale = m.draw.choice((8.0, 4.0, 2.0))
    how = m.draw.choice(("Div", "Mul", "queries", "not"))
    if how == "queries":
        x = m("Mul", x, 1 / scale)
    scores = m("MatMul", x, keys)
    if how in ("Div", "Mul"):
        scores = m(how, scores, scale if how == "Div" else 1 / scale)
    return scores


def _masked(m, scores):
    """Scores with an added mask, one that selects a large negative number, or none."""
    shape = m.shape(scores)
    kind = m.draw.choice(("add", "where", "where", "not"))
    if kind == "add":
        return m("Add", scores, m.weight(scores, *shape[-2:]))
    if kind == "where":
        mask = TensorType(DType.BOOL, shape[-2:] if m.draw.chance(0.7) else shape)
        chosen = (scores, MASKED) if m.draw.chance(0.5) else (MASKED, scores)
        return m("Where", mask, *chosen)
    return scores


@motif(size=6, ranks=(2, 4), weight=3.0)
def attention(m, x):
    """softmax(x keys^T * scale + mask) values, with up to two batch axes."""
    *batch, _, depth = m.shape(x)
    length, width = (m.dim(len(batch) + 2) for _ in range(2))
    keys = m.weight(x, *batch, length, depth)
    if m.draw.chance(0.7):
        keys = m("Transpose", keys, perm=_flipped(len(batch) + 2))
    else:
        keys = m.weight(x, *batch, depth, length)
    attended = m("Softmax", _masked(m, _scores(m, x, keys)), axis=-1)
    m("MatMul", attended, m.weight(x, *batch, length, width))


@motif(size=7, ranks=(3, 3), weight=2.0)
def split_heads(m, x):
    """A projection with bias whose last axis is split into heads that move to the front."""
    batch, length, depth = m.shape(x)
    heads, width = m.draw.choice((1, 2, 4)), m.draw.choice((2, 3, 4, 8))
    y = m("MatMul", x, m.weight(x, depth, heads * width))
    y = m("Add", y, m.weight(y, heads * width))
    y = m("Reshape", y, shape=(batch, length, heads, width))
    y = m("Transpose", y, perm=(0, 2, 1, 3))
    y = m(m.draw.choice(("Relu", "Tanh", "Softmax")), y)
    y = m("Transpose", y, perm=(0, 2, 1, 3))
    m("Reshape", y, shape=(batch, length, heads * width))


@motif(size=9, ranks=(3, 3), weight=3.0)
def shared_projections(m, x):
    """Queries, keys and values of one input, multiplied and added up."""
    depth = m.shape(x)[-1]
    q, k, v = (m("MatMul", x, m.weight(x, depth, depth)) for _ in range(3))
    scores = m("MatMul", q, m("Transpose", k, perm=_flipped(3)))
    y = m("MatMul", m("Softmax", scores, axis=-1), v)
    m("Add", x, m("MatMul", y, m.weight(x, depth, depth)))


@motif(size=3, ranks=(2, 4))
def masked_softmax(m, x):
    """Softmax of values that a constant mask selects; sometimes the result is masked again."""
    mask = TensorType(DType.BOOL, m.shape(x))
    y = m("Softmax", m("Where", mask, x, MASKED), axis=-1)
    if m.draw.chance(0.5):
        m("Mul", y, m.weight(y, *m.shape(y)))

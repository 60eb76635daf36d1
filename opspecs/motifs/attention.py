"""Attention and what surrounds it: projections, scales, masks."""

from __future__ import annotations

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.motif import motif

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

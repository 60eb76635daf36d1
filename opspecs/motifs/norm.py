"""Normalisations and softmax written out in elementary operators."""

from __future__ import annotations

from math import prod

from nnfuzz.operators.motif import factors, motif

LAST = {"axes": (-1,), "keepdims": 1}


def _squared(m, x):
    return m("Pow", x, 2.0) if m.draw.chance(0.6) else m("Mul", x, x)


def _epsilon(m):
    return m.draw.choice((1e-5, 1e-5, 1e-6, 1e-3, 1e-12))


def _row(m, x):
    """A weight along the last axis as an operand."""
    return m.weight(x, m.shape(x)[-1])


@motif(size=9, weight=3.0)
def layer_norm(m, x):
    """Normalisation over the last one or two axes, with scale and bias or one of them."""
    axes = {**LAST, "axes": (-2, -1)} if len(m.shape(x)) > 1 and m.draw.chance(0.2) else LAST
    centred = m("Sub", x, m("ReduceMean", x, **axes))
    variance = m("ReduceMean", _squared(m, centred), **axes)
    y = m("Div", centred, m("Sqrt", m("Add", variance, _epsilon(m))))
    if m.draw.chance(0.9):
        y = m("Mul", y, _row(m, x))
    return m("Add", y, _row(m, x)) if m.draw.chance(0.9) else y


@motif(size=7, weight=2.0)
def rms_norm(m, x):
    """x / sqrt(mean(x^2) + eps) * scale, by a division, or by a reciprocal and a product."""
    root = m("Sqrt", m("Add", m("ReduceMean", _squared(m, x), **LAST), _epsilon(m)))
    y = m("Div", x, root) if m.draw.chance(0.5) else m("Mul", x, m("Reciprocal", root))
    return m("Mul", y, _row(m, x)) if m.draw.chance(0.5) else m("Mul", _row(m, x), y)


@motif(size=3)
def skip_layer_norm(m, x):
    """LayerNormalization of a sum, sometimes with a bias."""
    y = m("Add", x, m.weight(x, *m.shape(x)))
    if m.draw.chance(0.4):
        y = m("Add", y, _row(m, x))
    m("LayerNormalization", y, axis=-1)


@motif(size=5, weight=2.0)
def softmax(m, x):
    """exp(x - max x) / sum along any axis; sometimes without the maximum."""
    rank = len(m.shape(x))
    axes = {**LAST, "axes": (m.draw.integer(-rank, rank - 1),)} if m.draw.chance(0.5) else LAST
    if m.draw.chance(0.8):
        x = m("Sub", x, m("ReduceMax", x, **axes))
    e = m("Exp", x)
    m("Div", e, m("ReduceSum", e, **axes))


@motif(size=4)
def log_softmax(m, x):
    """log(softmax(x)), or x - log(sum(exp(x)))."""
    if m.draw.chance(0.5):
        return m("Log", m("Softmax", x, axis=-1))
    return m("Sub", x, m("Log", m("ReduceSum", m("Exp", x), **LAST)))


@motif(size=5)
def l2_normalised(m, x):
    """x / max(|x|, eps), with the norm by ReduceL2 or written out."""
    if m.draw.chance(0.5):
        norm = m("ReduceL2", x, **LAST)
    else:
        norm = m("Sqrt", m("ReduceSum", m("Mul", x, x), **LAST))
    m("Div", x, m("Max", norm, 1e-4))


@motif(size=2, ranks=(2, 5))
def scale_and_shift(m, x):
    """A scale and a shift per channel, which a folded BatchNormalization leaves."""
    ones = (1,) * (len(m.shape(x)) - 2)
    column = m.weight(x, m.shape(x)[1], *ones)
    m("Add", m("Mul", x, column), column)


@motif(size=5)
def variance(m, x):
    """mean(x^2) - mean(x)^2, whose operands cancel."""
    mean = m("ReduceMean", x, **LAST)
    m("Sub", m("ReduceMean", m("Mul", x, x), **LAST), m("Mul", mean, mean))


@motif(size=5, ranks=(3, 4), weight=2.0)
def group_norm(m, x):
    """InstanceNormalization of groups of channels between two Reshapes, scaled and shifted."""
    batch, channels, *rest = m.shape(x)
    groups, inner = factors(m, channels, (1, 2, 4))
    if isinstance(inner, int):
        inner = prod(rest, start=inner)
    y = m("InstanceNormalization", m("Reshape", x, shape=(batch, groups, inner)))
    y = m("Reshape", y, shape=(batch, channels, *rest))
    column = m.weight(x, channels, *(1,) * len(rest))
    m("Add", m("Mul", y, column), column)


@motif(size=7, ranks=(2, 5))
def mean_variance_norm(m, x):
    """x less its mean by its standard deviation, over the spatial axes or the last one."""
    rank = len(m.shape(x))
    axes = tuple(range(2, rank)) if rank > 2 and m.draw.chance(0.6) else (-1,)
    given = {**LAST, "axes": axes}
    centred = m("Sub", x, m("ReduceMean", x, **given))
    spread = m("Sqrt", m("ReduceMean", _squared(m, centred), **given))
    m("Div", centred, m("Add", spread, _epsilon(m)))


@motif(size=3, ranks=(1, 5))
def biased_softmax(m, x):
    """Softmax of a sum with a bias of the same rank or a lower one, as attention masks are."""
    shape = m.shape(x)
    bias = m.draw.choice((shape, shape[-1:], (1,) * (len(shape) - 1) + shape[-1:]))
    m("Softmax", m("Add", x, m.weight(x, *bias)), axis=m.draw.choice((-1, -1, len(shape) - 1)))


@motif(size=3, ranks=(2, 5))
def merged_reductions(m, x):
    """Two reductions in a row, of different axes."""
    kind = m.draw.choice(("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"))
    keepdims = int(m.draw.chance(0.6))
    y = m(kind, x, axes=(-1,), keepdims=keepdims)
    m(kind, y, axes=(-2,) if keepdims else (-1,), keepdims=keepdims)

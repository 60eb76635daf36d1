"""Matrix products and convolutions with what optimisers fold into them."""

from __future__ import annotations

from math import prod

from nnfuzz.operators.motif import motif


def _column(m, y):
    """A weight per channel as an operand."""
    shape = m.shape(y)
    return m.weight(y, shape[1], *(1,) * (len(shape) - 2))


def _projected(m, x, transposed=False):
    """The product with a weight; sometimes a node of its own transposes the weight."""
    width = m.dim(2)
    if not transposed:
        return m("MatMul", x, m.weight(x, m.shape(x)[-1], width))
    return m("MatMul", x, m("Transpose", m.weight(x, width, m.shape(x)[-1]), perm=(1, 0)))


def _activated(m, y):
    kind = m.draw.choice(("Relu", "Relu", "Clip", "Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid"))
    return m("Clip", y, min=0.0, max=6.0) if kind == "Clip" else m(kind, y)


# -- products ---------------------------------------------------------------------------------


@motif(size=4, ranks=(2, 5), weight=2.0)
def matmul_add(m, x):
    """A dense layer, sometimes with a transposed weight, and an activation."""
    y = _projected(m, x, m.draw.chance(0.4))
    bias = m.weight(y, m.shape(y)[-1])
    y = m("Add", y, bias) if m.draw.chance(0.8) else m("Add", bias, y)
    if m.draw.chance(0.5):
        _activated(m, y)


@motif(size=3, ranks=(2, 2))
def gemm_activation(m, x):
    """Gemm and an activation, sometimes with a sum in between."""
    y = m("Gemm", x)
    if m.draw.chance(0.4):
        y = m("Add", y, m.weight(y, m.shape(y)[-1]))
    _activated(m, y)


@motif(size=2, ranks=(2, 2), weight=2.0)
def gemm_sum(m, x):
    """Gemm without a bias, and a sum that is one."""
    width = m.dim(2)
    y = m("Gemm", x, m.weight(x, m.shape(x)[-1], width), alpha=1.0, transA=0, transB=0)
    rows = m.draw.choice(((), (1,), m.shape(y)[:1]))
    m(m.draw.choice(("Sum", "Add")), y, m.weight(y, *rows, width))


@motif(size=3, ranks=(2, 5), weight=2.0)
def matmul_scale(m, x):
    """A factor before a product, after it, or both."""
    if m.draw.chance(0.5):
        x = m("Mul", x, 0.125)
    y = _projected(m, x)
    m("Div", y, 8.0) if m.draw.chance(0.5) else m("Mul", y, 0.5)


@motif(size=3, ranks=(2, 5), weight=2.0)
def transpose_matmul(m, x):
    """A product of transposed operands, sometimes transposed itself."""
    rank = len(m.shape(x))
    flip = (*range(rank - 2), rank - 1, rank - 2)
    y = _projected(m, m("Transpose", x, perm=flip))
    if m.draw.chance(0.5):
        m("Transpose", y, perm=flip)


@motif(size=4, ranks=(2, 3))
def matmul_add_transpose(m, x):
    """A dense layer whose input or result is transposed, or both."""
    flip = (1, 0) if len(m.shape(x)) == 2 else (0, 2, 1)
    where = m.draw.choice(("front", "front", "behind", "both"))
    x = x if where == "behind" else m("Transpose", x, perm=flip)
    y = _projected(m, x)
    y = m("Add", y, m.weight(y, m.shape(y)[-1]))
    if where != "front":
        m("Transpose", y, perm=flip)


@motif(size=3, ranks=(2, 5))
def chained_products(m, x):
    """Two products with constants, which fold into one."""
    m("Mul", _projected(m, _projected(m, x)), 2.0)


@motif(size=3, ranks=(2, 4), weight=2.0)
def twin_products(m, x):
    """Two products that share an operand, joined."""
    m("Concat", _projected(m, x), _projected(m, x), axis=-1)


@motif(size=3, ranks=(2, 2))
def reshaped_product(m, x):
    """A product between two Reshapes; one makes a batch of the rows and the other undoes
    it."""
    rows, depth = m.shape(x)
    y = _projected(m, m("Reshape", x, shape=(rows, 1, depth)))
    m("Reshape", y, shape=(rows, m.shape(y)[-1]))


@motif(size=4, ranks=(3, 4), weight=2.0)
def flattened_product(m, x):
    """A dense layer on rows that are flattened before it and unflattened behind it, as exporters
    write projections of three axes."""
    *rows, depth = m.shape(x)
    count = prod(rows) if all(isinstance(size, int) for size in rows) else m.draw.var("f", 1, 64)
    y = m("Reshape", x, shape=(count, depth), inferred=m.draw.choice((0, 0, -1)))
    if m.draw.chance(0.4):
        y = m("Gemm", y, m.weight(x, m.dim(2), depth), transA=0, transB=1, alpha=1.0)
    else:
        y = _projected(m, y)
        y = m("Add", y, m.weight(y, m.shape(y)[-1])) if m.draw.chance(0.5) else y
    m("Reshape", y, shape=(*rows, m.shape(y)[-1]))


@motif(size=2, ranks=(3, 4))
def expanded_product(m, x):
    """A product with an operand that is repeated for each batch, which broadcasting does too."""
    *batch, _, depth = m.shape(x)
    single = m.weight(x, *(1,) * len(batch), depth, m.dim(len(batch) + 2))
    if m.draw.chance(0.3):
        single = m.weight(x, *single.shape[-2:])
    m("MatMul", x, m("Expand", single, shape=(*batch, *single.shape[-2:])))


@motif(size=3, ranks=(2, 2))
def matmul_bn(m, x):
    """A product, sometimes with a bias, and a BatchNormalization that folds into its weight."""
    y = _projected(m, x)
    if m.draw.chance(0.4):
        y = m("Add", y, m.weight(y, m.shape(y)[-1]))
    m("BatchNormalization", y)


@motif(size=3, ranks=(2, 2))
def gemm_transpose(m, x):
    """Gemm of a transposed operand, or with its result transposed."""
    if m.draw.chance(0.5):
        return m("Gemm", m("Transpose", x, perm=(1, 0)))
    return m("Transpose", m("Gemm", x), perm=(1, 0))


# -- convolutions -----------------------------------------------------------------------------


@motif(size=3, ranks=(3, 5), weight=3.0)
def conv_bn_relu(m, x):
    y = m("BatchNormalization", m("Conv", x))
    if m.draw.chance(0.8):
        _activated(m, y)


@motif(size=3, ranks=(3, 5), weight=2.0)
def conv_add_relu(m, x):
    """A residual connection, the sum in either order."""
    y = m("Conv", x)
    z = m.weight(y, *m.shape(y))
    y = m("Add", y, z) if m.draw.chance(0.5) else m("Add", z, y)
    m("Relu", y)


@motif(size=3, ranks=(3, 5), weight=2.0)
def conv_scale_shift(m, x):
    """Scale or shift per channel, or both, which fold into the weights."""
    y = m("Conv", x)
    for kind in m.draw.choice((("Mul",), ("Add",), ("Mul", "Add"))):
        y = m(kind, y, _column(m, y))


@motif(size=2, ranks=(3, 5))
def conv_activation(m, x):
    _activated(m, m("Conv", x))


@motif(size=2, ranks=(3, 5), weight=2.0)
def pad_window(m, x):
    """Padding before a convolution or a pool, mostly on the spatial axes."""
    n = len(m.shape(x)) - 2
    sides = [m.draw.integer(0, 2) for _ in range(2 * n)]
    pads = (0, 0, *sides[:n], 0, 0, *sides[n:])
    y = m("Pad", x, pads=pads, mode="constant", value=0)
    m(m.draw.choice(("Conv", "Conv", "MaxPool", "AveragePool")), y)


@motif(size=3, ranks=(4, 4), weight=2.0)
def conv_pair(m, x):
    """A convolution and a pointwise convolution."""
    y = m("Conv", x)
    y = m("Relu", y) if m.draw.chance(0.5) else y
    m("Conv", y, m.weight(y, m.dim(4), m.shape(y)[1], 1, 1), group=1, pads=(0,) * 4)


@motif(size=2, ranks=(3, 5))
def global_pool_flatten(m, x):
    """A global pool whose axes of size 1 are dropped."""
    rank = len(m.shape(x))
    if m.draw.chance(0.5):
        y = m("GlobalAveragePool", x)
    else:
        y = m("ReduceMean", x, axes=tuple(range(2, rank)), keepdims=1)
    if m.draw.chance(0.5):
        m("Flatten", y, axis=1)
    else:
        m("Reshape", y, shape=m.shape(y)[:2])

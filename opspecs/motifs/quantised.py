"""Quantise-dequantise sandwiches, which runtimes replace by kernels on integers."""

from __future__ import annotations

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.families.quantized import BYTES, REDUCED
from nnfuzz.operators.motif import motif

FLOAT = (DType.FLOAT32, DType.FLOAT16)
SCALES = (0.05, 0.1, 1 / 64, 0.25)


def _grid(m, like, dtype=None):
    """Draws scale, zero point and dtype of a quantisation per tensor."""
    dtype = dtype or m.draw.choice(BYTES)
    scale, zero = m.draw.choice(SCALES), _zero(m, dtype)
    return (
        m.shared(TensorType(m.type(like).dtype, ()), scale),
        m.shared(TensorType(dtype, ()), zero),
        dtype,
    )


def _zero(m, dtype):
    """A zero point: 0, in the middle, or the least number, as it is for what is never negative."""
    least, most = map(int, dtype.limits)
    return m.draw.choice((0, 0, 3, (least + most + 1) // 2, least))


def _quantised(m, x, grid=None):
    scale, zero, dtype = grid or _grid(m, x)
    return m("QuantizeLinear", x, scale, zero, to=dtype), (scale, zero)


def _through(m, x, grid=None):
    """Quantises a value and dequantises it."""
    q, (scale, zero) = _quantised(m, x, grid)
    return m("DequantizeLinear", q, scale, zero)


def _weight(m, like, *shape):
    """A weight that is stored in integers."""
    scale, _, dtype = _grid(m, like, DType.INT8)
    stored = m.shared(TensorType(dtype, shape), -REDUCED, REDUCED)
    return m("DequantizeLinear", stored, scale, m.shared(TensorType(dtype, ()), 0))


@motif(size=4, dtypes=FLOAT, ranks=(0, 5))
def requantised(m, x):
    """Two quantise-dequantise pairs in a row, with equal or different scales."""
    grid = _grid(m, x) if m.draw.chance(0.6) else None
    y = _through(m, x, grid)
    if m.draw.chance(0.7):
        _through(m, y, grid)


@motif(size=2, dtypes=BYTES, ranks=(0, 5))
def requantised_integers(m, x):
    """Integers that are dequantised and quantised again on the same grid, as in models that take
    and give integers."""
    dtype = m.type(x).dtype
    scale = m.shared(TensorType(DType.FLOAT32, ()), m.draw.choice(SCALES))
    zero = m.shared(TensorType(dtype, ()), _zero(m, dtype))
    m("QuantizeLinear", m("DequantizeLinear", x, scale, zero), scale, zero, to=dtype)


@motif(size=5, dtypes=FLOAT, weight=2.0)
def quantised_function(m, x):
    """A function between two pairs, with equal scales if it only moves elements."""
    kind = m.draw.choice(
        ("Relu", "Sigmoid", "Clip", "Softmax", "LeakyRelu", "Transpose", "Reshape", "Slice", "Pad")
    )
    grid = _grid(m, x) if m.draw.chance(0.5) else None
    _through(m, m(kind, _through(m, x, grid)), grid)


@motif(size=7, dtypes=FLOAT, ranks=(1, 5))
def quantised_sum(m, x):
    """A sum or product of two dequantised operands, quantised again."""
    left = _through(m, x)
    right = left if m.draw.chance(0.2) else _weight(m, x, *m.shape(x))
    _through(m, m(m.draw.choice(("Add", "Mul")), left, right))


@motif(size=6, dtypes=FLOAT, ranks=(2, 4), weight=3.0)
def quantised_product(m, x):
    """MatMul with a quantised weight between two pairs."""
    y = _through(m, x)
    y = m("MatMul", y, _weight(m, x, m.shape(x)[-1], m.dim(2)))
    if m.draw.chance(0.8):
        _through(m, y)


@motif(size=7, dtypes=FLOAT, ranks=(3, 4), weight=3.0)
def quantised_conv(m, x):
    """Conv with a quantised weight between two pairs, sometimes with a Relu."""
    n = len(m.shape(x)) - 2
    kernel = [m.draw.integer(1, 3) for _ in range(n)]
    y = _through(m, x)
    weight = _weight(m, x, m.dim(4), m.shape(x)[1], *kernel)
    y = m("Conv", y, weight, group=1)
    y = m("Relu", y) if m.draw.chance(0.5) else y
    if m.draw.chance(0.8):
        _through(m, y)


@motif(size=6, dtypes=FLOAT, ranks=(1, 5))
def quantised_choice(m, x):
    """Where between a dequantised value and a constant, quantised again on a grid of its dtype."""
    grid = _grid(m, x)
    mask, other = m.free(TensorType(DType.BOOL, m.shape(x))), m.draw.choice((0.0, 1.0, -1e4))
    y = _through(m, x, grid)
    y = m("Where", mask, y, other) if m.draw.chance(0.5) else m("Where", mask, other, y)
    _through(m, y, grid if m.draw.chance(0.5) else _grid(m, x, grid[2]))


@motif(size=3, dtypes=FLOAT, ranks=(0, 5))
def clipped_quantised(m, x):
    """A Relu or Clip that quantisation makes redundant or nearly redundant: mostly on a grid as
    calibration chooses it, from 0 to the largest value."""
    bounded = m.draw.chance(0.5)
    y = m("Clip", x, min=0.0, max=6.0) if bounded else m("Relu", x)
    if m.draw.chance(0.3):
        return _through(m, y)
    dtype = m.draw.choice(BYTES)
    least, most = map(int, dtype.limits)
    scale = 5.98 / (most - least) if bounded else m.draw.choice(SCALES)
    grid = TensorType(m.type(x).dtype, ()), TensorType(dtype, ())
    return _through(m, y, (m.shared(grid[0], scale), m.shared(grid[1], least), dtype))


@motif(size=6, dtypes=(DType.FLOAT32,), ranks=(2, 5), weight=2.0)
def dynamic_product(m, x):
    """An integer product of the dynamically quantised x, scaled back, sometimes with a bias."""
    y, scale, zero = m("DynamicQuantizeLinear", x)
    columns, n = m.draw.choice((0, 0, 1)), m.dim(2)
    shape = (n,) if columns else ()
    stored = m.shared(TensorType(DType.INT8, (m.shape(x)[-1], n)), -REDUCED, REDUCED)
    offset = m.shared(TensorType(DType.INT8, shape), m.draw.choice((0, 0, 3)))
    y = m("Cast", m("MatMulInteger", y, stored, zero, offset, columns=columns), to=DType.FLOAT32)
    y = m("Mul", y, m("Mul", scale, m.shared(TensorType(DType.FLOAT32, shape), 0.01, 0.2)))
    if m.draw.chance(0.5):
        m("Add", y, m.weight(y, n))

"""Arithmetic that changes nothing or nearly nothing, constant masks, and branches that read one
value, which optimisers merge, share or turn into a single operator.
"""

from __future__ import annotations

from nnfuzz.ir.dtypes import ALL, FLOATS, NUMBERS, DType
from nnfuzz.ir.types import TensorType
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


NEUTRAL = (("Mul", 1), ("Add", 0), ("Sub", 0), ("Div", 1))


@motif(size=2, dtypes=NUMBERS, ranks=(0, 5), weight=3.0)
def neutral_element(m, x):
    """x * 1, x + 0, x - 0, x / 1, 0 + x, 1 * x; the constant may be of rank 0 or not."""
    for _ in range(m.draw.integer(1, 2)):
        kind, constant = m.draw.choice(NEUTRAL)
        front = kind in ("Mul", "Add") and m.draw.chance(0.4)
        x = m(kind, constant, x) if front else m(kind, x, constant)


@motif(size=2, ranks=(0, 5), weight=2.0)
def trivial_power(m, x):
    """x to the 0, 1/2, 1, 2, 3 or -1."""
    y = m("Pow", x, m.draw.choice((0.0, 0.5, 1.0, 2.0, 3.0, -1.0)))
    if m.draw.chance(0.3):
        m("Sqrt", y)


@motif(size=2, dtypes=NUMBERS, ranks=(0, 5), weight=2.0)
def with_itself(m, x):
    """x / x, x - x, x + x, max(x, x) or x = x, and a node that reads it."""
    kind = m.draw.choice(("Div", "Sub", "Add", "Mul", "Max", "Min", "Equal", "Less", "Mod"))
    y = m(kind, x, x)
    if kind in ("Equal", "Less"):
        m("Where", y, x, 0)
    elif m.draw.chance(0.5):
        m("Add", y, x)


@motif(size=2, dtypes=NUMBERS, ranks=(0, 5))
def annihilated(m, x):
    """x * 0 and a node that reads it."""
    m("Add", m("Mul", x, 0), x)


@motif(size=2, dtypes=NUMBERS, ranks=(0, 5), weight=2.0)
def folded_constants(m, x):
    """Two constants in a row, which fold into one: (x + a) + b, (x * a) * b, (x * a) + b."""
    first, second = m.draw.choice(
        (("Add", "Add"), ("Mul", "Mul"), ("Mul", "Add"), ("Add", "Sub"), ("Mul", "Div"))
    )
    m(second, m(first, x, m.draw.integer(1, 3)), m.draw.integer(1, 3))


@motif(size=3, dtypes=NUMBERS, ranks=(0, 5))
def common_factor(m, x):
    """a x + a y with one a."""
    factor = m.weight(x)
    m("Add", m("Mul", x, factor), m("Mul", x, m.draw.integer(1, 3)))


@motif(size=2, dtypes=FLOATS, ranks=(0, 5))
def divided(m, x):
    """A division by a constant or by a root, which may become a product."""
    if m.draw.chance(0.5):
        m("Div", x, m.draw.choice((3.0, 7.0, 0.1, 1e-3)))
    else:
        m("Mul", x, m("Reciprocal", x))


@motif(size=2, dtypes=ALL, ranks=(1, 5), weight=2.0)
def constant_mask(m, x):
    """Where with a constant mask, whose elements are sometimes all equal."""
    shape = m.shape(x)
    mask = m.draw.choice(
        (True, False, TensorType(DType.BOOL, shape), TensorType(DType.BOOL, shape[-1:]))
    )
    other = 0 if m.draw.chance(0.5) else m.weight(x, *shape)
    y = m("Where", mask, x, other) if m.draw.chance(0.6) else m("Where", mask, other, x)
    if m.draw.chance(0.4):
        m("Where", TensorType(DType.BOOL, shape), y, x)


@motif(size=3, dtypes=NUMBERS, ranks=(0, 5))
def negated_sum(m, x):
    """-(a - x), a + (-x) and similar sums with a negation."""
    y = m("Neg", x)
    y = m("Add", m.weight(x), y) if m.draw.chance(0.5) else m("Sub", m.weight(x), y)
    if m.draw.chance(0.5):
        m("Neg", y)


@motif(size=3, dtypes=NUMBERS, ranks=(0, 5))
def negated_comparison(m, x):
    """not (x < a), which is x >= a."""
    kind = m.draw.choice(("Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"))
    y = m("Not", m(kind, x, m.draw.integer(0, 2)))
    if m.draw.chance(0.5):
        m("Not", y)


@motif(size=3, dtypes=(DType.BOOL,), ranks=(0, 5))
def boolean_identity(m, x):
    """x and true, x or false, x xor true, x and x, not not x."""
    kind = m.draw.choice(("And", "Or", "Xor", "Not"))
    if kind == "Not":
        y = m("Not", m("Not", x))
    else:
        y = m(kind, x, x if m.draw.chance(0.3) else m.draw.chance(0.5))
    if m.draw.chance(0.3):
        m("And", y, x)


@motif(size=3, dtypes=NUMBERS, ranks=(0, 5), weight=2.0)
def negated_choice(m, x):
    """Where with a negated condition, which exchanges the other operands."""
    y = m("Not", m(m.draw.choice(("Less", "Greater", "Equal")), x, m.draw.integer(0, 2)))
    other = m.draw.integer(0, 1)
    m("Where", y, x, other) if m.draw.chance(0.5) else m("Where", y, other, x)


ENCODER = "ai.onnx.ml.LabelEncoder"


@motif(size=2, dtypes=(DType.INT64,), ranks=(0, 5))
def encoded_twice(m, x):
    """Integers that are mapped to others, and these again."""
    m(ENCODER, m(ENCODER, x, to=DType.INT64), to=m.draw.choice((DType.INT64, DType.FLOAT32)))

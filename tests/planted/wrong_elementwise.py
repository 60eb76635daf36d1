"""Planted bugs in elementwise kernels: broadcasting, edges, widths."""

from __future__ import annotations

import torch

from tests.planted import kernels
from tests.planted.changes import Catalogue

BUGS = Catalogue()
bug = BUGS.kernel


# -- elementwise -------------------------------------------------------------------------------


BROADCASTING = ("Add", "Sub", "Mul", "Div", "Less", "Greater", "LessOrEqual", "GreaterOrEqual",
                "Equal", "And", "Or", "Xor", "Pow", "Mod")  # fmt: skip


@bug(*BROADCASTING)
def broadcast_operand_lost(run, a, x, y):
    """A second operand with a broadcast inner axis is read as a single number."""
    if y.shape == x.shape or y.numel() < 2 or 1 not in y.shape:
        return None
    return run(x, y.reshape(-1)[0].expand_as(y))


@bug(*BROADCASTING)
def broadcast_first_operand_lost(run, a, x, y):
    """A first operand that broadcasts repeats its first row."""
    if x.dim() < 1 or x.numel() >= y.numel() or x.numel() < 2:
        return None
    return run(x.reshape(-1)[0].expand_as(x), y)


@bug("Div")
def integer_division_floors(run, a, x, y):
    """Integer quotients round down instead of towards zero."""
    return None if x.is_floating_point() else torch.div(x, y, rounding_mode="floor")


@bug("Mod")
def mod_sign(run, a, x, y):
    """fmod and mod change places."""
    return run(x, y, fmod=1 - a.get("fmod", 0))


@bug("Pow")
def pow_of_negative_base(run, a, x, y):
    """exp(y log |x|): the sign of odd powers is lost."""
    return run(x.abs(), y)


@bug("Pow")
def pow_exponent_truncated(run, a, x, y):
    """A fractional exponent takes the integer path."""
    return run(x, y.trunc()) if y.is_floating_point() else None


@bug("Max", "Min", "Sum")
def variadic_drops_last(run, a, *xs):
    """Fused pairwise, an odd number of operands loses the last one."""
    if len(xs) % 2 == 0 or len(xs) < 3:
        return None
    y = run(*xs[:-1])
    return y.expand(torch.broadcast_shapes(*(x.shape for x in xs)))


@bug("Max", "Min")
def min_max_unsigned_as_signed(run, a, *xs):
    """uint8 operands are compared as int8."""
    if xs[0].dtype is not torch.uint8:
        return None
    return run(
        *(x.view(torch.int8) if x.dim() else x.reshape(1).view(torch.int8).reshape(()) for x in xs)
    ).to(torch.uint8)


@bug("GreaterOrEqual", "LessOrEqual")
def equality_lost_in_comparison(run, a, x, y):
    """>= is compiled as >."""
    return run(x, y) & (x != y)


@bug("Greater", "Less")
def comparison_operands_swapped(run, a, x, y):
    """a < b becomes b < a when the first operand is a scalar or broadcast."""
    return run(y, x) if x.numel() < y.numel() else None


@bug("Equal")
def equal_with_tolerance(run, a, x, y):
    """Floats within 1e-2 count as equal."""
    return (x - y).abs() < 1e-2 if x.is_floating_point() else None


@bug("Xor")
def xor_as_or(run, a, x, y):
    """Exclusive or becomes inclusive."""
    return x | y


@bug("Where")
def where_swapped_when_broadcast(run, a, c, x, y):
    """The branches change places when the condition broadcasts."""
    return run(c, y, x) if c.numel() < max(x.numel(), y.numel()) else None


@bug("Where")
def where_condition_row(run, a, c, x, y):
    """A broadcast condition repeats its first element."""
    return run(c.reshape(-1)[0].expand_as(c), x, y) if c.numel() > 1 else None


@bug("Clip")
def clip_zero_bound_dropped(run, a, x, lo=None, hi=None):
    """A bound of 0 counts as absent."""
    lo, hi = (None if b is not None and b.item() == 0 else b for b in (lo, hi))
    return run(x, lo, hi)


@bug("Clip")
def clip_single_bound_swapped(run, a, x, lo=None, hi=None):
    """A lone lower bound is used as the upper one, and the reverse."""
    return run(x, hi, lo) if (lo is None) != (hi is None) else None


@bug("Clip")
def clip_upper_bound_strict(run, a, x, lo=None, hi=None):
    """Integers are clipped one below the upper bound."""
    return None if hi is None or x.is_floating_point() else run(x, lo, hi - 1)


@bug("Floor")
def floor_truncates(run, a, x):
    """Floor rounds towards zero."""
    return x.trunc()


@bug("Ceil")
def ceil_is_floor_plus_one(run, a, x):
    """Integers are rounded up to the next one."""
    return x.floor() + 1


@bug("Round")
def round_half_away(run, a, x):
    """Halves are rounded away from zero instead of to even."""
    return torch.where((x - x.trunc()).abs() == 0.5, x + x.sign() * 0.5, run(x))


@bug("Round")
def round_is_floor(run, a, x):
    """Round is compiled as floor."""
    return x.floor()


@bug("Sign")
def sign_of_zero(run, a, x):
    """The sign of 0 is 1."""
    return torch.where(x == 0, torch.ones_like(x), run(x))


@bug("Abs", "Neg")
def int8_least_saturates(run, a, x):
    """The least integer saturates instead of wrapping around."""
    if x.is_floating_point():
        return None
    info = torch.iinfo(x.dtype)
    return torch.where(x == info.min, info.max, run(x)).to(x.dtype) if info.min else None


@bug("LeakyRelu")
def leaky_relu_of_both_signs(run, a, x):
    """max(x, alpha x), which is wrong for alpha > 1."""
    return torch.maximum(x, a.get("alpha", 0.01) * x)


@bug("PRelu")
def prelu_single_slope(run, a, x, slope):
    """One slope for all channels."""
    return run(x, slope.reshape(-1)[0].expand_as(slope)) if slope.numel() > 1 else None


@bug("Elu")
def elu_alpha_ignored(run, a, x):
    """alpha is taken for 1."""
    return run(x, alpha=1.0)


@bug("HardSigmoid")
def hard_sigmoid_defaults(run, a, x):
    """alpha and beta keep their defaults."""
    return run(x, alpha=0.2, beta=0.5)


@bug("Gelu")
def gelu_sign(run, a, x):
    """Symmetric in x: |x| where x is meant."""
    return run(x.abs())


# -- casts and widths --------------------------------------------------------------------------


@bug("Cast")
def cast_rounds(run, a, x):
    """Floats are rounded to integers instead of truncated."""
    integral = a["to"] in (2, 3, 5, 6, 7)
    return run(x.round()) if x.is_floating_point() and integral else None


@bug("Cast")
def cast_bool_truncates(run, a, x):
    """0.5 becomes false: the cast goes through an integer."""
    return x.trunc() != 0 if x.is_floating_point() and a["to"] == 9 else None


@bug("Cast")
def cast_saturates(run, a, x):
    """Integers are clamped to the narrower type instead of keeping their low bits."""
    to = kernels.CAST[a["to"]]
    if x.is_floating_point() or to.is_floating_point or torch.bool in (x.dtype, to):
        return None
    return run(x.to(torch.int64).clamp(torch.iinfo(to).min, torch.iinfo(to).max))


@bug("Cast")
def cast_of_bool(run, a, x):
    """True becomes all ones."""
    return run(-x.to(torch.int64)) if x.dtype is torch.bool and a["to"] not in (2, 9) else None


@bug("Add", "Sub", "Mul", "ReduceSum", "CumSum", "MatMul", "Abs", "Neg", "Mod", "Div")
def int64_narrowed_to_int32(run, a, x, *rest):
    """int64 arithmetic is done in int32."""
    if x.dtype is not torch.int64:
        return None
    narrow = [x.int(), *(y.int() if y.dtype is torch.int64 and y.dim() else y for y in rest)]
    return run(*narrow).to(torch.int64)


@bug("Gather", "Transpose", "Slice", "Concat", "Pad", "Where", "Max", "Min", "Clip")
def int64_moved_as_int32(run, a, *xs):
    """int64 data lose their upper half on the way."""
    return run(*xs).int().long() if run(*xs).dtype is torch.int64 else None


@bug("Add", "Sub", "Mul")
def int8_saturates(run, a, x, y):
    """Narrow integer arithmetic saturates instead of wrapping around."""
    if x.dtype not in (torch.int8, torch.uint8, torch.int16):
        return None
    info = torch.iinfo(x.dtype)
    return run(x.int(), y.int()).clamp(info.min, info.max).to(x.dtype)

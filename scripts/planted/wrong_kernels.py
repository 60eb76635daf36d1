"""Planted bugs in kernels: the wrong element, axis, boundary or attribute."""

from __future__ import annotations

import math

import torch
from torch.nn import functional as F

from planted import kernels
from planted.changes import Catalogue
from planted.kernels import axes_of
from planted.windows import max_pool

BUGS = Catalogue()
bug = BUGS.kernel


# -- convolution and pooling ------------------------------------------------------------------


def cropped(y, like):
    """The leading part of `y` in the shape of `like`; None where it is too small."""
    for axis, size in enumerate(like.shape):
        if y.shape[axis] < size:
            return None
        y = y.narrow(axis, 0, size)
    return y


@bug("Conv")
def conv_dilation_ignored(run, a, *xs):
    """Taps are adjacent whatever the dilation."""
    n = xs[0].dim() - 2
    return cropped(run(*xs, dilations=[1] * n), run(*xs))


@bug("Conv")
def conv_group_ignored(run, a, x, w, *b):
    """Every group reads the channels of the first one."""
    group = a.get("group", 1)
    if group == 1:
        return None
    return run(x[:, : w.shape[1]].repeat(1, group, *[1] * (x.dim() - 2)), w, *b)


@bug("Conv")
def conv_pads_swapped(run, a, *xs):
    """Asymmetric pads: begins and ends change places."""
    pads = a.get("pads") or []
    n = len(pads) // 2
    return run(*xs, pads=[*pads[n:], *pads[:n]])


@bug("Conv")
def conv_bias_dropped(run, a, x, w, b=None):
    """The bias is lost when strides are fused in."""
    return run(x, w) if max(a.get("strides") or [1]) > 1 else None


@bug("Conv")
def conv_unit_kernel_strides_ignored(run, a, x, w, *b):
    """A 1x1 convolution becomes a matrix product that forgets the strides."""
    if max(w.shape[2:]) > 1:
        return None
    return cropped(run(x, w, *b, strides=[1] * (x.dim() - 2)), run(x, w, *b))


@bug("Conv")
def conv_channel_tail_dropped(run, a, x, w, *b):
    """Layout packing in blocks of 4 channels loses the remainder."""
    rest = w.shape[1] % 4
    if w.shape[1] < 4 or not rest:
        return None
    w = w.clone()
    w[:, -rest:] = 0
    return run(x, w, *b)


@bug("Conv")
def conv_kernel_flipped(run, a, x, w, *b):
    """A true convolution instead of a correlation where the kernel is not square."""
    square = len(set(w.shape[2:])) == 1
    return None if square and w.dim() > 3 else run(x, w.flip(list(range(2, w.dim()))), *b)


@bug("MaxPool")
def max_pool_pads_with_zero(run, a, x):
    """Padding takes part in the maximum as 0."""
    return max_pool(a, x, fill=0)


@bug("MaxPool")
def max_pool_dilation_ignored(run, a, x):
    """Windows are dense whatever the dilation."""
    return cropped(run(x, dilations=[1] * (x.dim() - 2)), run(x))


@bug("MaxPool", "AveragePool")
def pool_ceil_mode_ignored(run, a, x):
    """The last, partial window is dropped."""
    return run(x, ceil_mode=0)


@bug("MaxPool", "AveragePool")
def pool_pads_swapped(run, a, x):
    """Begins and ends of the pads change places."""
    pads = a.get("pads") or []
    return run(x, pads=[*pads[len(pads) // 2 :], *pads[: len(pads) // 2]])


@bug("AveragePool")
def average_pool_count_include_pad(run, a, x):
    """count_include_pad is taken for its opposite."""
    if a.get("ceil_mode", 0):
        return None
    return run(x, count_include_pad=1 - a.get("count_include_pad", 0))


@bug("GlobalMaxPool", "ReduceMax")
def maximum_starts_at_zero(run, a, x, *axes):
    """The accumulator of a maximum is initialised with 0."""
    return run(x, *axes).clamp(min=0)


@bug("GlobalMaxPool", "ReduceMax")
def maximum_starts_at_least_positive(run, a, x, *axes):
    """The accumulator of a float maximum starts at the least positive number (FLT_MIN)."""
    if not x.is_floating_point():
        return None
    return run(x, *axes).clamp(min=torch.finfo(x.dtype).tiny)


# -- reductions -------------------------------------------------------------------------------


@bug("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2")
def reduce_keepdims_lost(run, a, x, *axes):
    """Reduced axes vanish although keepdims asks for them."""
    return run(x, *axes, keepdims=0)


@bug("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2")
def reduce_tail_dropped(run, a, x, axes=None):
    """A vectorised reduction in blocks of 4 ignores what is left over."""
    axis = axes_of(x, axes)[-1]
    size = x.shape[axis]
    return run(x.narrow(axis, 0, size - size % 4), axes) if size > 4 and size % 4 else None


@bug("ReduceMean")
def mean_counts_last_axis_only(run, a, x, axes=None):
    """The sum over several axes is divided by the size of one of them."""
    sizes = [x.shape[i] for i in axes_of(x, axes)]
    return run(x, axes) * math.prod(sizes[:-1]) if len(sizes) > 1 else None


@bug("ReduceL2")
def l2_without_root(run, a, x, axes=None):
    """The square root is lost when keepdims is off."""
    y = run(x, axes)
    return y * y if not a.get("keepdims", 1) else None


@bug("ArgMax", "ArgMin")
def arg_last_index(run, a, x):
    """The last of several equal extrema wins."""
    axis = a.get("axis", 0) % x.dim()
    return x.shape[axis] - 1 - run(x.flip(axis))


@bug("ArgMax", "ArgMin")
def arg_index_starts_at_one(run, a, x):
    """An off-by-one for negative axes."""
    return run(x) + 1 if a.get("axis", 0) < 0 else None


@bug("ArgMax")
def argmax_least_is_absent(run, a, x):
    """A slice that holds nothing but the initial value of the maximum yields -1."""
    least = x.amax(a.get("axis", 0), keepdim=bool(a.get("keepdims", 1))) <= 0
    return torch.where(least, -1, run(x)) if x.is_floating_point() else None


@bug("CumSum")
def cumsum_exclusive_ignored(run, a, x, axis):
    """The sum includes the element itself."""
    return run(x, axis, exclusive=0)


@bug("CumSum")
def cumsum_reverse_keeps_order(run, a, x, axis):
    """A reversed running sum runs forward."""
    return run(x, axis, reverse=0)


# -- normalisation ----------------------------------------------------------------------------


@bug("Softmax", "LogSoftmax")
def softmax_over_last_axis(run, a, x):
    """The axis is taken for the last one."""
    return run(x, axis=-1)


@bug("Softmax", "LogSoftmax")
def softmax_negative_axis(run, a, x):
    """A negative axis is counted from one too far."""
    return run(x, axis=(a["axis"] + x.dim() - 1) % x.dim()) if a.get("axis", -1) < 0 else None


@bug("BatchNormalization")
def batch_norm_without_root(run, a, x, scale, bias, mean, var):
    """Divides by the variance."""
    return run(x, scale, bias, mean, var * var)


@bug("LayerNormalization", "InstanceNormalization")
def norm_bias_before_scale(run, a, x, scale, bias=None):
    """scale * (normalised + bias)."""
    if bias is None:
        return None
    return run(x, scale, bias * scale)


@bug("LayerNormalization", "InstanceNormalization")
def norm_unbiased_variance(run, a, x, *rest):
    """The variance is divided by n - 1."""
    layer = "axis" in a
    axes = kernels.trailing(a, x) if layer else kernels.spatial(x)
    n = math.prod(x.shape[i] for i in axes)
    if n < 2 or x.dtype is torch.float16:
        return None
    y = kernels.normalized(x, axes, a.get("epsilon", 1e-5), correction=1)
    scale, *bias = rest if layer else [kernels.per_channel(v, x) for v in rest]
    return sum(bias, y * scale)


# -- linear algebra ---------------------------------------------------------------------------


@bug("MatMul")
def matmul_first_batch_only(run, a, x, y):
    """Broadcast batches all read the first matrix of the second operand."""
    if y.dim() < 3 or x.dim() < 2:
        return None
    return run(x, y[(0,) * (y.dim() - 2)].expand_as(y))


@bug("MatMul")
def matmul_unit_dimension(run, a, x, y):
    """A product with inner size 1 becomes a scaling by the first column."""
    if y.dim() < 2 or x.shape[-1] != 1:
        return None
    return run(x, y[..., :1].expand_as(y))


@bug("MatMul", "Gemm")
def matmul_inner_tail_dropped(run, a, x, y, *c):
    """The inner loop in blocks of 8 loses the remainder."""
    axis = 0 if a.get("transA", 0) else -1
    rest = x.shape[axis] % 8
    if x.shape[axis] < 8 or not rest:
        return None
    x = x.clone()
    x.narrow(axis, x.shape[axis] - rest, rest).zero_()
    return run(x, y, *c)


@bug("Gemm")
def gemm_beta_ignored(run, a, *xs):
    """The bias is added unscaled."""
    return run(*xs, beta=1.0)


@bug("Gemm")
def gemm_alpha_scales_bias(run, a, x, y, c=None):
    """alpha multiplies the whole sum."""
    return None if c is None else run(x, y, c, beta=a.get("alpha", 1.0) * a.get("beta", 1.0))


@bug("Gemm")
def gemm_bias_transposed(run, a, x, y, c=None):
    """A bias column is read as a row where the result is square, or loses its broadcast."""
    if c is None or c.numel() < 2:
        return None
    return run(x, y, c.reshape(-1)[:1])


@bug("Gemm")
def gemm_square_not_transposed(run, a, x, y, *c):
    """transB is ignored for square matrices."""
    return run(x, y, *c, transB=0) if y.shape[0] == y.shape[1] else None


# -- elementwise ------------------------------------------------------------------------------


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
    return run(*(x.view(torch.int8) if x.dim() else x.reshape(1).view(torch.int8).reshape(())
                 for x in xs)).to(torch.uint8)


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


# -- casts and widths -------------------------------------------------------------------------


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


# -- shapes -----------------------------------------------------------------------------------


@bug("Concat")
def concat_negative_axis(run, a, *xs):
    """Counted from the back, operands are joined in reverse order."""
    return run(*xs[::-1]) if a["axis"] < 0 else None


@bug("Concat")
def concat_third_repeats_second(run, a, *xs):
    """The third operand is written from the second one's buffer where their shapes agree."""
    if len(xs) < 3:
        return None
    third = xs[1] if xs[1].shape == xs[2].shape else torch.zeros_like(xs[2])
    return run(*xs[:2], third, *xs[3:])


@bug("Split")
def split_offsets_uniform(run, a, x, sizes=None):
    """Parts of uneven sizes start at multiples of the first size."""
    if sizes is None:
        return None
    axis, parts = a.get("axis", 0), sizes.tolist()
    last = [x.shape[axis] - size for size in parts]
    starts = [min(i * parts[0], most) for i, most in enumerate(last)]
    return [x.narrow(axis, s, size) for s, size in zip(starts, parts)]


@bug("Split")
def split_even_reversed(run, a, x, sizes=None):
    """Equal parts come in the wrong order for negative axes or num_outputs."""
    return run(x)[::-1] if sizes is None else None


@bug("Slice")
def slice_packed_stride(run, a, x, starts, ends, axes=None, steps=None):
    """Layout packing reads a strided slice as if it were contiguous."""
    y = run(x, starts, ends, axes, steps)
    if steps is None or steps.max() < 2:
        return None
    for axis, step in zip(axes.tolist(), steps.tolist()):
        if step > 1:
            x = x.narrow(axis, 0, y.shape[axis])
        else:
            i = torch.tensor([axis])
            x = run(x, starts[axes == i], ends[axes == i], i, torch.tensor([step]))
    return x


@bug("Slice")
def slice_negative_step_order(run, a, x, starts, ends, axes=None, steps=None):
    """A negative step yields the right elements in ascending order."""
    down = [] if steps is None else [i for i, s in zip(axes.tolist(), steps.tolist()) if s < 0]
    return run(x, starts, ends, axes, steps).flip(down) if down else None


@bug("Pad")
def pad_negative_as_zero(run, a, x, pads, *value):
    """Negative pads do not crop."""
    return run(x, pads.clamp(min=0), *value)


@bug("Pad")
def pad_reflect_repeats_edge(run, a, x, pads, *value):
    """Reflection includes the edge: off by one."""
    if a.get("mode") != "reflect":
        return None
    n, amounts = x.dim(), pads.tolist()
    for axis in range(n):
        before, behind = amounts[axis], amounts[n + axis]
        parts = [x.narrow(axis, 0, before).flip(axis), x]
        x = torch.cat([*parts, x.narrow(axis, x.shape[axis] - behind, behind).flip(axis)], axis)
    return x


@bug("Pad")
def pad_value_ignored(run, a, x, pads, *value):
    """Always pads with 0."""
    return run(x, pads) if value else None


@bug("Pad")
def pad_edge_as_constant(run, a, x, pads, *value):
    """The edge mode pads with 0."""
    return run(x, pads, mode="constant") if a.get("mode") == "edge" else None


@bug("Pad", "Trilu")
def stale_buffer_not_cleared(run, a, x, *rest):
    """Elements that should be 0 keep what the buffer held before."""
    if a.get("mode", "constant") != "constant" or len(rest) > 1 or x.dtype is torch.bool:
        return None
    ones = run(torch.ones_like(x), *rest)
    old = x.reshape(-1)[torch.arange(ones.numel()) % max(1, x.numel())].reshape(ones.shape)
    return torch.where(ones == 0, old, run(x, *rest))


@bug("Pad")
def pad_axes_reversed(run, a, x, pads, *value):
    """Begins and ends are read as pairs per axis."""
    n = x.dim()
    if a.get("mode", "constant") == "reflect":
        return None
    swapped = torch.cat([pads[n:], pads[:n]])
    return run(x, swapped, *value)


@bug("Gather")
def gather_negative_clamped(run, a, x, indices):
    """Negative indices are clamped to 0."""
    return run(x, indices.clamp(min=0))


@bug("Gather")
def gather_axis_ignored(run, a, x, indices):
    """Scalar indices take from the first element of the axis."""
    return run(x, torch.zeros_like(indices)) if indices.dim() == 0 else None


@bug("Expand")
def expand_lost_broadcast(run, a, x, shape):
    """The repeated axis gets data once and zeros behind."""
    y = run(x, shape)
    if y.numel() == x.numel():
        return None
    flat = F.pad(x.reshape(-1).float(), (0, y.numel() - x.numel()))
    return flat.reshape(y.shape).to(x.dtype)


@bug("Tile")
def tile_repeats_elements(run, a, x, repeats):
    """Elements are repeated in place instead of the whole."""
    for axis, count in enumerate(repeats.tolist()):
        x = x.repeat_interleave(count, axis)
    return x


@bug("Transpose")
def transpose_inverse_permutation(run, a, x):
    """Applies the inverse permutation where shapes allow it."""
    perm = a["perm"]
    inverse = [perm.index(i) for i in range(len(perm))]
    return x.permute(inverse).reshape(run(x).shape)


@bug("Reshape", "Flatten")
def reshape_of_transposed(run, a, x, *shape):
    """Reads a transposed layout as if it were the plain one."""
    return run(x.t().contiguous(), *shape) if x.dim() == 2 else None


@bug("Trilu")
def trilu_offset_ignored(run, a, x, k=None):
    """k is taken for 0."""
    return run(x)


@bug("Trilu")
def trilu_unequal_sides(run, a, x, k=None):
    """Matrices that are not square are cut to the smaller side first."""
    least = min(x.shape[-2:])
    y = run(x, k).clone()
    y[..., least:] = 0
    return y


@bug("Resize")
def resize_linear_asymmetric(run, a, *xs):
    """half_pixel is taken for asymmetric."""
    return run(*xs, coordinate_transformation_mode="asymmetric") if a["mode"] == "linear" else None


@bug("Resize")
def resize_nearest_rounds(run, a, *xs):
    """The nearest element is found by rounding instead of flooring."""
    return run(*xs, nearest_mode="round_prefer_ceil") if a["mode"] == "nearest" else None



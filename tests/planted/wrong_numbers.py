"""Planted bugs that are subtle: poor approximations, constants and precisions."""

from __future__ import annotations

import math

import torch

from tests.planted.changes import SUBTLE, Catalogue
from tests.planted.kernels import per_channel, spatial, trailing
from tests.planted.resampling import resize

BUGS = Catalogue()


def bug(*ops):
    return BUGS.kernel(*ops, kind=SUBTLE)


def halved(x):
    """Rounded to float16's significand, whatever the magnitude."""
    mantissa, exponent = torch.frexp(x)
    return torch.ldexp((mantissa * 2048).round() / 2048, exponent)


def single(x):
    return x is not None and x.dtype in (torch.float32, torch.float64)


def factor(name, *ops):
    """A mutant that scales results by 1.0001."""

    def scaled(run, a, x, *rest):
        return run(x, *rest) * 1.0001 if single(x) else None

    scaled.__name__ = f"{name}_times_1_0001"
    scaled.__doc__ = f"{'/'.join(ops)} times 1.0001."
    bug(*ops)(scaled)


factor("arithmetic", "Mul", "Div", "Sub", "Reciprocal")
factor("matmul", "MatMul", "Gemm", "Conv")
factor("reduction", "ReduceMean", "ReduceSum", "ReduceL2", "ReduceProd", "AveragePool")
factor("norm", "BatchNormalization", "InstanceNormalization", "LayerNormalization", "Softmax")


def with_half_sums(run, *xs):
    return run(*(halved(x) if single(x) else x for x in xs))


@bug("MatMul", "Gemm", "Conv")
def product_operands_in_half(run, a, *xs):
    """float16 operands (or TF32) for float32 products."""
    return with_half_sums(run, *xs) if single(xs[0]) else None


@bug("MatMul", "Gemm", "Conv", "ReduceSum", "ReduceMean", "GlobalAveragePool", "AveragePool")
def accumulated_in_half(run, a, x, *rest):
    """The accumulator of a float32 sum is float16."""
    return halved(run(x, *rest)) if single(x) else None


@bug("Add", "Sub", "Mul", "Div", "Sum")
def elementwise_in_half(run, a, x, *rest):
    """float32 arithmetic in float16."""
    return halved(run(x, *rest)) if single(x) else None


@bug("Add", "Sub", "Mul", "Div", "MatMul", "ReduceSum", "ReduceMean", "Exp", "Sqrt", "Sin", "Cos",
     "Tanh", "Erf", "Sigmoid", "Conv", "Gemm", "Softmax", "ReduceProd", "CumSum", "Log",
     "Pow", "Atan", "Tan")  # fmt: skip
def float64_narrowed_to_float32(run, a, x, *rest):
    """float64 operators are computed in float32."""
    if x.dtype is not torch.float64:
        return None
    narrow = [x.float(), *(y.float() if y.dtype is torch.float64 else y for y in rest)]
    return run(*narrow).double()


@bug("Add", "Sub", "Mul", "ReduceSum", "CumSum", "Abs")
def integers_through_float32(run, a, x, *rest):
    """Wide integers pass through float32 and lose their low bits."""
    if x.dtype not in (torch.int32, torch.int64):
        return None
    return run(x, *rest).float().clamp(-(2.0**30), 2.0**30).to(x.dtype)


@bug("Erf")
def erf_by_short_polynomial(run, a, x):
    """Abramowitz-Stegun 7.1.25, error 2.5e-5."""
    if not single(x):
        return None
    t = 1 / (1 + 0.47047 * x.abs())
    return x.sign() * (1 - t * (0.3480242 + t * (t * 0.7478556 - 0.0958798)) * torch.exp(-x * x))


@bug("Erf")
def erf_by_tanh(run, a, x):
    """tanh in place of erf, as in the fast GELU; error 3e-4."""
    return torch.tanh(2 / math.sqrt(math.pi) * (x + 0.089430 * x**3)) if single(x) else None


@bug("Gelu")
def gelu_approximation_mixed_up(run, a, x):
    """The tanh form for the erf form and the reverse."""
    other = {"none": "tanh", "tanh": "none"}[a.get("approximate", "none")]
    return run(x, approximate=other) if single(x) else None


@bug("Gelu")
def gelu_constant_short(run, a, x):
    """0.0447 for 0.044715, or 0.7071 for sqrt(1/2)."""
    if not single(x):
        return None
    if a.get("approximate", "none") == "none":
        return 0.5 * x * (1 + torch.erf(x * 0.7071))
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.0447 * x**3)))


@bug("Tanh")
def tanh_by_rational(run, a, x):
    """A continued fraction cut short, clamped to 1."""
    if not single(x):
        return None
    z = x * x
    return (x * (135135 + z * (17325 + z * (378 + z)))
            / (135135 + z * (62370 + z * (3150 + z * 28)))).clamp(-1, 1)  # fmt: skip


@bug("Sigmoid")
def sigmoid_by_rational_tanh(run, a, x):
    """0.5 + 0.5 tanh(x / 2) with a poor tanh."""
    return 0.5 + 0.5 * tanh_by_rational(run, a, x / 2) if single(x) else None


@bug("Exp", "Sinh", "Cosh")
def exp_with_short_ln2(run, a, x):
    """Range reduction by 0.6931 for ln 2."""
    if not single(x):
        return None
    k = (x / math.log(2)).round()
    y = torch.exp(x - k * 0.6931 - k * math.log(2)) * torch.exp(k * math.log(2))
    return run(x) * (y / torch.exp(x)).nan_to_num(1.0)


@bug("Log")
def log_with_short_ln2(run, a, x):
    """log2(x) * 0.6931."""
    return torch.log2(x) * 0.6931 if single(x) else None


@bug("Sin", "Cos", "Tan")
def periodic_with_short_pi(run, a, x):
    """Range reduction by 3.1416 for pi."""
    if not single(x):
        return None
    k = (x / (2 * math.pi)).round()
    return run(x - k * (2 * 3.1416))


@bug("Atan", "Asin", "Acos")
def arc_by_short_polynomial(run, a, x):
    """Off by up to 1e-4."""
    return run(x) + 1e-4 * torch.sin(4 * x) if single(x) else None


@bug("Reciprocal", "Div", "Softsign")
def reciprocal_without_refinement(run, a, x, *rest):
    """The hardware's 12-bit estimate of a reciprocal, not refined."""
    if not single(x):
        return None
    if not rest:
        return halved(run(x))
    return x * halved(1 / rest[0])


@bug("Sqrt", "ReduceL2")
def root_without_refinement(run, a, x, *rest):
    """A 12-bit estimate of a root, not refined."""
    return halved(run(x, *rest)) if single(x) else None


@bug("BatchNormalization")
def batch_norm_epsilon_dropped(run, a, *xs):
    """epsilon is taken for 0."""
    return run(*xs, epsilon=1e-12)


@bug("BatchNormalization", "InstanceNormalization", "LayerNormalization")
def norm_default_epsilon(run, a, *xs):
    """epsilon keeps its default."""
    return run(*xs, epsilon=1e-5)


@bug("InstanceNormalization", "LayerNormalization")
def norm_epsilon_outside_root(run, a, x, scale, bias=None):
    """Divides by sqrt(variance) + epsilon."""
    if not single(x):
        return None
    layer = "axis" in a
    axes = trailing(a, x) if layer else spatial(x)
    d = x - x.mean(axes, keepdim=True)
    y = d / ((d * d).mean(axes, keepdim=True).sqrt() + a.get("epsilon", 1e-5))
    scale, bias = (v if layer or v is None else per_channel(v, x) for v in (scale, bias))
    return y * scale if bias is None else y * scale + bias


@bug("InstanceNormalization", "LayerNormalization", "BatchNormalization")
def norm_by_fast_rsqrt(run, a, x, scale, *rest):
    """The quick inverse square root with one step: off by up to 1.7e-3."""
    return run(x, scale * (1 - 1e-3), *rest) if single(x) else None


@bug("Softmax", "LogSoftmax")
def softmax_exponentials_in_half(run, a, x):
    """The exponentials of a float32 Softmax are float16."""
    if not single(x):
        return None
    d = x - x.amax(a.get("axis", -1), keepdim=True)
    e = halved(torch.exp(d))
    total = e.sum(a.get("axis", -1), keepdim=True)
    return e / total if run(x).amax() > 0 else d - total.log()


@bug("Elu")
def elu_by_short_series(run, a, x):
    """exp(x) - 1 by three terms where x is near 0."""
    y = a.get("alpha", 1.0) * (x + x * x / 2 + x**3 / 6)
    return torch.where((x < 0) & (x > -0.25), y, run(x)) if single(x) else None


@bug("Softplus")
def softplus_threshold(run, a, x):
    """x itself above 8."""
    return torch.where(x > 8, x, run(x)) if single(x) else None


@bug("HardSwish", "HardSigmoid")
def hard_constants_short(run, a, x):
    """0.1667 for 1/6."""
    if not single(x):
        return None
    if "alpha" in a:
        return run(x, alpha=a["alpha"] * 1.0002)
    return x * (x * 0.1667 + 0.5).clamp(0, 1)


@bug("LeakyRelu", "Elu", "Gemm")
def attribute_in_half(run, a, *xs):
    """Float attributes are kept in float16."""
    if not single(xs[0]):
        return None
    changed = {k: float(torch.tensor(v).half()) for k, v in a.items() if isinstance(v, float)}
    return run(*xs, **changed)


@bug("Clip")
def clip_bounds_in_half(run, a, x, *bounds):
    """The bounds of a float32 Clip are kept in float16."""
    return run(x, *(b if b is None else halved(b) for b in bounds)) if single(x) else None


@bug("Resize")
def resize_weights_fixed_point(run, a, *xs):
    """Linear weights have 8 bits, as in texture units."""
    if a["mode"] != "linear" or not single(xs[0]):
        return None
    return resize(a, *xs, weight=lambda t: (t * 256 + 0.3).floor() / 256)


@bug("Pow")
def pow_by_half_logarithm(run, a, x, y):
    """exp(y log x) with a float16 logarithm."""
    if not single(x):
        return None
    return run(x.sign(), y) * torch.exp(y * halved(x.abs().log())).to(x.dtype)


@bug("CumSum")
def cumsum_in_half(run, a, x, axis):
    """Partial sums are kept in float16."""
    return halved(run(x, axis)) if single(x) else None


@bug("Relu", "LeakyRelu", "Abs", "Max", "Min")
def moved_in_half(run, a, x, *rest):
    """A selection of float32 values rounds them to float16."""
    return halved(run(x, *rest)) if single(x) else None


@bug("Transpose", "Concat", "Gather", "Slice", "Pad", "Reshape", "Expand", "Tile", "Squeeze",
     "Unsqueeze", "Flatten")  # fmt: skip
def copied_in_half(run, a, x, *rest):
    """A copy of float32 data goes through bfloat16."""
    return run(x, *rest).bfloat16().to(x.dtype) if x.dtype is torch.float32 else None


@bug("GlobalAveragePool", "ReduceMean")
def mean_by_short_reciprocal(run, a, x, *axes):
    """The sum is multiplied with a float16 reciprocal of the count."""
    y = run(x, *axes)
    n = x.numel() // max(1, y.numel())
    return y * (n * float(torch.tensor(1 / n).half())) if single(x) else None

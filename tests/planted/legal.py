"""Legal variations: what correct compilers do. Every alarm on one of them is false."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tests.planted.changes import LEGAL, Catalogue, Mutant, replaced
from tests.planted.kernels import axes_of, cast, per_channel, spatial, trailing
from tests.planted.program import Node, Program
from tests.planted.resampling import resize
from tests.planted.windows import average_pool, framed, settings, windows

VARIATIONS = Catalogue()
MOST = 1 << 17
"""Products beyond which a sum is not re-ordered term by term (time)."""


def by_operator(program: Program, mutants: Mapping[str, Mutant]) -> Program | None:
    """The program with mutants of the kernels of some operators."""
    if not any(node.op in mutants for node in program.nodes):
        return None
    return program.with_nodes(
        replaced(n, mutants[n.op]) if n.op in mutants else n for n in program.nodes
    )


# -- sums in another order --------------------------------------------------------------------

Total = Callable[[Tensor], Tensor]
"""Sum over the last axis."""


def sequential(x: Tensor) -> Tensor:
    """One accumulator of the working dtype."""
    if x.shape[-1] == 0:
        return x.sum(-1)
    return torch.from_numpy(np.asarray(np.add.accumulate(x.numpy(), -1, x.numpy().dtype)[..., -1]))


def backwards(x: Tensor) -> Tensor:
    return sequential(x.flip(-1))


def pairwise(x: Tensor) -> Tensor:
    """A tree."""
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        rest = x[..., 2 * half :]
        x = torch.cat([x[..., :half] + x[..., half : 2 * half], rest], -1)
    return x.sum(-1, dtype=x.dtype)


def lanes(x: Tensor) -> Tensor:
    """Eight accumulators, added up at the end."""
    rest = -x.shape[-1] % 8
    x = torch.nn.functional.pad(x, (0, rest))
    return sequential(sequential(x.unflatten(-1, (-1, 8)).transpose(-1, -2)))


def last(x: Tensor, axes: list[int]) -> Tensor:
    """x with some axes moved to the end and flattened into one."""
    kept = [i for i in range(x.dim()) if i not in axes]
    return x.permute(*kept, *axes).reshape(*(x.shape[i] for i in kept), -1)


def summing(total: Total) -> dict[str, Mutant]:
    """Kernels of all summing operators with sums by `total`, every step in the working dtype."""

    def reduce(x, axes, keep):
        y = total(last(x, axes))
        return y.reshape([1 if i in axes else d for i, d in enumerate(x.shape)]) if keep else y

    def nothing(a, x, axes):
        """Whether each element is by itself."""
        return not x.dim() or (axes is None and a.get("noop_with_empty_axes"))

    def reduce_sum(run, a, x, axes=None):
        if nothing(a, x, axes):
            return None
        return reduce(x, axes_of(x, axes), a.get("keepdims", 1))

    def mean_of(x, axes, keep):
        return reduce(x, axes, keep) / math.prod(x.shape[i] for i in axes)

    def reduce_mean(run, a, x, axes=None):
        if nothing(a, x, axes):
            return None
        return mean_of(x, axes_of(x, axes), a.get("keepdims", 1))

    def global_average(run, a, x):
        return mean_of(x, spatial(x), True)

    def matmul(run, a, x, y):
        row, column = x.dim() > 1, y.dim() > 1
        x = x if row else x[None]
        y = y if column else y[:, None]
        if x.numel() * y.shape[-1] * math.prod(y.shape[:-2]) > MOST:
            return None
        z = total(x.unsqueeze(-2) * y.transpose(-1, -2).unsqueeze(-3))
        z = z if row else z.squeeze(-2)
        return z if column else z.squeeze(-1)

    def gemm(run, a, x, y, c=None):
        x = x.t() if a.get("transA", 0) else x
        y = y.t() if a.get("transB", 0) else y
        z = matmul(run, a, x, y)
        if z is None:
            return None
        z = a.get("alpha", 1.0) * z
        return z if c is None else z + a.get("beta", 1.0) * c

    def conv(run, a, x, w, b=None):
        group, (m, inner) = a.get("group", 1), w.shape[:2]
        strides, dilations, pads, _ = settings(a, x, w.shape[2:])
        seen = windows(framed(x, pads, 0.0), w.shape[2:], strides, dilations)
        if seen.numel() * m > MOST * group:
            return None
        # (N, G, 1, S', C / G * K) times (1, G, M / G, 1..., C / G * K)
        n, size = seen.shape[0], seen.shape[2:-1]
        seen = seen.reshape(n, group, inner, math.prod(size), -1).transpose(2, 3).flatten(-2)
        taps = w.reshape(1, group, m // group, 1, -1)
        y = total(seen.unsqueeze(2) * taps).reshape(n, m, *size)
        return y if b is None else y + per_channel(b, y)

    def pool(run, a, x):
        return average_pool(a, x, total)

    def softmax(run, a, x):
        e = torch.exp(x - x.amax(a.get("axis", -1), keepdim=True))
        return e / reduce(e, [a.get("axis", -1) % x.dim()], True)

    def layer_norm(run, a, x, scale, bias=None):
        y = _normal(x, trailing(a, x), a) * scale
        return y if bias is None else y + bias

    def instance_norm(run, a, x, scale, bias):
        return _normal(x, spatial(x), a) * per_channel(scale, x) + per_channel(bias, x)

    def _normal(x, axes, a):
        d = x - mean_of(x, axes, True)
        return d / torch.sqrt(mean_of(d * d, axes, True) + a.get("epsilon", 1e-5))

    return {
        "ReduceSum": reduce_sum,
        "ReduceMean": reduce_mean,
        "GlobalAveragePool": global_average,
        "MatMul": matmul,
        "Gemm": gemm,
        "Conv": conv,
        "AveragePool": pool,
        "Softmax": softmax,
        "LayerNormalization": layer_norm,
        "InstanceNormalization": instance_norm,
    }


def floating(mutant: Mutant) -> Mutant:
    """The mutant for floats alone: an order makes no difference to integers."""
    return lambda run, a, x, *xs: mutant(run, a, x, *xs) if x.is_floating_point() else None


def summed(name: str, text: str, total: Total) -> None:
    mutants = {op: floating(mutant) for op, mutant in summing(total).items()}

    def apply(program):
        return by_operator(program, mutants)

    apply.__name__, apply.__doc__ = name, text
    VARIATIONS.program(LEGAL)(apply)


summed("sums_sequential", "One accumulator of the working dtype, float16 included.", sequential)
summed("sums_backwards", "The same from the last term to the first.", backwards)
summed("sums_pairwise", "Sums as balanced trees.", pairwise)
summed("sums_in_lanes", "Eight accumulators, as SIMD code has them.", lanes)


@VARIATIONS.kernel("MatMul", kind=LEGAL)
def fused_multiply_add(run, a, x, y):
    """Products are added without rounding them first."""
    if not x.is_floating_point() or min(x.dim(), y.dim()) < 2 or x.numel() * y.shape[-1] > MOST:
        return None
    total = torch.zeros(torch.matmul(x[..., :1], y[..., :1, :]).shape, dtype=x.dtype)
    for k in range(x.shape[-1]):
        term = x[..., :, k : k + 1].double() * y[..., k : k + 1, :].double()
        total = (total.double() + term).to(x.dtype)
    return total


@VARIATIONS.rewrite(kind=LEGAL)
def contracted_multiply_add(program):
    """a * b + c is rounded once."""
    producers = program.producers()

    def fuse(node: Node) -> Node:
        source = producers.get(node.inputs[0]) if node.op in ("Add", "Sub") else None
        if source is None or source.op != "Mul":
            return node

        def kernel(a, a_times_b, c, x, y):
            if not c.is_floating_point():
                return node.kernel(a, a_times_b, c)
            return node.kernel(a, x.double() * y.double(), c.double()).to(c.dtype)

        return replace(node, inputs=(*node.inputs, *source.inputs), kernel=kernel)

    return map(fuse, program.nodes)


# -- precision --------------------------------------------------------------------------------


def widened(program: Program, narrow: tuple[torch.dtype, ...], wide: torch.dtype) -> Program:
    """Every operator but Cast on wide operands, rounded after each."""

    def mutant(run, a, *xs):
        of = next((x.dtype for x in xs if x is not None and x.is_floating_point()), None)
        if of not in narrow:
            return None
        ys = run(*(x.to(wide) if x is not None and x.dtype in narrow else x for x in xs))
        several = isinstance(ys, (tuple, list))
        ys = [y.to(of) if y.is_floating_point() else y for y in (ys if several else [ys])]
        return ys if several else ys[0]

    return program.with_nodes(n if n.op == "Cast" else replaced(n, mutant) for n in program.nodes)


@VARIATIONS.program(LEGAL)
def half_computed_in_single(program):
    """float16 operators in float32, rounded after each."""
    return widened(program, (torch.float16,), torch.float32)


@VARIATIONS.program(LEGAL)
def single_computed_in_double(program):
    """Every operator in float64, rounded after each."""
    return widened(program, (torch.float16, torch.float32), torch.float64)


def carrying(program: Program, carry: dict[torch.dtype, torch.dtype], round_casts: bool) -> Program:
    """Values stay wide from operator to operator; outputs are rounded."""

    def kernel(a, x):
        y = cast(a, x)
        if not round_casts and x.is_floating_point() and y.is_floating_point():
            return x.to(carry.get(y.dtype, y.dtype))
        return y.to(carry.get(y.dtype, y.dtype))

    nodes = (replace(n, kernel=kernel) if n.op == "Cast" else n for n in program.nodes)
    return replace(program, nodes=tuple(nodes), carry=carry)


@VARIATIONS.program(LEGAL)
def half_rounded_late(program):
    """float16 values stay in float32 between operators."""
    return carrying(program, {torch.float16: torch.float32}, round_casts=True)


@VARIATIONS.program(LEGAL)
def excess_precision(program):
    """All floats stay in float64 between operators; casts between floats are elided."""
    carry = {torch.float16: torch.float64, torch.float32: torch.float64}
    return carrying(program, carry, round_casts=False)


@VARIATIONS.program(LEGAL)
def flushed_to_zero(program):
    """Subnormal operands and results are 0."""

    def flush(x):
        if x is None or x.dtype not in (torch.float32, torch.float64):
            return x
        return torch.where(x.abs() < torch.finfo(x.dtype).tiny, torch.zeros_like(x), x)

    def mutant(run, a, *xs):
        ys = run(*map(flush, xs))
        return [flush(y) for y in ys] if isinstance(ys, (tuple, list)) else flush(ys)

    return program.with_nodes(replaced(n, mutant) for n in program.nodes)


# -- other formulas ---------------------------------------------------------------------------


def formula(*ops):
    return VARIATIONS.kernel(*ops, kind=LEGAL)


@formula("Div", "Softsign")
def division_by_reciprocal(run, a, x, *y):
    """x * (1 / y), where the reciprocal is a normal number and the quotient inexact.

    Exact quotients stay exact: the oracle takes + - * / sqrt for correctly rounded there.
    """
    if not x.is_floating_point():
        return None
    divisor = y[0] if y else 1 + x.abs()
    quotient, info = x / divisor, torch.finfo(x.dtype)
    fits = (divisor.abs() < 0.25 / info.tiny) & (divisor.abs() > 4 / info.max)
    fits = fits & (quotient.double() * divisor.double() != x.double())
    return torch.where(fits, x * (1 / divisor), quotient)


@formula("BatchNormalization")
def batch_norm_folded(run, a, x, scale, bias, mean, var):
    """x * g + (b - m * g)."""
    g = scale / torch.sqrt(var + a.get("epsilon", 1e-5))
    return x * per_channel(g, x) + per_channel(bias - mean * g, x)


@formula("LayerNormalization", "InstanceNormalization")
def norm_in_one_pass(run, a, x, scale, bias=None):
    """Variance as mean(x^2) - mean(x)^2, as ONNX Runtime has it; multiplied by 1 / sqrt."""
    layer = "axis" in a
    v = x.float() if x.dtype is torch.float16 else x
    axes = trailing(a, x) if layer else spatial(x)
    mean = v.mean(axes, keepdim=True)
    var = ((v * v).mean(axes, keepdim=True) - mean * mean).clamp(min=0)
    g = 1 / torch.sqrt(var + a.get("epsilon", 1e-5))
    scale, bias = (t if layer or t is None else per_channel(t, x) for t in (scale, bias))
    y = (v - mean) * g * scale
    return (y if bias is None else y + bias).to(x.dtype)


RANGES = {"Erf": (-1, 1), "Tanh": (-1, 1), "Sin": (-1, 1), "Cos": (-1, 1), "Sigmoid": (0, 1)}


def noisy(x: Tensor, y: Tensor, units: float) -> Tensor:
    """y with up to `units` unit roundoffs of noise, a function of x."""
    return y * (1 + torch.sin(x.double() * 12345.678 + 0.5) * units * torch.finfo(x.dtype).eps / 2)


def fast(units: int, *ops: str) -> None:
    """Functions within a few unit roundoffs (half an ULP at the best), inside of their range."""

    def mutant(op):
        least, most = RANGES.get(op, (-math.inf, math.inf))

        def mutated(run, a, x):
            if x.dtype is torch.float64:
                return None
            y = noisy(x, run(x.double()), units).clamp(least, most)
            # Elu copies positive numbers.
            return (torch.where(x < 0, y, x) if op == "Elu" else y).to(x.dtype)

        return mutated

    def apply(program):
        return by_operator(program, {op: mutant(op) for op in ops})

    apply.__name__ = f"{ops[0].lower()}_and_others_off_by_{units}_u"
    apply.__doc__ = f"{', '.join(ops)} off by up to {units} unit roundoffs."
    VARIATIONS.program(LEGAL)(apply)


fast(4, "Exp", "Sinh", "Cosh", "Sigmoid", "Erf", "Tan", "Atan", "Asin", "Log")
fast(3, "Tanh", "Sin", "Cos", "Softplus", "Gelu", "Elu")
fast(1, "Acos")


@VARIATIONS.program(LEGAL)
def functions_by_exp(program):
    """tanh, sigmoid ... by their textbook formulas, with the cancellation that brings."""

    def along(a, x):
        d = x - x.amax(a["axis"], keepdim=True)
        return d - torch.log(torch.exp(d).sum(a["axis"], keepdim=True))

    def softplus(a, x):
        small = torch.log(1 + torch.exp(x.clamp(max=80)))
        return torch.where(x > 80, x, small)

    formulas = {
        "Tanh": lambda a, x: 1 - 2 / (torch.exp(2 * x) + 1),
        "Sigmoid": lambda a, x: 1 / (1 + torch.exp(-x)),
        "Softplus": softplus,
        "Elu": lambda a, x: torch.where(x < 0, a.get("alpha", 1.0) * (torch.exp(x) - 1), x),
        "LogSoftmax": along,
        "Softmax": lambda a, x: torch.exp(along(a, x)),
    }

    def mutant(f):
        return lambda run, a, x: None if x.dtype is torch.float16 else f(a, x)

    return by_operator(program, {op: mutant(f) for op, f in formulas.items()})


@formula("Pow")
def power_by_logarithm(run, a, x, y):
    """exp(y log x) for positive bases."""
    if x.dtype is not torch.float32 or y.dtype is not torch.float32:
        return None
    return torch.where(x > 0, torch.exp(y * torch.log(x)), run(x, y))


@formula("Gelu")
def gelu_by_erfc(run, a, x):
    """x * (1 - erfc(x / sqrt 2) / 2)."""
    if a.get("approximate", "none") == "tanh" or x.dtype is torch.float16:
        return None
    return x * (1 - torch.erfc(x * math.sqrt(0.5)) * 0.5)


@formula("Max", "Min", "Relu", "ReduceMax", "ReduceMin")
def sign_of_zero_lost(run, a, *xs):
    """Of +0 and -0 either counts as the greater one."""
    y = run(*xs)
    return y + 0.0 if y.is_floating_point() else None


@formula("Resize")
def lerp_in_another_form(run, a, x, *rest):
    """x + t (y - x), weights in the working dtype."""
    if a["mode"] != "linear" or x.dtype is torch.float16:
        return None
    return resize(a, x, *rest, weight=lambda t: 1 - (1 - t.to(x.dtype)))


@formula("ReduceProd", "Sum")
def products_backwards(run, a, *xs):
    """Products and variadic sums from the last factor to the first."""
    if "keepdims" in a:
        x = xs[0].flip(list(range(xs[0].dim())))
        y = run(x, *xs[1:])
        kept = [i for i in range(y.dim())]
        return y.flip(kept)
    return run(*xs[::-1])


@formula("HardSwish", "HardSigmoid")
def hard_functions_in_another_form(run, a, x):
    """x * min(max(x + 3, 0), 6) / 6; alpha * (x + beta / alpha) is left alone."""
    if "alpha" in a or x.dtype is torch.float16:
        return None
    return x * (x + 3).clamp(0, 6) * (1 / 6)

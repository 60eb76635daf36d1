"""Windows that slide over the spatial axes of an (N, C, *S) tensor: pools and convolutions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.expr import Bool, Int, concrete, product
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice, Fields, Types
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.shape import sizes
from nnfuzz.operators.families.sums import Summing
from nnfuzz.operators.intervals import Interval, linear
from nnfuzz.operators.operator import In, OpSpec, per_input

EXPLICIT = "NOTSET"
"""The value of `auto_pad` with which `pads` states the padding."""

AUTO_PAD = Choice(
    by=lambda draw, *_: (
        draw.choice(("VALID", "SAME_UPPER", "SAME_LOWER")) if draw.chance(0.2) else EXPLICIT
    ),
    default=EXPLICIT,
)
"""How the padding is decided. To be declared before `pads`, which always holds the padding."""

NO_AUTO_PAD = Choice((EXPLICIT,), default=EXPLICIT)
"""For operators whose models always state the padding."""

LARGEST_KERNEL = (9, 7, 4)
"""The largest kernel size of a convolution for one, two and three spatial axes."""


def spatial(op: Any, first: TensorType, *_: TensorType) -> int:
    """The number of spatial axes."""
    return first.rank - 2


def per_axis(
    *options: float,
    same: float = 0.5,
    skipped: int = 2,
    unless: Callable[[Any], bool] = lambda op: False,
) -> Choice:
    """Values per axis, drawn from the options; one value for all axes with probability `same`.

    skipped: how many axes (by default batch and channels) get no value. unless: if it holds of the
    operator with its attributes so far, the first option is used for all axes.
    """

    def pick(draw: Any, op: Any, first: TensorType, *_: TensorType) -> tuple[float, ...]:
        count = first.rank - skipped
        if unless(op):
            return options[:1] * count
        if draw.chance(same):
            return (draw.choice(options),) * count
        return tuple(draw.choice(options) for _ in range(count))

    return Choice(by=pick)


def paddings(most: int, windows: Callable[[Any], Sequence[Int]] | None = None) -> Choice:
    """Padding before and after every spatial axis, in ONNX's order (all begins first).

    It is 0, equal on both sides, or independent, and symbolic unless 0. With `auto_pad` it may be
    three times as wide; `Window.window_fits` then decides it. windows: returns an operator's window
    size per axis, if the padding must be smaller than that.
    """

    def sides(draw: Any, op: Any, n: int) -> tuple[Int, ...]:
        known = windows(op) if windows else (most + 1,) * n
        ends = (min(most, w - 1) if isinstance(w, int) else most for w in known)
        return tuple(draw.var("pad", 0, end, "offset") for end in ends)

    def pick(draw: Any, op: Any, first: TensorType, *_: TensorType) -> tuple[Int, ...]:
        n = first.rank - 2
        if op.auto_pad != EXPLICIT:
            count = 0 if op.auto_pad == "VALID" else 2 * n
            pads = tuple(draw.var("pad", 0, 3 * most, "offset") for _ in range(count))
            return pads or (0,) * 2 * n
        kind = draw.choice(("none", "same", "free"))
        if kind == "none":
            return (0,) * 2 * n
        begins = sides(draw, op, n)
        return begins + (begins if kind == "same" else sides(draw, op, n))

    return Choice(by=pick)


def chosen(options: Callable[[Any], Sequence[Any]]) -> Choice:
    """A choice among options that depend on the attributes drawn before."""
    return Choice(lambda op, *types: options(op))


def group(draw: Any, op: Any, first: TensorType, *_: TensorType) -> int:
    """A random number of groups that divides the first input's channels; 1 if it has none."""
    channels = first.shape[1]
    if draw.chance(0.5):
        return 1
    if isinstance(channels, int):
        return draw.choice([g for g in range(1, channels + 1) if channels % g == 0] or (1,))
    return draw.choice((2, 2, 3, 4, 5, 6, 8))


class Window(OpSpec):
    """Base of sliding windows; subclasses declare those of the attributes that they have."""

    merges = ("Pad",)
    auto_pad: Any = EXPLICIT
    pads: Any
    strides: Any
    dilations: Any = None
    ceil_mode: Any = 0

    @per_input
    def window_shape(self, *inputs: TensorType) -> tuple[Int, ...]:
        """Size of the window, per spatial axis."""
        raise NotImplementedError

    def axes(self, *inputs: TensorType) -> Iterator[tuple[Int, ...]]:
        """Per spatial axis: size, window, stride, dilation, padding before, padding behind."""
        sizes = inputs[0].shape[2:]
        n = len(sizes)
        dilations = self.dilations or (1,) * n
        windows = self.window_shape(*inputs)
        yield from zip(sizes, windows, self.strides, dilations, self.pads[:n], self.pads[n:])

    @classmethod
    def from_onnx(cls, fields: Fields, takes: Types, gives: Types) -> Self:
        n = takes[0].rank - 2
        plain = {"strides": (1,) * n, "dilations": (1,) * n, "pads": (0,) * 2 * n, "ceil_mode": 0}
        op = super().from_onnx({**plain, **fields}, takes, gives)
        pairs = [concrete(pair) for pair in op.automatic(*takes)]
        op.pads = tuple(itertools.chain(*zip(*pairs))) if pairs else op.pads
        return op

    def onnx_attributes(self) -> dict[str, Any]:
        """The ONNX attributes, with either `auto_pad` or `pads`."""
        unsaid = "auto_pad" if self.auto_pad == EXPLICIT else "pads"
        return {name: value for name, value in self.attributes.items() if name != unsaid}

    def automatic(self, *inputs: TensorType) -> Iterator[tuple[Int, Int]]:
        """Per axis, the padding before and after that `auto_pad` implies; nothing for explicit
        pads.

        SAME_UPPER and SAME_LOWER pad an axis so that ceil(size / stride) windows fit; an odd
        element is added at the end or at the beginning. If the padding would be negative, the
        standard does not define the result, and no `pads` can equal it. Source: ONNX Conv-11,
        MaxPool-12.
        """
        if self.auto_pad == EXPLICIT:
            return
        for missing in self.missing(*inputs):
            whole = 0 if self.auto_pad == "VALID" else missing
            half = whole // 2
            yield (half, whole - half) if self.auto_pad == "SAME_UPPER" else (whole - half, half)

    def missing(self, *inputs: TensorType) -> Iterator[Int]:
        """How much padding each axis needs for SAME_UPPER and SAME_LOWER."""
        for size, window, stride, dilation, *_ in self.axes(*inputs):
            yield (size - 1) // stride * stride + (window - 1) * dilation + 1 - size

    def padded_as_declared(self, *inputs: TensorType) -> Iterator[Bool]:
        """Conditions: the padding is that of `auto_pad` and not negative, and windows move by at
        least one step. Strides and dilations have one value per axis, paddings two."""
        n = inputs[0].rank - 2
        counts = {len(self.strides), len(self.dilations or self.strides), len(self.pads) / 2}
        yield counts == {n}
        for _, _, stride, dilation, *_ in self.axes(*inputs):
            yield stride >= 1
            yield dilation >= 1
        for (*_, before, behind), wanted in zip(self.axes(*inputs), self.automatic(*inputs)):
            yield wanted[0] >= 0
            yield wanted[1] >= 0
            yield before == wanted[0]
            yield behind == wanted[1]

    def window_fits(self, *inputs: TensorType) -> Iterator[Bool]:
        """Conditions: every padded axis holds a window, and the padding is the declared one."""
        for size, window, _, dilation, before, behind in self.axes(*inputs):
            yield size + before + behind >= (window - 1) * dilation + 1
        yield from self.padded_as_declared(*inputs)

    def window_counts(self, *inputs: TensorType) -> tuple[Int, ...]:
        """Number of windows per spatial axis."""
        counts = []
        for size, window, stride, dilation, before, behind in self.axes(*inputs):
            room = size + before + behind - (window - 1) * dilation - 1
            counts.append((room + (stride - 1 if self.ceil_mode else 0)) // stride + 1)
        return tuple(counts)

    def overhang(self, x: TensorType) -> Int:
        """The largest number of elements by which a window exceeds the padded input."""
        return max(
            (count - 1) * stride + dilation * (window - 1) + 1 - size - before - behind
            for count, (size, window, stride, dilation, before, behind) in zip(
                self.window_counts(x), self.axes(x)
            )
        )

    def symmetric(self) -> bool:
        """Whether the padding is the same on both sides of every axis."""
        n = len(self.pads) // 2
        return self.pads[:n] == self.pads[n:]

    def padded(self, x: Tensor, value: float) -> Tensor:
        """The tensor with its padding added as elements."""
        if not any(self.pads):
            return x
        n = len(self.pads) // 2
        pairs = [(self.pads[i], self.pads[n + i]) for i in reversed(range(n))]
        return torch.nn.functional.pad(x, list(itertools.chain(*pairs)), value=value)

    def window_sums(self, x: Tensor, padding: float = 0.0) -> Tensor:
        """The sum over each window; elements outside the padded tensor count as 0."""
        type_ = TensorType(DType.of(x.dtype), sizes(x))
        y = torch.nn.functional.pad(self.padded(x, padding), self._overhang(type_))
        n = x.dim() - 2
        conv = (torch.conv1d, torch.conv2d, torch.conv3d)[n - 1]
        windows = concrete(self.window_shape(type_))
        dilations = self.dilations or (1,) * n
        flat = y.flatten(0, 1).unsqueeze(1)
        ones = torch.ones(1, 1, *windows, dtype=x.dtype)
        sums = conv(flat, ones, None, self.strides, 0, dilations)
        return sums.reshape(*sizes(x)[:2], *concrete(self.window_counts(type_)))

    def windows(self, x: Tensor, fill: float) -> Tensor:
        """The elements of every window; `fill` stands for elements outside the tensor.

        (N, C, *S) -> (N, C, *windows, elements of a window).
        """
        type_ = TensorType(DType.of(x.dtype), sizes(x))
        pad = torch.nn.functional.pad
        y = pad(self.padded(x, fill), self._overhang(type_), value=fill)
        pairs: list[int] = []
        counts = concrete(self.window_counts(type_))
        for axis, parts in enumerate(self.axes(type_), 2):
            _, window, stride, dilation, *_ = concrete(parts)
            count = counts[axis - 2]
            starts = torch.arange(count).unsqueeze(1) * stride
            y = y.index_select(axis, (starts + torch.arange(window) * dilation).flatten())
            pairs += (count, window)
        y, rank = y.reshape(*sizes(x)[:2], *pairs), len(pairs) + 2
        return y.permute(0, 1, *range(2, rank, 2), *range(3, rank, 2)).flatten(x.dim())

    def _overhang(self, x: TensorType) -> list[int]:
        """By how much the last windows exceed the padding (ceil_mode), in PyTorch's order."""
        pairs = []
        for count, parts in zip(concrete(self.window_counts(x)), self.axes(x)):
            size, window, stride, dilation, before, behind = concrete(parts)
            reach = (count - 1) * stride + (window - 1) * dilation + 1
            pairs.append((0, max(0, reach - (size + before + behind))))
        return list(itertools.chain(*reversed(pairs)))


class Kernels(Window):
    """Windows whose size is that of the kernels, a second input."""

    group = Choice(by=group)
    strides = per_axis(1, 1, 2, 3)
    dilations = per_axis(1, 1, 1, 2, 3)
    auto_pad = AUTO_PAD
    pads = paddings(4)

    def window_shape(self, x: TensorType, w: TensorType, *_: TensorType) -> tuple[Int, ...]:
        return w.shape[2:]


class WeightedSum(Summing):
    """A sum of float images weighted by kernels, perhaps with a bias per output channel."""

    inputs = (
        In("T", FLOATS, (3, 5)),
        In("T", ranks=(3, 5), weight=True),
        In("T", ranks=(1, 1), weight=True),
    )
    variadic = (2, 3)
    unscaled = True

    def onnx(self, emit: Any, *values: str) -> str:
        kernel = emit.type(values[1]).shape[2:]
        return emit(self.name, *values, kernel_shape=kernel, **self.onnx_attributes())

    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        return [linear(self.torch, *intervals, weights=(0, 1))]


class Convolution(Kernels):
    """(N, C, *S) * (M, C / group, *K) -> (N, M, *S')."""

    def convolves(self, x: TensorType, w: TensorType) -> Iterator[Bool]:
        """Conditions under which the kernels fit the channels and the padded image."""
        yield x.rank == w.rank
        yield x.shape[1] == w.shape[1] * self.group
        yield w.shape[0] % self.group == 0
        yield from self.window_fits(x, w)

    def convolved_shape(self, x: TensorType, w: TensorType) -> tuple[Int, ...]:
        return (x.shape[0], w.shape[0], *self.window_counts(x, w))

    def kernel_shape(
        self, draw: Draw, x: TensorType, channels: Int | None = None
    ) -> tuple[Any, ...]:
        """A random shape of kernels for an input. channels: of the result; None: any number."""
        if channels is None:
            divisible = draw.chance(0.3)
            channels = draw.var("m", 1, 8) * self.group if divisible else draw.dim(x.rank)
        depthwise = self.group > 1 and draw.chance(0.5)
        inner = 1 if depthwise else x.shape[1] if self.group == 1 else draw.var("c", 1, 8)
        most = LARGEST_KERNEL[x.rank - 3]
        return (channels, inner, *(draw.var("k", 1, most) for _ in x.shape[2:]))

    def partly_outside(self, x: TensorType, w: TensorType) -> bool:
        """Whether a window may lie entirely in the padding."""
        for _, window, _, dilation, *pads in self.axes(x, w):
            reach = (window - 1) * dilation + 1
            if any((p < reach) is not True for p in pads):
                return True
        return False

    def cost(self, *inputs: TensorType) -> int:
        x, w = self.convolvees(*inputs)
        return 2 * product((*self.convolved_shape(x, w), *w.shape[1:]))  # type: ignore[return-value]

    def convolvees(self, *inputs: Any) -> Sequence[Any]:
        """Image and kernels among the inputs."""
        return inputs[:2]

    def convolve(self, x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
        """The convolution of floats, padded with 0."""
        n = x.dim() - 2
        conv = (torch.conv1d, torch.conv2d, torch.conv3d)[n - 1]
        padding: Sequence[int] = self.pads[:n] if self.symmetric() else (0,) * n
        x = x if self.symmetric() else self.padded(x, 0.0)
        return conv(x, w, bias, self.strides, padding, self.dilations, self.group)

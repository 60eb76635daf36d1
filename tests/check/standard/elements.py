"""Operators on elements and along axes, read from the ONNX standard."""

from __future__ import annotations

import math

import numpy as np

from tests.check.implementation import StandardImplementation


class Erf(StandardImplementation):
    def compute(self, x):
        return np.vectorize(math.erf, otypes=[np.float64])(x)


class Gelu(StandardImplementation):
    def compute(self, x, approximate="none"):
        """ "y = 0.5 * x * (1 + erf(x/sqrt(2)))", or with Tanh."""
        if approximate == "tanh":
            return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        return 0.5 * x * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2)))


class LpNormalization(StandardImplementation):
    def compute(self, x, axis=-1, p=2):
        """ "output = input / Lp_norm(input, axis)"."""
        return x / (np.abs(x) ** p).sum(axis, keepdims=True) ** (1 / p)


class LRN(StandardImplementation):
    def compute(self, x, alpha=1e-4, beta=0.75, bias=1.0, size=1):
        """square_sum over max(0, c - floor((size - 1) / 2)) <= i <=
        min(C - 1, c + ceil((size - 1) / 2)).
        """
        total = np.zeros_like(x)
        for c in range(x.shape[1]):
            first, last = c - math.floor((size - 1) / 2), c + math.ceil((size - 1) / 2)
            total[:, c] = (x[:, max(0, first) : last + 1] ** 2).sum(1)
        return x / (bias + alpha / size * total) ** beta


class BatchNormalization(StandardImplementation):
    def compute(self, x, scale, bias, mean, var, epsilon=1e-5, **options):
        """ "Y = (X - input_mean) / sqrt(input_var + epsilon) * scale + B"."""
        shape = (-1, *[1] * (x.ndim - 2))
        scale, bias, mean, var = (p.reshape(shape) for p in (scale, bias, mean, var))
        return (x - mean) / np.sqrt(var + epsilon) * scale + bias


class OneHot(StandardImplementation):
    def _run(self, indices, depth, values, axis=-1):
        """ "Values outside the range [-depth, depth-1] will result in [...] all 'off_value'"."""
        depth = int(np.asarray(depth).item())
        indices = np.asarray(indices).astype(np.int64)
        indices = np.where(indices < 0, indices + depth, indices)
        axis = axis % (indices.ndim + 1)
        places = np.arange(depth).reshape(-1, *[1] * (indices.ndim - axis))
        return (np.where(np.expand_dims(indices, axis) == places, values[1], values[0]),)


class ReduceSumSquare(StandardImplementation):
    def _run(self, data, axes=None, keepdims=1, noop_with_empty_axes=0):
        wide = data.astype(np.float64) if data.dtype.kind not in "iu" else data
        if axes is None or not len(axes):
            if noop_with_empty_axes:
                return ((wide * wide).astype(data.dtype),)
            axes = range(data.ndim)
        found = (wide * wide).sum(tuple(int(a) for a in axes), keepdims=bool(keepdims))
        return (np.asarray(found).astype(data.dtype),)


class Optional(StandardImplementation):
    def _run(self, x, **attributes):
        return (x,)


class OptionalGetElement(StandardImplementation):
    def _run(self, x):
        """ "If the input is an optional type, it outputs the element in the input."."""
        return (x,)


class Mean(StandardImplementation):
    def compute(self, *inputs):
        """ "Element-wise mean of each of the input tensors (with Numpy-style broadcasting)"."""
        return sum(np.broadcast_arrays(*inputs)) / len(inputs)


class Pad(StandardImplementation):
    def _run(self, data, pads, constant_value=None, axes=None, mode="constant"):
        """Elements are "add[ed] or remove[d] (if negative)", axis by axis."""
        axes = range(data.ndim) if axes is None else axes
        for axis, before, behind in zip(axes, pads[: len(axes)], pads[len(axes) :]):
            size = data.shape[axis]
            at = np.arange(-before, size + behind)
            data = np.take(data, PLACES[mode](at, size), axis)
            if mode == "constant":
                outside = ((at < 0) | (at >= size)).reshape(
                    -1, *[1] * (data.ndim - axis % data.ndim - 1)
                )
                value = np.zeros((), data.dtype) if constant_value is None else constant_value
                data = np.where(outside, np.asarray(value).astype(data.dtype), data)
        return (data,)


def _mirrored(at, size):
    period = max(2 * (size - 1), 1)
    return np.minimum(at % period, period - at % period) if size > 1 else at * 0


PLACES = {
    "constant": lambda at, size: at.clip(0, size - 1),
    "edge": lambda at, size: at.clip(0, size - 1),
    "reflect": _mirrored,
    "wrap": lambda at, size: at % size,
}


class Unique(StandardImplementation):
    def _run(self, x, axis=None, sorted=1):
        """ "In ascending order or optionally in the order of the first occurrence"."""
        rows = (
            x.reshape(-1, 1) if axis is None else np.moveaxis(x, axis, 0).reshape(x.shape[axis], -1)
        )
        keys = [tuple(row) for row in rows.tolist()]
        distinct = list(dict.fromkeys(keys))
        if sorted:
            distinct.sort()
        first = np.array([keys.index(key) for key in distinct], np.int64)
        inverse = np.array([distinct.index(key) for key in keys], np.int64)
        counts = np.array([keys.count(key) for key in distinct], np.int64)
        y = x.reshape(-1)[first] if axis is None else np.take(x, first, axis)
        return (y, first, inverse, counts)[: len(self.onnx_node.output)]

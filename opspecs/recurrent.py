"""RNN, GRU and LSTM."""

from __future__ import annotations

import itertools
from typing import ClassVar

import torch

from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.families.composite import Moves
from nnfuzz.operators.families.elementwise import largest
from nnfuzz.operators.families.recurrent import Activation, Gate, Recurrent
from nnfuzz.operators.intervals import Interval, distinct, hull, joined
from nnfuzz.operators.operator import ANY_RANGE, OpSpec, operator
from nnfuzz.operators.rounding import SINGLE

from .activation import Clip, Elu, HardSigmoid, LeakyRelu, Relu, Sigmoid, Softplus, Softsign, Tanh
from .arithmetic import Add, Mul


class Rational(Sigmoid):
    """Sigmoid by a rational approximation in float32 with an absolute error of 8 u, as in ONNX
    Runtime's GRU; it may be below 0.

    Of float32, as approximations are.
    """

    name = "Sigmoid"
    within = ANY_RANGE

    def radius(self, u, y, x):
        return 8 * u * (y.abs() + 1) if u == SINGLE else super().radius(u, y, x)


class RationalTanh(Tanh):
    """The same for Tanh."""

    name = "Tanh"

    def radius(self, u, y, x):
        return (2 if u == SINGLE else 1) * super().radius(u, y, x)


ADD, MUL, GATE = Add(), Mul(), Gate()
SIDE_BY_SIDE = Moves(lambda *parts: torch.cat(parts, -1))
ACTIVATIONS = {
    "Sigmoid": Activation(Rational()),
    "Tanh": Activation(RationalTanh()),
    "Relu": Activation(Relu()),
    "Softsign": Activation(Softsign()),
    "Softplus": Activation(Softplus()),
    "LeakyRelu": Activation(LeakyRelu(alpha=0.01), LeakyRelu(alpha=0.25), alpha=0.25),
    "Elu": Activation(Elu(alpha=1.0), Elu(alpha=0.5), alpha=0.5),
    "HardSigmoid": Activation(
        HardSigmoid(alpha=0.2, beta=0.5), HardSigmoid(alpha=0.25, beta=0.375), 0.25, 0.375
    ),
}


class Cells(Recurrent):
    functions = ACTIVATIONS

    def clipping(self):
        return Clip(min=-self.clip, max=self.clip)

    def gate(self, apply, cell, name, x, h, *terms):
        """The argument of a gate's activation function, the sum of a product and `terms`."""
        both = apply(SIDE_BY_SIDE, x, h)
        return apply(GATE, both, cell.wr[name], *cell.biases(name), *terms)


@operator
class RNN(Cells):
    """h' = f(x W + h R + b)."""

    weight = 1.6  # three tensors that go together
    variadic = (3, 5)
    gates = "i"
    defaults = ("Tanh",)

    def value_range(self, *ranges):
        """The range of the activation functions, and 0 behind short sequences."""
        clipped = (-self.clip, self.clip) if self.clip is not None else ANY_RANGE
        found = [self.function(name).value_range(clipped) for name in self._names()]
        found += [(0.0, 0.0)] * bool(self.lens)
        lo, hi = min(lo for lo, _ in found), max(hi for _, hi in found)
        rounded = 1e-6 if self.clip is not None else 0.0
        return lo - rounded, hi + rounded

    def step(self, apply, cell, x, states):
        return [self.activated(apply, cell, 0, self.gate(apply, cell, "i", x, states[0]))]


class Blend(OpSpec):
    """(1 - z) a + z b, also in other forms such as a + z (b - a)."""

    def torch(self, z, a, b):
        return (1 - z) * a + z * b

    def domain(self, z, a, b):
        return [(1 + z.abs()) * (a.abs() + b.abs()) - largest(z)]

    def interval(self, *intervals):
        points = [self.torch(*point) for point in itertools.product(*map(distinct, intervals))]
        return [Interval(*hull(points), joined(*intervals))]

    def radius(self, u, y, z, a, b):
        return 4 * u * (1 + z.abs()) * (a.abs() + b.abs())


@operator
class GRU(Cells):
    """z = f(.), r = f(.), n = g(x W + (r h) R + b), h' = (1 - z) n + z h.

    `linear_before_reset`: r is multiplied with (h R + b) instead.
    """

    weight = 1.6
    variadic = (3, 5)
    gates = "zrh"
    defaults = ("Sigmoid", "Tanh")
    linear_before_reset = Choice((0, 1))

    def step(self, apply, cell, x, states):
        h = states[0]
        z, r = (self.activated(apply, cell, 0, self.gate(apply, cell, g, x, h)) for g in "zr")
        new = self._new(apply, cell, x, h, r)
        return [apply(Blend(), z, self.activated(apply, cell, 1, new), h)]

    def _new(self, apply, cell, x, h, r):
        if not self.linear_before_reset:
            return self.gate(apply, cell, "h", x, apply(MUL, r, h))
        wb, rb = ([b["h"]] if b else [] for b in (cell.wb, cell.rb))
        inner = apply(MUL, r, apply(GATE, h, cell.r["h"], *rb))
        return apply(GATE, x, cell.w["h"], *wb, inner)

    def onnx_attributes(self):
        return {**super().onnx_attributes(), "linear_before_reset": self.linear_before_reset}

    def bounded(self):
        return "initial_h" not in self.given


@operator
class LSTM(Cells):
    """c' = f c + i g(.), h' = o h(c'); with P the gates also read the cell's state.

    The clip is left out: by the standard it "is applied to the input of activations", which
    includes h's input, but ONNX Runtime does not clip that one.
    """

    clip = Choice((None,))
    unset: ClassVar = {
        "clip": "ONNX Runtime and the standard differ in what is clipped",
        "input_forget": "the standard has no formula for coupled gates",
    }
    variadic = (3, 7)
    gates = "iofc"
    peepholes = "iof"
    optional = ("B", "initial_h", "initial_c", "P")
    states = ("initial_h", "initial_c")
    defaults = ("Sigmoid", "Tanh", "Tanh")

    def step(self, apply, cell, x, states):
        h, c = states

        def sigma(name, c):
            seen = [apply(MUL, c, cell.p[name])] if cell.p else []
            return self.activated(apply, cell, 0, self.gate(apply, cell, name, x, h, *seen))

        i, f = sigma("i", c), sigma("f", c)
        new = self.activated(apply, cell, 1, self.gate(apply, cell, "c", x, h))
        c = apply(ADD, apply(MUL, f, c), apply(MUL, i, new))
        return [apply(MUL, sigma("o", c), self.activated(apply, cell, 2, c)), c]

    def bounded(self):
        return 2 not in self.kept

"""Gradient descent on the inputs and weights that a violated node depends on.

A node is violated if its inputs are outside of its domain or its result is not finite. The gradient
pass runs in float64: every value is the one computed in the graph's own dtypes, every derivative is
that of the operator's `proxy`, even at rounding and comparisons. Source: NNSmith, Algorithm 3.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping

import numpy as np
import torch
from torch import Tensor

from nnfuzz.inputs.program import InvalidCause, Program, Values, Violation, tolerance
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.carriers import array, rounded
from nnfuzz.operators.operator import ANY_RANGE, OpSpec, Range, flatten

BETAS = (0.5, 0.9)
"""Adam's decay rates: short memories, because a search takes only tens of steps."""
SLOWER, FASTER = 0.6, 1.05
"""Factors of the learning rate after a step that increased the loss, or decreased it."""
TINY = 1e-6
SLACK = 1e-2
"""Margin by which the descent tries to satisfy a domain term (OpSpec.domain: valid if <= 0)."""
HELD_SLACK = 0.1
"""A domain term of an earlier node counts as violated if its margin is less than this."""
HALVED = 0.5
"""Factor of the learning rate after a step that was undone."""


class _As(torch.autograd.Function):
    """Autograd function with the value of one tensor and the derivative of another."""

    @staticmethod
    def forward(ctx: object, proxy: Tensor, value: Tensor) -> Tensor:
        return value

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class Descent:
    """Adam on the parameters (inputs and weights) that one violated node depends on.

    frozen: parameters that do not change, such as indices. limits: bounds of parameters. held:
    positions of earlier nodes that must stay inside of their domains.
    """

    def __init__(
        self,
        program: Program,
        values: Values,
        violation: Violation,
        frozen: Mapping[str, Range],
        limits: Mapping[str, Range],
        rate: float,
        rng: np.random.Generator,
        held: Collection[int] = (),
    ) -> None:
        self.rng = rng
        self.limits = limits
        self.program = program
        self.violation = violation
        self.rate = rate
        self.nodes, read = program.ancestors(violation.position)
        self.names = [n for n in program.parameters if n in read and n not in frozen]
        self.held = [i for i in held if i < violation.position]
        if self.held:
            behind = (j for i in self.held for j in program.ancestors(i)[0])
            self.nodes = sorted({*self.nodes, *behind})
        self.start = program.first_reader(set(self.names))
        self.theta = {n: self._leaf(values[n]) for n in self.names}
        self._m = {n: torch.zeros_like(t) for n, t in self.theta.items()}
        self._v = {n: torch.zeros_like(t) for n, t in self.theta.items()}
        self._count = 0
        self._last = self._best = math.inf
        self.stale = 0
        """Number of steps since the loss last fell by a tenth."""

    def _leaf(self, x: Tensor) -> Tensor:
        """A float64 copy for autograd. Integers are moved a little: |x| has no gradient at 0."""
        theta = x.to(torch.float64, copy=True)
        if x.is_floating_point():
            return theta
        return theta + torch.from_numpy(np.asarray(self.rng.uniform(-0.3, 0.3, tuple(x.shape))))

    def step(self, values: Values) -> bool:
        """Move the parameters by one step; `values` gets new tensors for them.

        Returns whether any parameter has a gradient.
        """
        gradients = self._gradients(values)
        self._before = {name: theta.clone() for name, theta in self.theta.items()}
        self._count += 1
        moved = False
        with torch.no_grad():
            for name, gradient in gradients.items():
                if gradient is not None and bool(gradient.any()):
                    moved = True
                    self._adam(name, gradient.nan_to_num(0.0, 1e6, -1e6))
                    values[name] = native(self.theta[name], self.program.dtypes[name])
        return moved

    def undo(self) -> None:
        """Undo the last step and make smaller steps from now on. The caller restores `values`."""
        self.theta = self._before
        self.rate *= HALVED

    def _adapt(self, loss: float) -> None:
        """Adapts the learning rate to the loss: slower after a step that increased it."""
        self.rate *= SLOWER if loss > self._last else FASTER
        self._last = loss
        self.stale += 1
        if loss < 0.9 * self._best:
            self._best, self.stale = loss, 0

    def _adam(self, name: str, gradient: Tensor) -> None:
        b1, b2 = BETAS
        m, v, theta = self._m[name], self._v[name], self.theta[name]
        m.mul_(b1).add_(gradient, alpha=1 - b1)
        v.mul_(b2).addcmul_(gradient, gradient, value=1 - b2)
        unbias = (1 - b2**self._count) ** 0.5 / (1 - b1**self._count)
        least = 0.4 if self.program.dtypes[name].is_float else 1.0
        pace = theta.abs().clamp_(min=least).mul_(self.rate * unbias)
        lo, hi = self.limits.get(name, ANY_RANGE)
        theta.sub_(pace * m / v.sqrt().add_(1e-300)).clamp_(lo, hi)

    # -- the gradient pass --------------------------------------------------------------------

    def _gradients(self, values: Values) -> dict[str, Tensor | None]:
        with torch.enable_grad():
            soft = {n: self.theta[n].detach().requires_grad_() for n in self.names}
            leaves = list(soft.values())
            carried = dict(soft)
            for i in self.nodes:
                self._carry(i, values, carried)
            loss = self._loss(values, carried)
            if loss is None or not loss.requires_grad:
                return {}
            self._adapt(float(loss.detach()))
            found = torch.autograd.grad(loss, leaves, allow_unused=True)
        return dict(zip(self.names, found))

    def _carry(self, position: int, values: Values, carried: Values) -> None:
        """Runs one operator of the gradient pass: the proxy's derivative, the graph's own value."""
        node = self.program.graph.nodes[position]
        if not any(n in carried for n in node.inputs):
            return
        inputs = [
            values[n] if pattern.index else _soft(values, carried, n)
            for n, pattern in zip(node.inputs, node.op.patterns(len(node.inputs)))
        ]
        try:
            proxies = list(flatten(node.op.proxy(*inputs)))
        except (RuntimeError, TypeError, IndexError):
            return  # No derivative: parameters that act only through this node do not move.
        stuck = type(node.op).proxy is not OpSpec.proxy
        for name, proxy in zip(node.outputs, proxies):
            if proxy.requires_grad and proxy.shape == values[name].shape:
                value = values[name].to(proxy.dtype)
                # Move the value off 0, where |x| and products have no derivative.
                value = value + (value == 0) * TINY if stuck else value
                carried[name] = _As.apply(proxy, value)

    def _loss(self, values: Values, carried: Values) -> Tensor | None:
        """Sum of the violated domain terms; the inputs' sum of squares if the result is not
        finite."""
        node = self.program.graph.nodes[self.violation.position]
        if self.violation.cause is InvalidCause.FINITE:
            return _size([carried[n] for n in node.inputs if n in carried])
        loss = self._outside(self.violation, values, carried, SLACK)
        if loss is None:
            return None
        for i in self.held:
            near = self._outside(Violation(i, InvalidCause.DOMAIN), values, carried, HELD_SLACK)
            loss = loss if near is None else loss + near
        return loss

    def _outside(
        self, violation: Violation, values: Values, carried: Values, slack: float
    ) -> Tensor | None:
        """Sum of a node's violated domain terms; None if the parameters cannot change them."""
        node = self.program.graph.nodes[violation.position]
        inputs = [self._typed(values, carried, n) for n in node.inputs]
        try:
            if violation.cause is InvalidCause.EDGE:
                near = 2 * tolerance(inputs)
                terms = [near - m - slack for m in node.op.margins(*inputs)]
            else:
                terms = node.op.domain(*inputs)
        except (RuntimeError, TypeError):
            return None
        terms = [t for t in terms if t.requires_grad]
        return _total([(t.to(torch.float64) + slack).relu().sum() for t in terms])

    def _typed(self, values: Values, carried: Values, name: str) -> Tensor:
        """A value as `domain` needs it: floats in their own dtype, because limits depend on it,
        others in float64.

        All are perturbed a little: |x| has no gradient at 0, nor has the variance of equal numbers.
        """
        x = _soft(values, carried, name)
        noise = torch.from_numpy(np.asarray(self.rng.uniform(0.1, 1, tuple(x.shape))))
        x = x + noise * (TINY + TINY * x.detach().abs())
        dtype = self.program.dtypes[name]
        return x.to(dtype.torch) if dtype.is_float else x


def _soft(values: Values, carried: Values, name: str) -> Tensor:
    return carried[name] if name in carried else values[name].to(torch.float64)


def _size(tensors: list[Tensor]) -> Tensor | None:
    return _total([(t * t).sum() for t in tensors])


def _total(terms: list[Tensor]) -> Tensor | None:
    return functools.reduce(torch.add, terms) if terms else None


def native(theta: Tensor, dtype: DType) -> Tensor:
    """A float64 tensor as the nearest value of a dtype, clamped to its limits."""
    if dtype.is_bool:
        return theta > 0.5
    lo, hi = dtype.limits
    clamped = theta.clamp(lo, min(hi, 2**62))
    return rounded(clamped, dtype) if dtype.is_float else clamped.round().to(dtype.torch)


def as_array(x: Tensor, dtype: DType) -> np.ndarray:
    """A contiguous NumPy copy of a tensor, in the ONNX dtype."""
    return np.array(array(x, dtype), order="C")

"""Recurrent cells and control flow, read from the ONNX standard."""

from __future__ import annotations

import numpy as np
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_loop, op_scan

from tests.check.implementation import StandardImplementation

ACTIVATIONS = {
    "relu": lambda x, a, b: np.maximum(0, x),
    "tanh": lambda x, a, b: np.tanh(x),
    "sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "affine": lambda x, a, b: a * x + b,
    "leakyrelu": lambda x, a, b: np.where(x >= 0, x, a * x),
    "thresholdedrelu": lambda x, a, b: np.where(x >= a, x, 0),
    "scaledtanh": lambda x, a, b: a * np.tanh(b * x),
    "hardsigmoid": lambda x, a, b: np.minimum(np.maximum(a * x + b, 0), 1),
    "elu": lambda x, a, b: np.where(x >= 0, x, a * (np.exp(x) - 1)),
    "softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "softplus": lambda x, a, b: np.logaddexp(0, x),
}
ALPHA = {"leakyrelu": 0.01, "elu": 1.0, "hardsigmoid": 0.2, "thresholdedrelu": 1.0, "affine": 1.0}
BETA = {"hardsigmoid": 0.5, "affine": 0.0}
TAKES_ALPHA = (*ALPHA, "scaledtanh")
TAKES_BETA = (*BETA, "scaledtanh")


class Recurrent(StandardImplementation):
    """RNN-14, GRU-14, LSTM-14: the equations, one sequence of the batch after the other."""

    gates = 0
    states = 1
    usual = ()

    def compute(self, x, w, r, b=None, lens=None, h=None, c=None, p=None, **options):
        if options.get("layout"):
            x = x.swapaxes(0, 1)
            h, c = (None if s is None else s.swapaxes(0, 1) for s in (h, c))
        steps, batch, _ = x.shape
        directions, hidden = w.shape[0], r.shape[2]
        lens = [steps] * batch if lens is None else lens
        y = np.zeros((steps, directions, batch, hidden))
        last = np.zeros((self.states, directions, batch, hidden))
        functions = self.functions(directions, **options)
        for d, n in np.ndindex(directions, batch):
            bias = np.zeros(2 * self.gates * hidden) if b is None else b[d]
            wb, rb = bias.reshape(2, self.gates, hidden)
            peep = np.zeros((3, hidden)) if p is None else p[d].reshape(3, hidden)
            weights = w[d].reshape(self.gates, hidden, -1), r[d].reshape(self.gates, hidden, -1)
            state = [np.zeros(hidden) if s is None else s[d, n] for s in (h, c)][: self.states]
            order = range(int(lens[n]))
            if options["direction"] == "reverse" or d == 1:
                order = reversed(order)
            for t in order:
                state = self.step(x[t, n], state, weights, (wb, rb), peep, functions[d], **options)
                y[t, d, n] = state[0]
            last[:, d, n] = state
        if options.get("layout"):
            y, last = y.transpose(2, 0, 1, 3), last.swapaxes(1, 2)
        return y, *last

    def functions(self, directions, activations=None, clip=None, **options):
        """Per direction the activation functions, behind the clipping of their input.

        alpha and beta "are consumed in the order of activation functions".
        """
        names = [name.lower() for name in activations or ()] or [*self.usual] * directions
        alphas, betas = (list(options.get(f"activation_{k}") or ()) for k in ("alpha", "beta"))
        made = []
        for name in names:
            a = alphas.pop(0) if alphas and name in TAKES_ALPHA else _single(ALPHA.get(name))
            b = betas.pop(0) if betas and name in TAKES_BETA else _single(BETA.get(name))
            made.append(_clipped(ACTIVATIONS[name], a, b, clip))
        each = len(self.usual)
        return [made[d * each : (d + 1) * each] for d in range(directions)]

    def linear(self, x, h, weights, biases):
        """X W^T + H R^T + Wb + Rb of every gate."""
        return [w @ x + r @ h + wb + rb for w, r, wb, rb in zip(*weights, *biases)]


def _single(value):
    """A default as an attribute would hold it, in float32."""
    return None if value is None else float(np.float32(value))


def _clipped(function, a, b, clip):
    def apply(x):
        return function(x if clip is None else np.clip(x, -clip, clip), a, b)

    return apply


class RNN(Recurrent):
    gates, usual = 1, ("tanh",)

    def step(self, x, state, weights, biases, peep, functions, **options):
        (gate,) = self.linear(x, state[0], weights, biases)
        return [functions[0](gate)]


class GRU(Recurrent):
    gates, usual = 3, ("sigmoid", "tanh")

    def step(self, x, state, weights, biases, peep, functions, linear_before_reset=0, **options):
        (h,), (f, g), (w, r), (wb, rb) = state, functions, weights, biases
        z, reset = (f(w[i] @ x + r[i] @ h + wb[i] + rb[i]) for i in (0, 1))
        if linear_before_reset:
            new = g(w[2] @ x + reset * (r[2] @ h + rb[2]) + wb[2])
        else:
            new = g(w[2] @ x + r[2] @ (reset * h) + rb[2] + wb[2])
        return [(1 - z) * new + z * h]


class LSTM(Recurrent):
    gates, states, usual = 4, 2, ("sigmoid", "tanh", "tanh")

    def step(self, x, state, weights, biases, peep, functions, input_forget=0, **options):
        (h, c), (f, g, out) = state, functions
        i, o, forget, new = self.linear(x, h, weights, biases)
        pi, po, pf = peep
        i, forget = f(i + pi * c), f(forget + pf * c)
        c = forget * c + i * g(new)
        return [f(o + po * c) * out(c), c]


class Loop(op_loop.Loop):
    """Loop-13; of onnx.reference only the evaluation of the body is used."""

    op_domain = ""

    def _run(self, count, condition, *states, context=None, bindings=None, **others):
        names = self.body.input_names
        states, stacked, number = list(states), [], 0
        limit = None if count is None else int(np.asarray(count).item())
        go = True if condition is None else bool(condition)
        while go and (limit is None or number < limit):
            given = [np.array(number, np.int64), np.array(go), *states]
            inputs = {**(context or {}), **dict(zip(names, given))}
            flag, *found = self._run_body(inputs, attributes=None, bindings=bindings)
            states, rest = found[: len(states)], found[len(states) :]
            stacked.append(rest)
            go = True if condition is None else bool(flag)
            number += 1
        return (*states, *(np.stack(each) for each in zip(*stacked)))


class Scan(op_scan.Scan):
    """Scan-11; of onnx.reference only the evaluation of the body is used."""

    op_domain = ""

    def __init__(self, onnx_node, run_params):
        """Without the checks of onnx.reference for what it has not implemented."""
        OpRun.__init__(self, onnx_node, run_params)

    def _run(self, *args, context=None, bindings=None, num_scan_inputs=1, **options):
        states, scanned = list(args[:-num_scan_inputs]), args[-num_scan_inputs:]

        def option(name, i):
            return (options.get(name) or [0] * (i + 1))[i]

        parts = []
        for i, value in enumerate(scanned):
            value = np.moveaxis(value, option("scan_input_axes", i), 0)
            parts.append(value[::-1] if option("scan_input_directions", i) else value)
        found = []
        for slices in zip(*parts):
            given = map(np.asarray, [*states, *slices])
            inputs = {**(context or {}), **dict(zip(self.body.input_names, given))}
            results = self._run_body(inputs, bindings=bindings)
            states, rest = results[: len(states)], results[len(states) :]
            found.append(rest)
        whole = []
        for i, each in enumerate(zip(*found)):
            each = each[::-1] if option("scan_output_directions", i) else each
            whole.append(np.stack(each, option("scan_output_axes", i)))
        return (*states, *whole)

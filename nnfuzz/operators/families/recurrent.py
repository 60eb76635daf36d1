"""Recurrent operators: a cell applied to the steps of a sequence, in one or two directions.

Letters in shapes: S steps, B batch, I inputs, H hidden units, D directions, G gates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from nnfuzz.ir.dtypes import FLOATS, DType
from nnfuzz.ir.expr import Bool, Int
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice, Fields, Sym, Types
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.families.composite import Apply, Composite, Moves
from nnfuzz.operators.families.sums import Summing
from nnfuzz.operators.intervals import Interval, linear
from nnfuzz.operators.operator import ANY_RANGE, In, OpSpec, Range
from nnfuzz.operators.unexportable import DECOMPOSED


@dataclass(frozen=True)
class Activation:
    """An activation function as `activations` names it.

    default: the operator with default parameters. given: a variant whose parameters are `alpha` and
    `beta`; those that are not None have an entry in activation_alpha and activation_beta.
    """

    default: OpSpec
    given: OpSpec | None = None
    alpha: float | None = None
    beta: float | None = None


class Gate(Summing):
    """x (B, K), w (H, K) and terms that broadcast to (B, H) -> x @ w.T plus all terms."""

    unscaled = True

    def torch(self, x: Tensor, w: Tensor, *terms: Tensor) -> Tensor:
        y = x @ w.t()
        for term in terms:
            y = y + term
        return y

    def terms(self, x: Tensor, w: Tensor, *terms: Tensor) -> int:
        return x.shape[1] + len(terms)

    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        return [linear(self.torch, *intervals, weights=(0, 1))]


@dataclass(frozen=True)
class Cell:
    """The parameters of one direction, by gate: `w` (H, I), `r` (H, H), biases, peepholes.

    index: number of the direction.
    """

    index: int
    w: Mapping[str, Any]
    r: Mapping[str, Any]
    wr: Mapping[str, Any]
    wb: Mapping[str, Any]
    rb: Mapping[str, Any]
    p: Mapping[str, Any]

    def biases(self, gate: str) -> list[Any]:
        return [b[gate] for b in (self.wb, self.rb) if gate in b]


def stack(tensors: Sequence[Tensor], axis: int) -> Tensor:
    return torch.stack(list(tensors), axis)


def concat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat(list(tensors), -1)


def row_choice(on: list[list[bool]]) -> Callable[..., Tensor]:
    """A function of two tensors (B, H): rows of the first where the flag (B, 1) is set, otherwise
    of the second, or 0 if there is none."""

    def choose(new: Tensor, *old: Tensor) -> Tensor:
        return torch.where(torch.tensor(on), new, old[0] if old else torch.zeros_like(new))

    return choose


LONGEST = 128
"""Most steps of a sequence; the reference runs them one by one, so more would take too long."""


def _drawn_activations(draw: Draw, op: Recurrent, *types: TensorType) -> tuple[str, ...]:
    """Random activation functions; mostly an empty tuple, which means the defaults."""
    if draw.chance(0.6):
        return ()
    return tuple(
        default if draw.chance(0.3) else draw.choice(tuple(op.functions))
        for default in op.defaults * op.directions
    )


def _drawn_outputs(draw: Draw, op: Recurrent, *types: TensorType) -> tuple[int, ...]:
    count = 1 + len(op.states)
    return tuple(range(count)) if draw.chance(0.5) else draw.subset(range(count), 1)


class Recurrent(Composite):
    """Y (S, D, B, H) and the last states (D, B, H); with layout 1 the batch comes first.

    given: names of the optional inputs that are present. kept: the outputs that the ONNX node has.
    lens: sequence b has 1 + lens[b] steps (lens repeats cyclically, and counts modulo S); empty: no
    input sequence_lens. Source: ONNX RNN-14, GRU-14, LSTM-14; RNN-7, GRU-7, LSTM-7.
    """

    inputs = (
        In("T", FLOATS, (3, 3)),
        In("T", ranks=(3, 3), weight=True),
        In("T", ranks=(3, 3), weight=True),
        In("T", ranks=(2, 3), weight=True),
    )
    unexportable = DECOMPOSED
    margins = OpSpec.margins
    """None, since no step is discontinuous."""
    constant_inputs = ("sequence_lens",)

    gates: ClassVar[str] = ""
    """Letters of the gates, in the order of the rows of W."""
    peepholes: ClassVar[str] = ""
    optional: ClassVar[tuple[str, ...]] = ("B", "initial_h")
    states: ClassVar[tuple[str, ...]] = ("initial_h",)
    defaults: ClassVar[tuple[str, ...]] = ()
    functions: ClassVar[Mapping[str, Activation]] = {}

    direction = Choice(("forward", "reverse", "bidirectional"))
    hidden_size = Sym(1, 20)
    layout = Choice((*[0] * 9, 1))
    given = Choice(by=lambda draw, op, *_: draw.subset(op.optional))
    lens = Choice(
        by=lambda draw, *_: (
            tuple(draw.integer(0, 9) for _ in range(draw.integer(1, 4)))
            if draw.chance(0.25)
            else ()
        )
    )
    clip = Choice(by=lambda draw, *_: draw.choice((0.5, 1.5, 3.0)) if draw.chance(0.2) else None)
    activations = Choice(by=_drawn_activations)
    explicit = Choice((0, 1))
    kept = Choice(by=_drawn_outputs)

    @classmethod
    def from_onnx(cls, fields: Fields, takes: Types, gives: Types) -> Self:
        """An instance that has all outputs, also those that the node leaves out."""
        activations = tuple(fields.get("activations") or ())
        mine = {
            "direction": "forward",
            "layout": 0,
            "clip": None,
            **fields,
            "given": tuple(name for name in cls.optional if fields.get(name, "") is not None),
            "lens": tuple(length - 1 for length in fields.get("sequence_lens") or ()),
            "activations": activations,
            "explicit": int("activation_alpha" in fields or "activation_beta" in fields),
            "kept": tuple(range(1 + len(cls.states))),
        }
        return super().from_onnx(mine, takes, gives)

    def refusal(self, exporter: str, opset: int, *inputs: TensorType) -> str:
        """`layout` came with opset 14."""
        older = self.layout and opset < 14
        return "the batch comes second" if older else super().refusal(exporter, opset, *inputs)

    # -- types --------------------------------------------------------------------------------

    @property
    def directions(self) -> int:
        return 2 if self.direction == "bidirectional" else 1

    def _sequence(self, x: TensorType) -> tuple[Int, Int, Int]:
        """S, B and I."""
        a, b, i = x.shape
        return (b, a, i) if self.layout else (a, b, i)

    def _shapes(self, x: TensorType) -> list[tuple[Int, ...]]:
        """The shapes of all inputs."""
        _, batch, width = self._sequence(x)
        d, h, g = self.directions, self.hidden_size, len(self.gates)
        state = (batch, d, h) if self.layout else (d, batch, h)
        extra = {"B": (d, 2 * g * h), "P": (d, len(self.peepholes) * h)}
        shapes = [x.shape, (d, g * h, width), (d, g * h, h)]
        return [*shapes, *(extra.get(name, state) for name in self.given)]

    def requires(self, *inputs: TensorType) -> Iterable[Bool]:
        shapes = self._shapes(inputs[0])
        yield len(inputs) == len(shapes) and len(set(self.kept)) == len(self.kept)
        yield all(0 <= i <= len(self.states) for i in self.kept)
        yield self.clip is None or self.clip > 0  # implementations take 0 for "no clip"
        yield self._sequence(inputs[0])[0] <= LONGEST
        for type_, shape in zip(inputs, shapes):
            yield type_.rank == len(shape)
            yield from (a == b for a, b in zip(type_.shape, shape) if a is not b)

    def complete(self, draw: Draw, first: TensorType, dtypes: Sequence[DType]) -> list[TensorType]:
        return [first.with_shape(shape) for shape in self._shapes(first)]

    def type_transfer(self, *inputs: TensorType) -> list[TensorType]:
        steps, batch, _ = self._sequence(inputs[0])
        d, h = self.directions, self.hidden_size
        y = (batch, steps, d, h) if self.layout else (steps, d, batch, h)
        last = (batch, d, h) if self.layout else (d, batch, h)
        return [inputs[0].with_shape(last if i else y) for i in self.kept]

    @classmethod
    def input_rank(cls, draw: Draw, output_rank: int) -> int | None:
        return 3 if output_rank in (3, 4) else None

    @classmethod
    def draw_backward(cls, draw: Draw, first: TensorType, output: TensorType) -> Self:
        last = tuple(range(1, 1 + len(cls.states)))
        kept = (0, *last) if output.rank == 4 else last
        return cls.draw_given(draw, {"kept": kept}, first)

    def infer_input_types(
        self, draw: Draw, first: TensorType, dtypes: Sequence[DType], output: TensorType
    ) -> list[TensorType]:
        steps, batch, width = self._sequence(first)
        if output.rank == 4:
            steps = output.shape[1 if self.layout else 0]
        batch = output.shape[0 if self.layout else -2]
        shape = (batch, steps, width) if self.layout else (steps, batch, width)
        return self.complete(draw, first.with_shape(shape), dtypes)

    def cost(self, *inputs: TensorType) -> int:
        x, w, r = inputs[:3]
        return 2 * math.prod(x.sizes[:2]) * (w.elements + r.elements)

    def without_input(self, position: int) -> Self | None:
        if position < 3:
            return None
        given = [name for i, name in enumerate(self.given, 3) if i != position]
        return type(self)(**{**self.attributes, "given": tuple(given)})

    # -- meaning ------------------------------------------------------------------------------

    def step(self, apply: Apply, cell: Cell, x: Any, states: Sequence[Any]) -> Sequence[Any]:
        """The next states of a cell, the hidden one (B, H) first."""
        raise NotImplementedError(f"{self.name}.step")

    def compose(self, apply: Apply, *values: Any) -> Sequence[Any]:
        x, w, r, *rest = values
        extra = dict(zip(self.given, rest, strict=True))
        if self.layout:
            x = apply(Moves(lambda t: t.transpose(0, 1)), x)
        runs = [self._run(apply, self._cell(apply, d, w, r, extra), x, extra) for d in self._each()]
        batch = 1 if self.layout else 0
        y = Moves(lambda *ts: stack(ts, 1).permute((2, 0, 1, 3) if batch else (0, 1, 2, 3)))
        last = Moves(lambda *ts: stack(ts, batch))
        return [apply(last if i else y, *(run[i] for run in runs)) for i in self.kept]

    def _each(self) -> range:
        return range(self.directions)

    def _cell(self, apply: Apply, d: int, w: Any, r: Any, extra: Mapping[str, Any]) -> Cell:
        def rows(value: Any, gates: str, first: int, total: int) -> dict[str, Any]:
            return {
                g: apply(Moves(lambda t, i=i: t[d].chunk(total)[i]), value)
                for i, g in enumerate(gates, first)
            }

        gates, count, b = self.gates, len(self.gates), extra.get("B")
        ws, rs = rows(w, gates, 0, count), rows(r, gates, 0, count)
        wr = {g: apply(Moves(lambda *ts: concat(ts)), ws[g], rs[g]) for g in gates}
        wb, rb = (rows(b, gates, i * count, 2 * count) if b is not None else {} for i in (0, 1))
        p = rows(extra["P"], self.peepholes, 0, len(self.peepholes)) if "P" in extra else {}
        return Cell(d, ws, rs, wr, wb, rb, p)

    def _run(self, apply: Apply, cell: Cell, x: Any, extra: Mapping[str, Any]) -> list[Any]:
        """All hidden states (S, B, H) and the last states (B, H) of one direction."""
        steps, batch = x.shape[0], x.shape[1]
        turn = Moves(lambda t: self._turned(t)) if self._backwards(cell.index) else None
        x = apply(turn, x) if turn else x
        states = [self._initial(apply, cell, name, x, extra) for name in self.states]
        lengths, hidden = self.lengths(steps, batch), []
        for t in range(steps):
            new = self.step(apply, cell, apply(Moves(lambda v, t=t: v[t]), x), states)
            y = new[0]
            if min(lengths) <= t:
                on = [[t < n] for n in lengths]
                new = [apply(Moves(row_choice(on)), a, b) for a, b in zip(new, states)]
                y = apply(Moves(row_choice(on)), y)
            states = list(new)
            hidden.append(y)
        ys = apply(Moves(lambda *ts: stack(ts, 0)), *hidden)
        return [apply(turn, ys) if turn else ys, *states]

    def _backwards(self, direction: int) -> bool:
        return direction == 1 or self.direction == "reverse"

    def _initial(
        self, apply: Apply, cell: Cell, name: str, x: Any, extra: Mapping[str, Any]
    ) -> Any:
        if name in extra:
            axis = 1 if self.layout else 0
            return apply(Moves(lambda t: t.select(axis, cell.index)), extra[name])
        return apply(Moves(lambda t: t.new_zeros((t.shape[1], self.hidden_size))), x)

    def lengths(self, steps: int, batch: int) -> list[int]:
        """The number of steps of each sequence of the batch."""
        if not self.lens:
            return [steps] * batch
        return [1 + self.lens[b % len(self.lens)] % steps for b in range(batch)]

    def _turned(self, x: Tensor) -> Tensor:
        """Each sequence in reverse order; elements after its end stay in place."""
        steps, batch = x.shape[:2]
        order = [
            [n - 1 - t if t < n else t for n in self.lengths(steps, batch)] for t in range(steps)
        ]
        return x[torch.tensor(order), torch.arange(batch)]

    def activated(self, apply: Apply, cell: Cell, at: int, value: Any) -> Any:
        """The value, clipped, then passed through the activation at a position of `defaults`."""
        if self.clip is not None:
            value = apply(self.clipping(), value)
        return apply(self.function(self._names()[cell.index * len(self.defaults) + at]), value)

    def function(self, name: str) -> OpSpec:
        """The activation function of a name, with this operator's parameters."""
        function = self.functions[name]
        given = function.given if self.activations and self.explicit else None
        return given or function.default

    def clipping(self) -> OpSpec:
        """The operator that clips to [-clip, clip]."""
        raise NotImplementedError(f"{self.name}.clipping")

    def _names(self) -> tuple[str, ...]:
        return self.activations or self.defaults * self.directions

    def onnx(self, emit: Any, *values: str) -> list[str]:
        x, w, r, *rest = values
        extra = dict(zip(self.given, rest))
        steps, batch, _ = self._sequence(emit.type(x))
        lens = emit.const(self.lengths(steps, batch), DType.INT32) if self.lens else ""  # type: ignore[arg-type]
        others = ["initial_h", "initial_c", "P"]
        inputs = [x, w, r, extra.get("B", ""), lens, *(extra.get(name, "") for name in others)]
        made = emit(self.name, *inputs, outputs=1 + len(self.states), **self.onnx_attributes())
        return [made[i] for i in self.kept]

    def onnx_attributes(self) -> dict[str, Any]:
        functions = [self.functions[name] for name in self.activations if self.explicit]
        alphas = [f.alpha for f in functions if f.alpha is not None]
        betas = [f.beta for f in functions if f.beta is not None]
        return {
            "direction": self.direction,
            "hidden_size": self.hidden_size,
            "layout": self.layout or None,
            "clip": self.clip,
            "activations": self.activations or None,
            "activation_alpha": alphas or None,
            "activation_beta": betas or None,
        }

    def certain(self, *inputs: TensorType) -> tuple[Range, ...]:
        """Zeros after the end of sequences that are shorter than others."""
        return ((0, 0),) if self.lens and self.kept[0] == 0 else ()

    def value_range(self, *ranges: Range) -> Range:
        return ANY_RANGE if self.activations or not self.bounded() else (-1.0, 1.0)

    def bounded(self) -> bool:
        """Whether all outputs of the default functions are within [-1, 1]."""
        return True

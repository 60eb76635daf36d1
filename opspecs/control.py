"""If, Loop and Scan, with generated bodies of operators that keep the type of their inputs."""

from __future__ import annotations

import torch

from nnfuzz.ir.dtypes import BOOLS, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.body import Body, BodyStep
from nnfuzz.operators.families.composite import Moves
from nnfuzz.operators.families.control import DTYPES, ControlFlow, drawn_body
from nnfuzz.operators.intervals import Interval
from nnfuzz.operators.operator import ANY_RANGE, In, OpSpec, operator

from . import logic
from .bodies import ONCE, TAME, WILD
from .constant import Constant
from .index import Identity

LONGEST = 12
"""Most iterations of Scan; the reference runs them one by one."""
SETTLED = 4
"""Steps after which a state whose range still grows counts as unbounded."""
CONDITION = TensorType(DType.BOOL, ())
COUNT = TensorType(DType.INT64, ())


COPY = Moves(lambda x: x.clone())


class Filled(OpSpec):
    """A tensor of the input's shape that is filled with one number."""

    def __init__(self, value):
        self.value = value

    def torch(self, x):
        return torch.full_like(x, self.value)

    def interval(self, x):
        y = self.torch(x.lo)
        return [Interval(y, y)]


def hull(ranges):
    """The smallest range that contains all given ranges."""
    return min(lo for lo, _ in ranges), max(hi for _, hi in ranges)


def _loop_body(draw, op, x, *_):
    arguments = op.carried + op.others + op.counted
    return drawn_body(draw, op.pool, x, arguments, op.carried + op.stacked, op.counted)


@operator
class Loop(ControlFlow):
    """`trips` applications of a body to `carried` values; with `stacked`, the results of all trips
    as well.

    M ("count"), the condition, or the condition before M is reached ("both") ends the loop.
    `counted`: the body also reads the iteration number. Source: ONNX Loop-13.
    """

    pool = TAME
    inputs = (In("T", DTYPES),)
    variadic = (1, 4)
    trips = Choice((1, 2, 3, 4, 5, 2, 3, 0))
    style = Choice(("count", "condition", "both"))
    carried = Choice((1, 1, 2))
    counted = Choice((0, 0, 1))
    stacked = Choice(lambda op, x, *_: (0, 0, 1) if op.trips and x.rank < 5 else (0,))
    body = Choice(by=_loop_body)

    @property
    def before(self):  # type: ignore[override]
        return self.carried, self.carried

    def wanted(self, x):
        return [x] * (self.carried + self.others)

    def requires(self, *inputs):
        yield self.trips > 0 or not self.stacked
        yield from super().requires(*inputs)

    def type_transfer(self, x, *_):
        return [x] * self.carried + [x.with_shape((self.trips, *x.shape))] * self.stacked

    def cost(self, x, *_):
        return self.trips * self.body.cost(x)

    def value_range(self, *ranges):
        """Bounds of the last states and of the stacked results."""
        if isinstance(ranges[0][0], int):
            return ANY_RANGE
        states, others = list(ranges[: self.carried]), ranges[self.carried :]
        seen = [] if self.trips else states
        for i in range(self.trips):
            found = self.body.ranges([*states, *others, *[(float(i),) * 2] * self.counted])
            if found is None:
                return ANY_RANGE
            states = found[: self.carried]
            seen += found[self.carried :] + (states if i == self.trips - 1 else [])
        return hull(seen)

    def compose(self, apply, *values):
        states, others, stack = values[: self.carried], values[self.carried :], []
        self.body.check([*values, *values[: self.counted]])
        for i in range(self.trips):
            number = [apply(Filled(i), values[0])] * self.counted
            found = self.body.compose(apply, [*states, *others, *number])
            states = found[: self.carried]
            stack += found[self.carried :]
        whole = [apply(Moves(lambda *ts: torch.stack(ts)), *stack)] if self.stacked else []
        return [*(apply(COPY, state) for state in states), *whole]

    def onnx(self, emit, *values):
        type_ = emit.type(values[0])
        count, condition = "", ""
        if self.style != "condition":
            least = self.trips + (2 if self.style == "both" and self.trips else 0)
            count = emit.const(least, DType.INT64)
        if self.style != "count":
            condition = emit.const(self.trips > 0, DType.BOOL)
        states = values[: self.carried]
        results = [CONDITION, *[type_] * (self.carried + self.stacked)]
        body = emit.subgraph(
            [COUNT, CONDITION, *[type_] * self.carried],
            results,
            lambda *names: self._body(*names, others=values[self.carried :], type_=type_),
        )
        return emit("Loop", count, condition, *states, outputs=len(results) - 1, body=body)

    def _body(self, emit, number, condition, *states, others, type_):
        extra = []
        if self.counted:
            value = emit("Cast", number, to=type_.dtype)
            extra = [emit("Expand", value, emit.const(list(type_.shape), DType.INT64))]
            emit.known(extra[0], type_)
        if self.style != "count":
            condition = emit("Less", number, emit.const(self.trips - 1, DType.INT64))
        return [condition, *self.body.emit(emit, [*states, *others, *extra], type_)]


def _branch(draw, op, x, *_):
    if draw.chance(0.2):
        return _forwarding(draw, x, 1 + op.others, op.results)
    return drawn_body(draw, op.pool, x, 1 + op.others, op.results)


def _forwarding(draw, x, arguments, results):
    """A body that computes nothing: it yields constants, and values from outside as they are."""
    picked = [draw.choice((Constant, Identity)).draw(draw, x) for _ in range(results)]
    steps = [BodyStep(op, (draw.integer(0, arguments - 1),)) for op in picked]
    return Body(arguments, tuple(steps), tuple(range(arguments, arguments + results)))


@operator
class If(ControlFlow):
    """One of two bodies, which read the first input and those behind the condition.

    The reference computes both, so both must be valid. Source: ONNX If-13.
    """

    pool = (*ONCE, Constant, Loop, Loop)
    readable = WILD
    inputs = (In("T", DTYPES), In("B", BOOLS, (0, 0)), In("T"))
    variadic = (2, 4)
    before = (2, 1)
    results = Choice((1, 1, 2))
    then_branch = Choice(by=_branch)
    else_branch = Choice(by=_branch)

    def wanted(self, x):
        return [x, CONDITION, *[x] * self.others]

    def type_transfer(self, x, *_):
        return [x] * self.results

    def cost(self, x, *_):
        return sum(body.cost(x) for body in self.bodies)

    def compose(self, apply, x, condition, *others):
        self.then_branch.check([x, *others])
        branches = [body.compose(apply, [x, *others]) for body in self.bodies]
        return [apply(logic.Where(), condition, a, b) for a, b in zip(*branches, strict=True)]

    def feasible(self, x, condition, *others):
        return all(body.ranges([x, *others]) is not None for body in self.bodies)

    def value_range(self, x, condition, *others):
        if isinstance(x[0], int):
            return ANY_RANGE
        ends = [end for body in self.bodies for end in body.ranges([x, *others]) or [ANY_RANGE]]
        return hull(ends)

    def onnx(self, emit, x, condition, *others):
        type_ = emit.type(x)

        def graph(body):
            return emit.subgraph(
                (), [type_] * self.results, lambda inner: body.emit(inner, [x, *others], type_)
            )

        branches = {name: graph(getattr(self, name)) for name in ("then_branch", "else_branch")}
        return emit("If", condition, outputs=self.results, **branches)


def _scan_body(draw, op, x, *_):
    return drawn_body(draw, op.pool, _slice(x, op.axis), 2 + op.others, 2)


def _slice(x, axis):
    shape = list(x.shape)
    del shape[axis]
    return x.with_shape(shape)


@operator
class Scan(ControlFlow):
    """A body that is applied to the slices along an axis in turn, and to a state.

    Inputs: the tensor, the initial state, and further values that the body reads. Outputs: the
    results of the steps, joined along `out_axis`, and the last state. Source: ONNX Scan-11.
    """

    pool = TAME
    inputs = (In("T", DTYPES, (1, 5)), In("T", ranks=(0, 4)))
    variadic = (2, 4)
    axis = Choice(lambda op, x, *_: (0, *range(x.rank)))
    out_axis = Choice(lambda op, x, *_: (0, *range(x.rank)))
    reverse = Choice((0, 0, 1))
    out_reverse = Choice((0, 0, 1))
    body = Choice(by=_scan_body)

    def inner(self, *inputs):
        return _slice(inputs[0], self.axis)

    def wanted(self, x):
        return [x, *[_slice(x, self.axis)] * (1 + self.others)]

    def requires(self, x, *others):
        yield 0 <= self.axis < x.rank and 0 <= self.out_axis < x.rank
        yield x.shape[self.axis] <= LONGEST
        yield from super().requires(x, *others)

    def infer_input_types(self, draw, first, dtypes, output):
        shape = list(output.shape)
        shape.insert(self.axis, shape.pop(self.out_axis))
        return self.wanted(output.with_shape(shape))

    def type_transfer(self, x, *_):
        inner = _slice(x, self.axis)
        shape = list(inner.shape)
        shape.insert(self.out_axis, x.shape[self.axis])
        return [x.with_shape(shape), inner]

    def cost(self, x, *_):
        return x.shape[self.axis] * self.body.cost(_slice(x, self.axis))

    def value_range(self, x, state, *others):
        """Bounds of the states; unbounded if they still grow after SETTLED steps."""
        if isinstance(x[0], int):
            return ANY_RANGE
        results = []
        for _ in range(SETTLED):
            found = self.body.ranges([state, x, *others])
            if found is None:
                return ANY_RANGE
            results.append(found[1])
            wider = hull([state, found[0]])
            if wider == state:
                return hull([state, *results])
            state = wider
        return ANY_RANGE

    def compose(self, apply, x, state, *others):
        axis, found = self.axis, []
        self.body.check([state, state, *others])
        order = range(int(x.shape[axis]))
        for i in reversed(order) if self.reverse else order:
            part = apply(Moves(lambda t, i=i: t.select(axis, i)), x)
            state, result = self.body.compose(apply, [state, part, *others])
            found.append(result)
        whole = Moves(lambda *ts: torch.stack(ts, self.out_axis))
        return [apply(whole, *(found[::-1] if self.out_reverse else found)), apply(COPY, state)]

    def onnx(self, emit, x, state, *others):
        type_ = self.inner(emit.type(x))
        body = emit.subgraph(
            [type_, type_],
            [type_, type_],
            lambda inner, *names: self.body.emit(inner, [*names, *others], type_),
        )
        last, whole = emit(
            "Scan",
            state,
            x,
            outputs=2,
            body=body,
            num_scan_inputs=1,
            scan_input_axes=[self.axis],
            scan_input_directions=[self.reverse],
            scan_output_axes=[self.out_axis],
            scan_output_directions=[self.out_reverse],
        )
        return whole, last

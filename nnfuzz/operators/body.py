"""Bodies: small programs as attributes of operators, such as the branches of If.

The values of a body are its arguments, then one result per step. All of them have the same type,
and a body works for any type that its steps admit, so it stores no types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nnfuzz.ir.expr import Bool, Expr
from nnfuzz.ir.graph import Node
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.operator import ANY_RANGE, OpSpec, Range

if TYPE_CHECKING:
    from nnfuzz.operators.draw import Draw
    from nnfuzz.operators.families.composite import Apply

Pool = Sequence[type[OpSpec]]
"""The operators that may be steps of a body."""
MOST_STEPS = 4


@dataclass(frozen=True)
class BodyStep:
    """An operator, and the positions of the body's values that it reads."""

    op: OpSpec
    inputs: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Body:
    """A program. arguments: their number. outputs: positions of results among the body's values."""

    arguments: int
    steps: tuple[BodyStep, ...]
    outputs: tuple[int, ...]

    @classmethod
    def draw(cls, draw: Draw, pool: Pool, type_: TensorType, arguments: int, outputs: int) -> Body:
        """A random body for values of a type; every value is read by a step or is an output.

        Raises: ValueError if the pool has no operator for the type.
        """
        fitting = [spec for spec in pool if type_.dtype in spec.inputs[0].dtypes]
        return _Drawing(draw, fitting, type_, arguments).body(outputs)

    # -- meaning ------------------------------------------------------------------------------

    def compose(self, apply: Apply, values: Sequence[Any]) -> list[Any]:
        """The outputs for the given arguments; `apply(op, *inputs)` computes a step."""
        results = list(values)
        for step in self.steps:
            result = apply(step.op, *[results[i] for i in step.inputs])
            results.append(result[0] if isinstance(result, (list, tuple)) else result)
        return [results[i] for i in self.outputs]

    def check(self, values: Sequence[Any]) -> None:
        """Raises: ValueError if `values` are not one per argument, or differ in shape."""
        shapes = {tuple(map(int, v.shape)) for v in values}  # a tracer's sizes are tensors
        if len(values) != self.arguments or len(shapes) > 1:
            raise ValueError(f"{self.arguments} arguments of one type, not {list(values)}")

    def conditions(self, type_: TensorType) -> Iterator[Bool]:
        """Conditions under which every step accepts values of the type and returns that type."""
        for step in self.steps:
            types = [type_] * len(step.inputs)
            patterns = step.op.patterns(len(types))
            yield all(p.ranked(type_.rank) for p in patterns)
            yield type_.dtype in patterns[0].dtypes
            conditions = list(step.op.requires(*types))
            yield from conditions
            if all(c is not False for c in conditions):
                result, *more = step.op.type_transfer(*types)
                yield not more and result.dtype is type_.dtype and result.rank == type_.rank
                yield from (a == b for a, b in zip(result.shape, type_.shape) if a is not b)

    def ranges(self, ranges: Sequence[Range]) -> list[Range] | None:
        """Bounds of the outputs, given those of the arguments; None if a step has no valid
        input."""
        bounds = list(ranges)
        for step in self.steps:
            inputs = [bounds[i] for i in step.inputs]
            if not step.op.feasible(*inputs):
                return None
            bounds.append(_unwrapped(step.op.value_range(*inputs), inputs))
        return [bounds[i] for i in self.outputs]

    def cost(self, type_: TensorType) -> int:
        """Floating-point operations of one execution, for values of a concrete type."""
        return sum(step.op.cost(*[type_] * len(step.inputs)) for step in self.steps)

    def emit(self, emit: Any, names: Sequence[str], type_: TensorType) -> list[str]:
        """Lower the steps to ONNX. names: of the arguments. Returns the names of the outputs."""
        emitted = list(names)
        for step in self.steps:
            name = emit.declare("b", type_)
            emit.lower(Node(step.op, tuple(emitted[i] for i in step.inputs), (name,)))
            emitted.append(name)
        return [emitted[i] for i in self.outputs]

    def followed_by(self, op: OpSpec, inputs: tuple[int, ...]) -> Body:
        """The body with one step appended, whose result becomes the only output."""
        steps = (*self.steps, BodyStep(op, inputs))
        return Body(self.arguments, steps, (self.arguments + len(self.steps),))

    # -- smaller ones -------------------------------------------------------------------------

    def shorter(self) -> Iterator[Body]:
        """For each step and input of it: the body with the input in place of the step's result."""
        for i, step in reversed(list(enumerate(self.steps))):
            for source in dict.fromkeys(step.inputs):
                yield self._without(i, source)

    def without_argument(self, position: int) -> Body:
        """The body with one argument less; another argument takes its place."""
        other = int(position == 0)

        def moved(i: int) -> int:
            i = other if i == position else i
            return i - (i > position)

        steps = [BodyStep(step.op, tuple(map(moved, step.inputs))) for step in self.steps]
        return Body(self.arguments - 1, tuple(steps), tuple(map(moved, self.outputs)))

    def with_step(self, position: int, op: OpSpec) -> Body:
        """The body with the operator of one step replaced."""
        steps = list(self.steps)
        steps[position] = replace(steps[position], op=op)
        return replace(self, steps=tuple(steps))

    def _without(self, gone: int, source: int) -> Body:
        own = self.arguments + gone

        def moved(i: int) -> int:
            return source if i == own else i - (i > own)

        steps = [
            BodyStep(step.op, tuple(map(moved, step.inputs)))
            for i, step in enumerate(self.steps)
            if i != gone
        ]
        return Body(self.arguments, tuple(steps), tuple(map(moved, self.outputs))).pruned()

    def pruned(self) -> Body:
        """The body without the steps that no output needs."""
        needed = set(self.outputs)
        for i in reversed(range(len(self.steps))):
            if self.arguments + i in needed:
                needed.update(self.steps[i].inputs)
        idle = [i for i in range(len(self.steps)) if self.arguments + i not in needed]
        return self._without(idle[-1], 0) if idle else self

    # -- JSON ---------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Steps, outputs and number of arguments as JSON values."""
        steps = [[s.op.name, s.op.to_json(), list(s.inputs)] for s in self.steps]
        return {"arguments": self.arguments, "steps": steps, "outputs": list(self.outputs)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], lookup: Callable[[str], type[OpSpec]]) -> Body:
        """Inverse of `to_json`. Raises: KeyError from `lookup`."""
        steps = [
            BodyStep(lookup(name).from_json(attributes), tuple(inputs))
            for name, attributes, inputs in data["steps"]
        ]
        return cls(data["arguments"], tuple(steps), tuple(data["outputs"]))

    @cached_property
    def _key(self) -> str:
        return repr(self.to_json())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Body) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _unwrapped(result: Range, inputs: Sequence[Range]) -> Range:
    """The bounds of a step's result; infinite for integers (int bounds) that may wrap around."""
    for lo, hi in inputs:
        if type(lo) is float or type(hi) is float:
            return result
    least, most = min(r[0] for r in inputs), max(r[1] for r in inputs)
    return ANY_RANGE if result[0] < least or result[1] > most else result


class _Drawing:
    """A body under construction. `idle`: positions of values that no step reads, in order."""

    def __init__(self, draw: Draw, pool: Pool, type_: TensorType, arguments: int) -> None:
        self.dice, self.pool, self.type = draw, pool, type_
        self.whole = Body(arguments, (), ())
        self.idle = list(range(arguments))

    def body(self, outputs: int) -> Body:
        count = self.dice.integer(1, MOST_STEPS)
        while (done := len(self.whole.steps)) < count or len(self.idle) > outputs:
            self._extend(joining=done >= count - 1 and len(self.idle) > outputs)
        size = self.whole.arguments + done
        others = [i for i in range(size) if i not in self.idle]
        picked = self.idle + self.dice.shuffled(others)[: outputs - len(self.idle)]
        picked += [size - 1] * (outputs - len(picked))
        return replace(self.whole, outputs=tuple(self.dice.shuffled(picked)))

    def _extend(self, joining: bool) -> None:
        """Append a step; `joining` makes it read at least two values."""
        for spec in self.dice.shuffled(self.pool):
            lo, hi = spec.arity()
            lo, hi = max(lo, 1 + joining), min(hi, 3)
            if lo > hi:
                continue
            op = spec.draw(self.dice, self.type)
            for count in self.dice.shuffled(range(lo, hi + 1)):
                longer = self.whole.followed_by(op, self._inputs(count))
                if self._admits(longer):
                    self._adopt(longer)
                    return
        raise ValueError(f"no operator of the pool is for {self.type!r}")

    def _adopt(self, longer: Body) -> None:
        self.whole = longer
        self.idle = [i for i in self.idle if i not in longer.steps[-1].inputs]
        self.idle.append(longer.outputs[0])

    def _inputs(self, count: int) -> tuple[int, ...]:
        """Inputs of the next step: the latest values without a reader, then random ones."""
        size = self.whole.arguments + len(self.whole.steps)
        picked = self.idle[: -count - 1 : -1]
        picked += [self.dice.integer(0, size - 1) for _ in range(count - len(picked))]
        return tuple(self.dice.shuffled(picked))

    def _admits(self, body: Body) -> bool:
        """Whether the last step is valid for every size, and for some values, of the type."""
        step = body.steps[-1]
        if any(isinstance(v, Expr) for v in step.op.attributes.values()):
            return False
        if any(
            c is not True for c in Body(body.arguments, (step,), body.outputs).conditions(self.type)
        ):
            return False
        dtype = self.type.dtype
        bounds = ANY_RANGE if dtype.is_float else dtype.limits
        return body.ranges([(bounds[0], bounds[1]) for _ in range(body.arguments)]) is not None

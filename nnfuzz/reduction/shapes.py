"""Passes that shrink dimensions and ranks, consistently over the whole graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nnfuzz.generate.large import BEYOND
from nnfuzz.ir.expr import BoolExpr, Int, Var, evaluate
from nnfuzz.ir.graph import Graph
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.operator import OpSpec
from nnfuzz.reduction.edit import FOCUS, Edit
from nnfuzz.reduction.subject import Inapplicable, Subject, clipped, fitted, rebuilt, restricted
from nnfuzz.solve.propagation import Contradiction, Propagator
from nnfuzz.solve.smt import SmtSolver

SIZED = {
    "shape": 1, "split": 1, "kernel_shape": 1, "ends": 1, "starts": 0, "pads": 0, "group": 1,
    "hidden_size": 1,
}  # fmt: skip
"""Integer attributes that may shrink with the dimensions, and the least they shrink to."""
COMMON_CAPS = (1, 2, 3, 4, 8)
LARGE_CAPS = (4, 16, 64, 256)
ENDS = (FOCUS, "head", "tail")
PROPAGATIONS = 2000


class OpenSizes:
    """A concrete graph with its dimensions and sizes turned back into variables.

    `now` holds the present values; every one of the constraints holds under them.
    """

    def __init__(self, graph: Graph) -> None:
        """Raises: Inapplicable if an operator cannot be made symbolic at all."""
        self.graph = graph
        self.now: dict[Var, int] = {}
        self.constraints: list[BoolExpr] = []
        self.places: dict[Var, str] = {}
        self.types: dict[str, TensorType] = {}
        for name in (*graph.inputs, *graph.weights):
            shape = graph.type(name).sizes
            dims = [self._var(f"{name}.{i}", 1, d) for i, d in enumerate(shape)]
            self.types[name] = graph.type(name).with_shape(dims)
        self.ops = [self._lifted(i) for i in range(len(graph.nodes))]

    def _var(self, place: str, least: int, value: int) -> Int:
        if value <= least:  # an empty axis stays empty: no array can be cut to a larger one
            return value
        var = Var(place, least, value)
        self.now[var], self.places[var] = value, place
        return var

    def _lifted(self, position: int) -> OpSpec:
        node = self.graph.nodes[position]
        types = [self.types[name] for name in node.inputs]
        marks = dict(self.now), dict(self.places)
        for op in (self._symbolic(node.op, position), node.op):
            try:
                conditions = list(op.requires(*types))
                outputs = op.type_transfer(*types)
            except TypeError:  # the spec asks for the truth of something that is open now
                self.now, self.places = dict(marks[0]), dict(marks[1])
                continue
            if any(c is False for c in conditions):
                continue
            self.constraints += [c for c in conditions if isinstance(c, BoolExpr)]
            self._keep(node.outputs, outputs)
            return op
        raise Inapplicable(f"{node!r} has no symbolic form")

    def _keep(self, names: Sequence[str], types: Sequence[TensorType]) -> None:
        for name, type_ in zip(names, types, strict=True):
            self.types[name] = type_
            limits = [d >= 1 for d in type_.shape]
            self.constraints += [c for c in limits if isinstance(c, BoolExpr)]

    def _symbolic(self, op: OpSpec, position: int) -> OpSpec:
        changed = {
            name: self._open(f"{position}.{name}", value, SIZED[name])
            for name, value in op.attributes.items()
            if name in SIZED
        }
        return type(op)(**{**op.attributes, **changed}) if changed else op

    def _open(self, place: str, value: Any, least: int) -> object:
        if isinstance(value, tuple):
            return tuple(self._open(f"{place}.{i}", v, least) for i, v in enumerate(value))
        return self._var(place, least, value) if isinstance(value, int) and value >= 0 else value

    def dimensions(self) -> list[Var]:
        """The variables that are dimensions of inputs and weights, the largest first."""
        names = {*self.graph.inputs, *self.graph.weights}
        found = [v for v, place in self.places.items() if place.rpartition(".")[0] in names]
        return sorted(found, key=lambda v: -self.now[v])

    def solved(self, caps: Mapping[Var, int], least: bool) -> dict[Var, int]:
        """Values with every capped variable at most at its cap.

        least: as small as possible; otherwise as near as can be to the caps, and of what is not
        capped to what they are now. Raises: Inapplicable.
        """
        limits = [c for v, cap in caps.items() if isinstance(c := v <= cap, BoolExpr)]
        found = self._propagated([*self.constraints, *limits], caps, least)
        return found if found is not None else self._smt(limits)

    def _propagated(
        self, constraints: list[BoolExpr], caps: Mapping[Var, int], least: bool
    ) -> dict[Var, int] | None:
        try:
            system = Propagator(constraints)
            system.propagate(steps=PROPAGATIONS)
        except Contradiction:
            raise Inapplicable("no such shapes") from None
        order = sorted(self.now, key=lambda v: v not in caps)
        for var in order:
            lo, hi = system.domains.of(var)
            aim = lo if least else min(caps.get(var, self.now[var]), self.now[var])
            wanted = sorted(range(lo, hi + 1), key=lambda x: abs(x - aim))
            if not any(system.assign(var, value, value) for value in wanted[:64]):
                return None
        found = {var: system.domains.of(var)[0] for var in order}
        return found if self._holds(constraints, found) else None

    def _smt(self, limits: list[BoolExpr]) -> dict[Var, int]:
        with SmtSolver(0) as solver:
            solver.add(self.constraints)
            solver.add(limits)
            model = solver.check()
        if model is None:
            raise Inapplicable("no such shapes")
        return {**{v: v.lo for v in self.now}, **model}

    def _holds(self, constraints: list[BoolExpr], found: Mapping[Var, int]) -> bool:
        memo: dict[object, object] = {}
        return all(evaluate(c, found, memo) for c in constraints)

    def concrete(self, env: Mapping[Var, int]) -> Graph:
        """The graph under other values, its types inferred anew. Raises: Inapplicable."""
        types = {
            name: self.types[name].concrete(env)
            for name in (*self.graph.inputs, *self.graph.weights)
        }
        ops = iter([op.concrete(env) for op in self.ops])
        return rebuilt(self.graph, types, lambda op, old, new: (next(ops),))


def propose_less(subject: Subject) -> Iterator[Edit]:
    """All dimensions to at most 4, 16, 64 ... or half of them, while some tensor is large."""
    if max((v.type.elements for v in subject.graph.values.values()), default=0) <= BEYOND:
        return
    try:
        symbolic = OpenSizes(subject.graph)
    except Inapplicable:
        return
    largest = max((symbolic.now[var] for var in symbolic.dimensions()), default=0)
    for cap in (*(c for c in LARGE_CAPS if c < largest), 0):
        yield from (Edit("shrinking", "*", [cap, end]) for end in ENDS)


def propose_shrinking(subject: Subject) -> Iterator[Edit]:
    """All dimensions to at most 1, 2, 3 ..., half of them; then each by itself, the largest first.

    value: [cap, or 0 for half; which elements stay]: the first ones ("head"), the last ones
    ("tail"), or those around the failing one (FOCUS). The sizes of a single dimension approach
    what it is now, so that the least one that fails is found by bisection.
    """
    try:
        symbolic = OpenSizes(subject.graph)
    except Inapplicable:
        return
    dimensions = symbolic.dimensions()
    if not dimensions:
        return
    largest = symbolic.now[dimensions[0]]
    for cap in [c for c in COMMON_CAPS if c < largest]:
        yield from (Edit("shrinking", "*", [cap, end]) for end in ENDS)
    if largest > 2:
        yield from (Edit("shrinking", "*", [0, end]) for end in ENDS[:2])
    for var in dimensions:
        now, place = symbolic.now[var], symbolic.places[var]
        for cap in _caps(now):
            ends = ENDS if cap in (1, 2, _half(now), now - 1) else ENDS[:2]
            yield from (Edit("shrinking", place, [cap, end]) for end in ends)


def _caps(now: int) -> list[int]:
    """1, 2, a half, three quarters, seven eighths ..., one less."""
    nearer = {now - (now >> k) for k in range(1, now.bit_length())}
    return sorted({1, 2, *nearer} & set(range(1, now)))


def _half(size: int) -> int:
    """Rounded up: the first half and the last one have the middle element in common."""
    return size - size // 2


def apply_shrinking(subject: Subject, edit: Edit) -> Subject:
    """target: the dimension, "VALUE.AXIS", or "*" for all of them."""
    symbolic = OpenSizes(subject.graph)
    cap, end = edit.value
    every = edit.target == "*"
    caps = {
        var: max(1, cap or _half(symbolic.now[var]))
        for var, place in symbolic.places.items()
        if place == edit.target or (every and var in set(symbolic.dimensions()))
    }
    if not caps:
        raise Inapplicable(f"{edit.target} is gone")
    graph = symbolic.concrete(symbolic.solved(caps, least=every and cap == 1))
    window = KeptElements(end, subject.graph, graph)
    params = {
        name: fitted(subject.params[name], graph.type(name), window.starts(name))
        for name in (*graph.inputs, *graph.weights)
    }
    return restricted(subject, graph, clipped(graph, params))


class KeptElements:
    """Which elements of parameters stay when a graph shrinks.

    end: "head", "tail" or [output, index]. Around an element, an axis of a parameter belongs to
    the axis of the output that shrinks alike; the one at the same place from the right is
    preferred, as broadcasting has it. Other axes keep their first elements.
    """

    def __init__(self, end: Any, before: Graph, after: Graph) -> None:
        """Raises: Inapplicable if the output is gone."""
        self.end, self.before, self.after = end, before, after
        self._axes: list[tuple[int, int, int]] = []
        if not isinstance(end, str):
            output, index = end
            if output not in before.values or output not in after.values:
                raise Inapplicable(f"the output {output} is gone")
            old, new = before.type(output).sizes, after.type(output).sizes
            if not len(old) == len(new) == len(index):
                raise Inapplicable(f"the output {output} has another rank")
            self._axes = list(zip(old, new, index, strict=True))

    def starts(self, name: str) -> list[int]:
        """The first index that stays, by axis of a parameter."""
        sizes = list(zip(self.before.type(name).sizes, self.after.type(name).sizes, strict=True))
        return [self._start(*size, axis - len(sizes)) for axis, size in enumerate(sizes)]

    def _start(self, size: int, left: int, axis: int) -> int:
        """axis: counted from the right, -1 is the last."""
        if self.end == "tail":
            return size - left
        aligned = self._axes[axis:][:1] if -axis <= len(self._axes) else []
        places = [at for *sizes, at in (*aligned, *self._axes) if sizes == [size, left]]
        return min(max(0, places[0] - left // 2), size - left) if places else 0


# -- ranks ------------------------------------------------------------------------------------


def propose_ranks(subject: Subject) -> Iterator[Edit]:
    """One axis less: in all parameters at once (counted from either end), then in each alone."""
    graph = subject.graph
    ranks = [graph.type(name).rank for name in (*graph.inputs, *graph.weights)]
    most = max(ranks, default=0)
    for axis in [i for k in range(most) for i in (k, -1 - k)]:
        yield Edit("ranks", "*", axis)
    for name in (*graph.inputs, *graph.weights):
        for axis in range(graph.type(name).rank):
            yield Edit("ranks", name, axis)


def apply_rank(subject: Subject, edit: Edit) -> Subject:
    """target: a parameter, or "*" for all of the highest rank. value: the axis that goes."""
    graph = subject.graph
    names = [*graph.inputs, *graph.weights]
    most = max((graph.type(name).rank for name in names), default=0)
    chosen = [n for n in names if edit.target in (n, "*") and _has(graph.type(n), edit, most)]
    if not chosen:
        raise Inapplicable("no such axis")
    types, params = {}, {}
    for name in chosen:
        shape = list(graph.type(name).shape)
        del shape[edit.value]
        types[name] = graph.type(name).with_shape(shape)
        params[name] = subject.params[name].take(0, axis=edit.value)
    cut = rebuilt(graph, types, _of_lower_rank)
    subject = restricted(subject, cut, params)
    return replace(subject, params=clipped(cut, subject.params))


def _has(type_: TensorType, edit: Edit, most: int) -> bool:
    """Whether the axis is there, in one parameter or in all of the highest rank."""
    axis = edit.value
    return -type_.rank <= axis < type_.rank and (edit.target != "*" or type_.rank == most)


def _of_lower_rank(op: OpSpec, old: list[TensorType], new: list[TensorType]) -> Iterator[OpSpec]:
    """The operator for inputs that lost an axis: without each axis in turn, or as it is."""
    if old and new and new[0].rank < old[0].rank:
        for axis in range(old[0].rank):
            yield from _without_axis(op, old[0].rank, axis)
    yield op


def _without_axis(op: OpSpec, rank: int, axis: int) -> Iterator[OpSpec]:
    """Attributes that belong to an axis lose that axis."""
    try:
        changed = {n: _shorter(n, v, rank, axis) for n, v in op.attributes.items()}
    except ValueError:
        return
    if isinstance(op.attributes.get("axes"), tuple) and "steps" in changed:
        changed |= _sliced_less(op, rank, axis)
    yield type(op)(**changed)


def _shorter(name: str, value: Any, rank: int, axis: int) -> object:
    """Raises: ValueError if the attribute is about that axis itself."""
    if name == "axis" and value is not None:
        at = value % rank
        if at == axis:
            raise ValueError
        return at - (at > axis)
    if name == "axes":
        return tuple(a % rank - (a % rank > axis) for a in value if a % rank != axis)
    if name == "perm":
        return tuple(p - (p > axis) for p in value if p != axis)
    if not isinstance(value, tuple):
        return value
    for length, at in ((rank, axis), (rank - 2, axis - 2)):
        if at >= 0 and len(value) == length > 0:
            return value[:at] + value[at + 1 :]
        if at >= 0 and len(value) == 2 * length > 0:
            return tuple(v for i, v in enumerate(value) if i % length != at)
    return value


def _sliced_less(op: OpSpec, rank: int, axis: int) -> dict[str, object]:
    """Starts, ends and steps that go with the axes that stay."""
    stay = [i for i, a in enumerate(op.attributes["axes"]) if a % rank != axis]
    names = ("starts", "ends", "steps")
    return {n: tuple(op.attributes[n][i] for i in stay) for n in names}

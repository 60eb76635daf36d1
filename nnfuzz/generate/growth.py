"""The growing graph: types, placeholders, ranges of values, and a solution of its constraints."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.knowledge import Known, derive, narrowed, unread
from nnfuzz.generate.placeholder import FREE, Placeholder, Plan
from nnfuzz.ir.edges import edge_key
from nnfuzz.ir.expr import Bool, Expr, Int, Var, evaluate, variables
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.types import TensorType
from nnfuzz.solve.session import Session
from nnfuzz.spec.draw import Draw
from nnfuzz.spec.operator import OpSpec


@dataclass(frozen=True, eq=False)
class Mark:
    """A saved state of a `Growth`, for `Growth.restore`."""

    values: dict[str, Value]
    nodes: list[Node]
    placeholders: dict[str, Placeholder]
    known: dict[str, Known]
    loose: dict[str, None]
    makers: dict[str, str]
    exposed: set[str]
    env: dict[Var, int]
    constraints: int


class Growth:
    """The growing graph. `insert` and `precede` either succeed or change nothing."""

    def __init__(self, draw: Draw, session: Session, config: GenerateConfig) -> None:
        self.draw = draw
        self.session = session
        self.config = config
        self.graph = Graph()
        self.placeholders: dict[str, Placeholder] = {}
        self.known: dict[str, Known] = {}
        self.loose: dict[str, None] = {}
        """Values that a node computes and nothing reads, in order."""
        self.makers: dict[str, str] = {}
        """Computed value -> name of its operator."""
        self.exposed: set[str] = set()
        """Values that will be outputs even if something reads them."""
        self._fresh = 0

    def adopt(self, start: Graph) -> None:
        """Begin with a concrete graph. Its inputs and weights become placeholders."""
        self.graph.values.update(start.values)
        self.graph.nodes += start.nodes
        self._fresh = len(start.values)
        indices = set(_index_inputs(start))
        for name in (*start.inputs, *start.weights):
            range_ = start.prescribed.get(name)
            placeholder = Placeholder(name in start.weights, name in indices, range_)
            self.placeholders[name] = placeholder
            self.known[name] = placeholder.known(start.type(name))
        for node in start.nodes:
            types = start.types(node.inputs)
            derived = derive(node.op, types, [self.known[n] for n in node.inputs])
            if derived is None:
                derived = map(unread, start.types(node.outputs))
            self.known.update(zip(node.outputs, derived))
            self.makers.update(dict.fromkeys(node.outputs, node.op.name))
        self.exposed.update(start.outputs)
        readers = start.consumers()
        self.loose.update(dict.fromkeys(n for n in self.makers if not readers[n]))

    # -- insertion ----------------------------------------------------------------------------

    def insert(self, op: OpSpec, plan: Plan, types: Sequence[TensorType], smt: bool) -> bool:
        """Forward insertion: append a node that reads existing values and placeholders."""
        if self.config.avoid and self._avoided_behind(op, plan, types):
            return False
        inputs = [self.known[p] if isinstance(p, str) else p.known(t) for p, t in zip(plan, types)]
        derived = derive(op, types, inputs)
        if derived is None:
            return False
        cut = narrowed(op, inputs)
        news = {p: c for p, k, c in zip(plan, inputs, cut) if isinstance(p, str) and c is not k}
        known = self._revised(news) if news else {}
        if known is None:
            return False
        outputs = op.type_transfer(*types)
        constraints = [*op.requires(*types), *self._limits(outputs)]
        if not self._extend(op, plan, types, outputs, constraints, smt):
            return False
        names = self._declare_inputs(plan, types)
        produced = [self._declare(t, "v") for t in outputs]
        self.graph.nodes.append(Node(op, tuple(names), tuple(produced)))
        self.known.update(zip(names, cut))
        self.known.update(known)
        self.known.update(zip(produced, derived))
        self.makers.update(dict.fromkeys(produced, op.name))
        self.loose.update(dict.fromkeys(produced))
        for name in names:
            self.loose.pop(name, None)
        return True

    def place(self, type_: TensorType, placeholder: Placeholder = FREE) -> str | None:
        """The name of a new placeholder; None if it is too large. Something must read it soon."""
        free = [v for v in variables(*type_.shape) if v not in self.session.env]
        if not self.session.extend([], free, partial(self._small, [type_])):
            return None
        return self._declare_placeholder(placeholder, type_)

    def precede(self, op: OpSpec, types: Sequence[TensorType], target: str, smt: bool) -> bool:
        """Backward insertion: a node in front of a placeholder, which stops being one."""
        wanted = self.graph.type(target)
        outputs = op.type_transfer(*types)
        if outputs[0].dtype is not wanted.dtype or outputs[0].rank != wanted.rank:
            return False
        if self.config.avoid and self._avoided_before(op, target):
            return False
        plan: Plan = [Placeholder(p.weight, p.fresh) for p in op.patterns(len(types))]
        constraints = [
            *op.requires(*types),
            *(a == b for a, b in zip(outputs[0].shape, wanted.shape)),
            *self._limits(outputs),
        ]
        derived = derive(op, types, [unread(t) for t in types])
        if derived is None:
            return False
        computed = next(derived)
        news = {} if computed.same(unread(wanted)) else {target: computed}
        known = self._revised(news)
        if known is None or not self._extend(op, plan, types, outputs, constraints, smt):
            return False
        names = self._declare_inputs(plan, types)
        produced = [target, *(self._declare(t, "v") for t in outputs[1:])]
        self.graph.nodes.insert(0, Node(op, tuple(names), tuple(produced)))
        self.known.update(known)
        self.known.update(zip(produced[1:], derived))
        self.known.update(zip(names, narrowed(op, [self.known[name] for name in names])))
        self.makers.update(dict.fromkeys(produced, op.name))
        self.loose.update(dict.fromkeys(produced[1:]))
        del self.placeholders[target]
        return True

    def _extend(
        self,
        op: OpSpec,
        plan: Plan,
        types: Sequence[TensorType],
        outputs: Sequence[TensorType],
        constraints: list[Bool],
        smt: bool,
    ) -> bool:
        if op.refusal(self.config.exporter, self.config.opset, *types):
            return False
        fresh = [t for p, t in zip(plan, types) if not isinstance(p, str)]
        free = [v for v in variables(*_dims(fresh), *_symbols(op)) if v not in self.session.env]
        return self.session.extend(
            constraints, free, partial(self.affordable, op, types, outputs), smt
        )

    def _limits(self, outputs: Sequence[TensorType]) -> Iterator[Bool]:
        for type_ in outputs:
            top = self.config.sizes.dim(type_.rank)
            for dim in type_.shape:
                yield dim >= 1
                yield dim <= top

    def affordable(
        self,
        op: OpSpec,
        types: Sequence[TensorType],
        outputs: Sequence[TensorType],
        env: dict[Var, int],
        memo: dict[Expr, int],
    ) -> bool:
        """Whether a node stays within the size and cost limits under `env`."""
        if not self._small((*types, *outputs), env, memo):
            return False
        concrete = [t.concrete(env, memo) for t in types]
        return op.concrete(env, memo).cost(*concrete) <= self.config.sizes.max_flops

    def _small(
        self, types: Sequence[TensorType], env: dict[Var, int], memo: dict[Any, Any]
    ) -> bool:
        limit = self.config.sizes.max_numel
        return all(math.prod(evaluate(d, env, memo) for d in t.shape) <= limit for t in types)

    # -- going back ---------------------------------------------------------------------------

    def mark(self) -> Mark:
        """The present state, for `restore`."""
        graph, session = self.graph, self.session
        return Mark(
            dict(graph.values),
            list(graph.nodes),
            dict(self.placeholders),
            dict(self.known),
            dict(self.loose),
            dict(self.makers),
            set(self.exposed),
            session.env,
            len(session.constraints),
        )

    def restore(self, mark: Mark) -> None:
        """Undo the insertions since the mark. None of them may have asked Z3."""
        self.graph.values, self.graph.nodes = mark.values, mark.nodes
        self.placeholders, self.known, self.loose = mark.placeholders, mark.known, mark.loose
        self.makers, self.exposed = mark.makers, mark.exposed
        self.session.env = mark.env
        del self.session.constraints[mark.constraints :]

    # -- edges to keep away from --------------------------------------------------------------

    def _avoided_behind(self, op: OpSpec, plan: Plan, types: Sequence[TensorType]) -> bool:
        """Whether a new node that reads existing values would make an edge to avoid."""
        return any(
            edge_key(self.makers[p], op.name, t.dtype.value) in self.config.avoid
            for p, t in zip(plan, types)
            if isinstance(p, str) and p in self.makers
        )

    def _avoided_before(self, op: OpSpec, target: str) -> bool:
        """Whether computing a placeholder by `op` would make an edge to avoid."""
        dtype = self.graph.type(target).dtype.value
        return any(
            edge_key(op.name, node.op.name, dtype) in self.config.avoid
            for node in self.graph.nodes
            if target in node.inputs
        )

    # -- numbers ------------------------------------------------------------------------------

    def _revised(self, news: dict[str, Known]) -> dict[str, Known] | None:
        """Ranges of all values that a new node affects; None if that leaves no valid input."""
        found = dict(news)
        for node in self.graph.nodes:
            if not any(name in found for name in node.inputs):
                continue
            inputs = [found.get(name) or self.known[name] for name in node.inputs]
            derived = derive(node.op, self.graph.types(node.inputs), inputs)
            if derived is None:
                return None
            cut = zip(node.inputs, inputs, narrowed(node.op, inputs))
            found.update((name, known) for name, before, known in cut if known is not before)
            found.update(zip(node.outputs, derived))
        return found

    # -- names --------------------------------------------------------------------------------

    def _declare(self, type_: TensorType, stem: str) -> str:
        name = f"{stem}{self._fresh}"
        self._fresh += 1
        self.graph.values[name] = Value(name, type_)
        return name

    def _declare_inputs(self, plan: Plan, types: Sequence[TensorType]) -> list[str]:
        return [
            source if isinstance(source, str) else self._declare_placeholder(source, type_)
            for source, type_ in zip(plan, types)
        ]

    def _declare_placeholder(self, placeholder: Placeholder, type_: TensorType) -> str:
        name = self._declare(type_, "p")
        self.placeholders[name] = placeholder
        self.known[name] = placeholder.known(type_)
        return name


def _index_inputs(graph: Graph) -> Iterator[str]:
    """Values whose elements are bounded by shapes, and integers of opaque nodes."""
    for node in graph.nodes:
        for name, pattern in zip(node.inputs, node.op.patterns(len(node.inputs))):
            if pattern.fresh or (not node.op.weight and not graph.type(name).dtype.is_float):
                yield name


def _dims(types: Sequence[TensorType]) -> list[Int]:
    return [d for t in types for d in t.shape]


def _symbols(op: OpSpec) -> list[Expr]:
    found = []
    for value in op.attributes.values():
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Expr):
                found.append(item)
    return found

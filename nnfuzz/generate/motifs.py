"""Inserts motifs (nnfuzz.operators.motif) into a growing graph, some of them as near misses."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from nnfuzz.generate.catalog import Catalog, OpSignature
from nnfuzz.generate.growth import Growth
from nnfuzz.generate.misses import GROUPS, KINDS, Call, bringing
from nnfuzz.generate.values import (
    FREE,
    INDEX,
    TOGETHER,
    Placeholder,
    Plan,
    placeholders,
)
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.expr import Int
from nnfuzz.ir.graph import Node
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.draw import Draw, NoOptionError
from nnfuzz.operators.motif import Misfit, Motif, Operand
from nnfuzz.operators.operator import In, OpSpec


class MissingOperator(Misfit):
    """An operator of the motif is not in the catalog."""


@dataclass(frozen=True)
class NearMiss:
    """How to change a motif into a near miss.

    kinds: of nnfuzz.generate.misses, tried in this order. start: number, from 1, of the motif's
    first operator that may be changed. needed: whether the motif is refused if no kind applies.
    """

    kinds: Sequence[str] = ()
    start: int = 1
    needed: bool = False


EXACT = NearMiss()
SPARE = 2
"""How many nodes beside a skeleton a graph has room for, since a near miss inserts some."""
DEPLOYED = 0.9
"""Probability that the parameters of all nodes of a skeleton are constants."""
STYLES = ("scalar", "scalar", "scalar", "one", "rank")
"""Shapes of a one-element constant: rank 0, rank 1, or the rank of the other operand."""
ONE_STYLE = 0.8
"""Probability that all constants of a motif have shapes of one style, as exporters write them."""
READ = 0.5
"""Probability that an exact motif's result gets a reader, since optimisers may leave a result of
the model alone."""
READERS = ("Relu", "Tanh", "Abs", "Neg", "Not", "Identity")
"""The operators that may read a motif's result; at least one of them takes each dtype."""
USUAL = 0.8
"""Probability that all nodes of a skeleton are written as exporters write them."""
TWICE = 0.3
"""Probability that an operator is changed by two kinds of near misses."""
ANYWHERE = 0.5
"""Probability that a near miss changes an operator after a random position, not from the first."""
FAVOURED = 0.7
"""Probability that kinds of near misses that insert an operator of the focus are tried first."""


def drawn_miss(draw: Draw, motif: Motif, focus: Collection[str] = ()) -> NearMiss:
    """A random near miss of a motif, by the kinds of one group.

    One group is tried at a time, so that kinds that apply nearly everywhere do not displace the
    others. focus: names of operators.
    """
    first = _kind(draw, focus)
    others = [kind for kind in GROUPS if GROUPS[kind] == GROUPS[first] and kind != first]
    place = draw.integer(1, motif.size) if draw.chance(ANYWHERE) else 1
    return NearMiss([first, *draw.shuffled(others)], place)


def _kind(draw: Draw, focus: Collection[str]) -> str:
    """A kind of near miss; with a focus, mostly one that inserts an operator of it."""
    first = bringing(focus) if focus and draw.chance(FAVOURED) else ()
    return draw.choice(first or tuple(KINDS))


def plant(
    motif: Motif,
    catalog: Catalog,
    growth: Growth,
    start: str,
    near: NearMiss = EXACT,
    goal: int = 0,
) -> str | None:
    """Insert a motif after the value `start`. Returns the kind of near miss, "" for the exact
    pattern, None if it does not fit.

    goal: nodes that the graph may have, if more than configured. Raises: MissingOperator. After an
    exception or None, the graph holds part of the motif, which Growth.restore removes.
    """
    room, together = (motif.size + SPARE, DEPLOYED) if motif.skeleton else (0, TOGETHER)
    writer = MotifWriter(catalog, growth, near, room, together, goal)
    try:
        motif.write(writer, start)
    except MissingOperator:
        raise
    except Misfit:
        return None
    except (ValueError, TypeError, LookupError, ArithmeticError):
        if not writer.missed:
            raise
        return None  # The motif cannot continue after the near miss (shape, number of outputs).
    return writer.missed


def read_last(catalog: Catalog, growth: Growth) -> None:
    """With probability READ, let one of READERS read the last value of the graph."""
    writer = MotifWriter(catalog, growth, room=SPARE)
    if not writer.draw.chance(READ):
        return
    name = growth.graph.nodes[-1].outputs[0]
    for op in writer.draw.shuffled(READERS):
        if (spec := catalog.find(op)) and writer.insert(Call(spec, (name,), {})):
            return


class MotifWriter:
    """The implementation of nnfuzz.operators.motif.Writer on a growing graph."""

    def __init__(
        self,
        catalog: Catalog,
        growth: Growth,
        near: NearMiss = EXACT,
        room: int = 0,
        together: float = TOGETHER,
        goal: int = 0,
    ) -> None:
        self.catalog = catalog
        self.growth = growth
        self.draw = growth.store.writing
        self.missed = ""
        """The kind of near miss that was made, or ""."""
        self.constants: list[str] = []
        """The weights that hold the numbers of the operators written so far."""
        self._constant = self.draw.chance(together)
        """Whether the parameters of all nodes are constants."""
        self._given = bool(room) and self._constant
        """Whether new values that are no parameters become inputs of the model, as in deployed
        models."""
        self._style = self.draw.choice(STYLES) if self.draw.chance(ONE_STYLE) else ""
        """The style of all constants' shapes; "" if each has its own."""
        self._usual = self._given and self.draw.chance(USUAL)
        """Whether every node is written as exporters write it (`OpSpec.usual`)."""
        self._near = near
        self._further: tuple[str, type[OpSpec]] | None = None
        """While one operator is changed in two ways: the second kind, and the operator."""
        self._most = max(growth.config.nodes, goal, len(growth.graph.nodes) + room)
        self._step = 0

    def type(self, name: str) -> TensorType:
        return self.growth.graph.type(name)

    def node(self, name: str) -> Node:
        nodes = self.growth.graph.nodes
        found = next((node for node in reversed(nodes) if name in node.outputs), None)
        if found is None:
            raise Misfit(f"nothing computes {name}")
        return found

    def shape(self, name: str) -> tuple[Int, ...]:
        return self.type(name).shape

    def weight(self, like: str, *shape: Int) -> TensorType:
        return TensorType(self.type(like).dtype, shape)

    def dim(self, rank: int) -> Int:
        return self.draw.dim(rank)

    def free(self, type_: TensorType) -> str:
        return self._placed(type_, replace(FREE, given=self._given))

    def _placed(self, type_: TensorType, placeholder: Placeholder) -> str:
        name = self.growth.place(type_, placeholder)
        if name is None:
            raise Misfit(f"{type_} is too large")
        return name

    def shared(self, type_: TensorType, *ends: float) -> str:
        placeholder = replace(_parameter(type_.dtype, *ends), constant=self._constant)
        name = self.growth.place(type_, placeholder)
        if name is None or not all(type_.dtype.holds(end) for end in ends):
            raise Misfit(f"{type_} of {ends}")
        return name

    def index(self, type_: TensorType, constant: bool = False) -> str:
        fixed = self._given and constant
        return self._placed(type_, replace(INDEX, given=self._given and not fixed, constant=fixed))

    def takes(self, op: str) -> bool:
        return self.catalog.find(op) is not None

    def __call__(self, op: str, *operands: Operand, **attributes: Any) -> Any:
        spec = self.catalog.find(op)
        if spec is None:
            raise MissingOperator(op)
        if self._usual:
            attributes = {**spec.usual, **attributes}
        call = Call(spec, operands, attributes)
        self._step += 1
        outputs = None
        if self._near.kinds and not self.missed and self._near.start <= self._step:
            outputs = self._missing(call)
        outputs = outputs or self.insert(call)
        if outputs is None:
            raise Misfit(f"{op}{operands} {attributes}")
        return outputs[0] if len(outputs) == 1 else outputs

    def _missing(self, call: Call) -> tuple[str, ...] | None:
        """The outputs of the call changed into a near miss; None if no kind applies."""
        mark = self.growth.mark()
        for name in self._near.kinds:
            if self.draw.chance(TWICE):
                self._further = _kind(self.draw, self.growth.config.focus), call.spec
            outputs = self._missing_as(name, call)
            self._further = None
            if outputs is not None:
                self.missed = name
                return outputs
            self.growth.restore(mark)
        return None

    def _missing_as(self, kind: str, call: Call) -> tuple[str, ...] | None:
        """The outputs of the call changed by one kind; None if the kind does not apply. The caller
        then removes the nodes inserted so far."""
        try:
            return KINDS[kind](self, call)
        except (Misfit, LookupError, ArithmeticError, TypeError):
            # Examples: the dtype lacks a number, an axis does not exist, there are no groups, a
            # condition is symbolic.
            return None

    # -- insertion ----------------------------------------------------------------------------

    def insert(self, call: Call) -> tuple[str, ...] | None:
        """The outputs of a new node for the call; None if it does not fit."""
        if self._further and call.spec is self._further[1]:
            (kind, _), self._further = self._further, None
            mark = self.growth.mark()
            if outputs := self._missing_as(kind, call):
                return outputs
            self.growth.restore(mark)
        if len(self.growth.graph.nodes) >= self._most:
            return None
        style = self._style or self.draw.choice(STYLES)
        binding = self.binding(call)
        if binding is None:
            return None
        # Second try: without scalars, which some exporters refuse. Third try: variables in place of
        # numbers, which propagation decides.
        tries = ((style, self.draw), ("one", self.draw), ("one", self.growth.store.draws[-1]))
        try:
            if any(self._inserted(call, {**binding}, *how) for how in tries):
                node = self.growth.graph.nodes[-1]
                self.constants += [n for n, o in zip(node.inputs, call.operands) if _number(o)]
                return node.outputs
        except NoOptionError:
            return None
        except IndexError:
            if not call.attributes:
                raise  # Otherwise the attributes may name an axis of another operator.
        return None

    def _inserted(self, call: Call, binding: dict[str, DType], style: str, draw: Draw) -> bool:
        spec, count = call.spec, max(len(call.operands), call.spec.arity()[0])
        patterns = spec.patterns(count)
        signature = self._signature(call, binding)
        if signature is None:
            return False
        for pattern in patterns:
            binding.setdefault(pattern.var, signature.binding[pattern.var])
        dtypes = [binding[p.var] for p in patterns]
        given_types = [None if _number(o) else self._type_of(o) for o in call.operands]
        rank = max([t.rank for t in given_types if t is not None], default=0)
        types = [
            t or TensorType(d, _ones(style, max(rank, p.ranks[0]), p.ranks[0]))
            for t, d, p in zip(given_types, dtypes, patterns)
        ]
        if not _fitting(patterns, types) or not self._indexes(call, patterns):
            return False
        given = call.attributes
        op = spec.draw_given(draw, given, *types) if given else spec.draw(draw, *types)
        if op.output not in given:
            signature.settle(op)
        if len(types) < count:
            types += op.complete(draw, types[0], dtypes)[len(types) :]
        if len(types) != count or not _fitting(patterns, types):
            return False  # An attribute may require further inputs.
        if any(condition is False for condition in op.requires(*types)):
            return False  # Changed attributes may leave the operator without outputs.
        if not self.catalog.admits(spec, binding, op.output_dtype(*types)):
            return False
        plan: Plan = [self._source(o, d, p) for o, d, p in zip(call.operands, dtypes, patterns)]
        plan += placeholders(self.draw, patterns[len(plan) :], self._constant)
        return self.growth.insert(op, plan, types, smt=False)

    def _source(self, operand: Operand, dtype: DType, pattern: In) -> str | Placeholder:
        if isinstance(operand, str):
            return operand
        if isinstance(operand, TensorType):
            return Placeholder(True, pattern.fresh, constant=self._constant)
        return _parameter(dtype, operand)

    def _indexes(self, call: Call, patterns: Sequence[In]) -> bool:
        """Whether indices stay in range: no node computes them, or they depend on shapes only."""
        placeholders = self.growth.placeholders
        return all(
            not p.index
            or not isinstance(o, str)
            or (placeholders[o].fixed if o in placeholders else self._decided(o))
            for o, p in zip(call.operands, patterns)
        )

    def _decided(self, name: str) -> bool:
        """Whether a value depends on shapes only, as that of Range does."""
        for node in reversed(self.growth.graph.nodes):
            if name in node.outputs:
                return node.op.constant or all(map(self._decided, node.inputs))
        return False

    def _type_of(self, operand: Operand) -> TensorType:
        if isinstance(operand, str):
            return self.growth.graph.values[operand].type
        return operand  # type: ignore[return-value]

    def binding(self, call: Call) -> dict[str, DType] | None:
        """The dtype of each type variable; variables of constants alone get a fitting dtype. None
        if the operands' dtypes differ, or there are too many."""
        if len(call.operands) > call.spec.arity()[1]:
            return None
        binding: dict[str, DType] = {}
        patterns = call.spec.patterns(max(len(call.operands), len(call.spec.inputs)))
        constants = []
        for operand, pattern in zip(call.operands, patterns):
            if _number(operand):
                constants.append((operand, pattern))
                continue
            dtype = self._type_of(operand).dtype
            if binding.setdefault(pattern.var, dtype) is not dtype:
                return None
        for number, pattern in constants:
            near = [d for d in (*binding.values(), *pattern.dtypes) if d in pattern.dtypes]
            holding = binding.get(pattern.var) or next((d for d in near if d.holds(number)), None)
            if holding is None or not holding.holds(number):
                return None
            binding[pattern.var] = holding
        first = {p.var: p for p in reversed(patterns)}
        return binding if all(d in first[v].dtypes for v, d in binding.items()) else None

    def _signature(self, call: Call, binding: dict[str, DType]) -> OpSignature | None:
        """A random signature with the operands' dtypes and, if given, the output's."""
        name = call.spec.output
        output = call.attributes.get(name) if isinstance(name, str) else None
        fitting = self.catalog.fitting(call.spec, binding, output)
        return fitting.pick(self.draw) if fitting else None


def _fitting(patterns: Sequence[In], types: Sequence[TensorType]) -> bool:
    return False not in [p.ranked(len(t.shape)) for p, t in zip(patterns, types)]


def _number(operand: Operand) -> TypeGuard[float]:
    return isinstance(operand, int | float)


def _ones(style: str, rank: int, least: int) -> tuple[int, ...]:
    """The shape of a one-element constant. style: one of STYLES."""
    return (1,) * max(least, {"scalar": 0, "one": 1, "rank": rank}[style])


def _parameter(dtype: DType, *ends: float) -> Placeholder:
    """A weight whose elements have one value, or lie between two."""
    numbers = [float(end) for end in ends]
    return Placeholder(True, bool(ends), (numbers[0], numbers[-1]) if ends else None)

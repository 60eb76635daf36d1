"""Finds operators with attributes ("instances of a spec") that are provably equivalent to ONNX
nodes.

A group usually has one node. It has several where a value between them has an unknown size.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import onnx
import torch

from nnfuzz.ir.types import TensorType
from nnfuzz.materialize.guessing import guessed
from nnfuzz.materialize.meaning import COSTLIEST, defaults, difference, lowering, means
from nnfuzz.materialize.protos import schema_of
from nnfuzz.materialize.regions import NodeGroup
from nnfuzz.materialize.static import StaticModel
from nnfuzz.operators.operator import OpSpec, flatten

MISTYPED = 10.0
"""Added to the distance between an instance and a node for each output of another type."""
T = TypeVar("T")
CONSTANTS = 5
"""Most constant inputs for which both uses, as operand and as attribute, are tried."""


@dataclass(frozen=True)
class BoundOperator:
    """An operator with the names, in the model, of its inputs and outputs.

    Outputs that the model leaves out have names of their own.
    """

    op: OpSpec
    inputs: list[str]
    outputs: list[str]


class Unmatched(ValueError):
    """An instance that is not equivalent to the node; the message says why."""


def by_name(source: StaticModel, group: NodeGroup, spec: type[OpSpec]) -> BoundOperator | None:
    """The equivalent instance whose attributes the spec reads (`from_onnx`), or None."""
    try:
        return _read(source, group, spec)
    except Exception:
        return None


def _read(source: StaticModel, group: NodeGroup, spec: type[OpSpec]) -> BoundOperator:
    """`by_name`, but raises an exception if there is no instance."""
    fields, inputs = _fields(source, group, spec)
    takes = [source.types[n] for n in inputs]
    gives = [source.types[n] for n in group.results if n in source.types]
    return _checked(source, group, spec.from_onnx(fields, takes, gives), inputs)


def by_lowering(source: StaticModel, group: NodeGroup, spec: type[OpSpec]) -> BoundOperator | None:
    """The instance whose attributes were guessed so that it lowers to the node, or None."""
    for inputs in _operands(source, group, spec):
        try:
            return _guess(source, group, spec, inputs)
        except Exception:
            continue
    return None


def _guess(
    source: StaticModel, group: NodeGroup, spec: type[OpSpec], inputs: list[str]
) -> BoundOperator:
    """`by_lowering` for given inputs of the node. Raises: any exception if there is no instance."""
    takes = [source.types[n] for n in inputs]
    gives = [source.types[n] for n in group.results if n in source.types]
    measure = partial(_distance, source, group, inputs)
    op, distance = guessed(spec, _all_fields(source, group, spec), takes, gives, measure)
    if distance >= MISTYPED:
        raise Unmatched("no attributes under which it lowers to the node")
    return _checked(source, group, op, inputs)


def refusals(source: StaticModel, group: NodeGroup, spec: type[OpSpec]) -> Iterator[Exception]:
    """Why no instance of a spec is equivalent to the node: one exception for each attempt."""
    ways = [partial(_read, source, group, spec)]
    ways += [partial(_guess, source, group, spec, i) for i in _operands(source, group, spec)]
    for way in ways:
        try:
            way()
        except Exception as error:
            yield error


def _distance(source: StaticModel, group: NodeGroup, inputs: Sequence[str], op: OpSpec) -> float:
    """How much an instance differs from the node; infinite if it cannot be lowered."""
    try:
        return _measured(source, group, inputs, op)
    except Exception:  # its attributes contradict each other
        return math.inf


def _measured(source: StaticModel, group: NodeGroup, inputs: Sequence[str], op: OpSpec) -> float:
    lowered = lowering(op, inputs, source)
    found = difference(lowered.graph, group, source, op.schema)
    inferred = op.type_transfer(*(source.types[n] for n in inputs))
    for name, type_ in zip(lowered.names(group), inferred):
        found += 0 if type_.same(source.types.get(name, type_)) else MISTYPED
    found += 3 * len({n for n in group.results if n} - set(lowered.names(group)))
    return found + 0.5 * any(c is False for c in op.requires(*(source.types[n] for n in inputs)))


def _checked(source: StaticModel, group: NodeGroup, op: OpSpec, inputs: list[str]) -> BoundOperator:
    """The instance, after checks that it is valid, has the node's types and is equivalent.

    Raises: ConstraintError, Unmatched.
    """
    takes = [source.types[n] for n in inputs]
    op.check(*takes)
    for attribute in _undeclared(op):
        raise Unmatched(f"{attribute} has a value that is not declared")
    names = lowering(op, inputs, source).names(group)
    if {n for n in group.results if n} - {*names}:
        raise Unmatched("it lacks an output of the node")
    inferred = op.type_transfer(*takes)
    same = all(t.same(source.types.get(n, t)) for n, t in zip(names, inferred, strict=True))
    if not same:
        raise Unmatched("its outputs have other types")
    if not means(op, inputs, source, group):
        raise Unmatched("it lowers to what means something else")
    if not _runs(op, takes, inferred):
        raise Unmatched("its reference does not yield the inferred shapes")
    spare = [n or f"{group.results[0]}/{i}" for i, n in enumerate(names)]
    source.types.update((n, t) for n, t in zip(spare, inferred) if n not in source.types)
    return BoundOperator(op, inputs, spare)


def _undeclared(op: OpSpec) -> Iterator[str]:
    """Names of attributes whose value differs from their only declared option, of flags that are
    neither 0 nor 1, and of numbers below 0 where no option is."""
    for name, declared in op.declared.items():
        only, value = getattr(declared, "options", None), op.attributes[name]
        if isinstance(only, tuple):
            below = isinstance(value, float) and value < 0 and not any(o and o < 0 for o in only)
            strict = len(set(only)) == 1 or {*only} == {0, 1}
            if below or (strict and value not in only):
                yield name


def _runs(op: OpSpec, takes: Sequence[TensorType], gives: Sequence[TensorType]) -> bool:
    """Whether `torch` runs on zeros or ones and yields the inferred shapes; True if that is costly.
    Zeros may be invalid divisors, and ones invalid indices."""
    return op.cost(*takes) > COSTLIEST or any(_yields(op, takes, gives, x) for x in (0, 1))


def _yields(
    op: OpSpec, takes: Sequence[TensorType], gives: Sequence[TensorType], number: int
) -> bool:
    operands = [torch.full(t.sizes, number, dtype=t.dtype.torch) for t in takes]
    try:
        return [tuple(y.shape) for y in flatten(op.torch(*operands))] == [t.sizes for t in gives]
    except Exception:  # whatever PyTorch raises
        return False


def _operands(source: StaticModel, group: NodeGroup, spec: type[OpSpec]) -> Iterator[list[str]]:
    """Candidates for the spec's inputs: those of the node, without some of the constants."""
    given = [name for name in _ordered(spec, group.operands) if name]
    least, most = spec.arity()[0], spec.most_inputs()
    held = [name for name in given if name in source.types]
    spare = [i for i, name in enumerate(given) if name in source.constants]
    if len(spare) > CONSTANTS:
        spare = spare[-CONSTANTS:]
    for count in range(len(spare) + 1):
        for gone in itertools.combinations(spare, count):
            names = [name for i, name in enumerate(given) if i not in gone]
            if least <= len(names) <= most and set(names) <= set(held):
                yield names


def _ordered(spec: type[OpSpec], given: Sequence[T]) -> Sequence[T]:
    """What belongs to the inputs of a node, in the spec's order of inputs."""
    return [given[i] for i in spec.order if i < len(given)] or given


def _all_fields(source: StaticModel, group: NodeGroup, spec: type[OpSpec]) -> dict[str, Any]:
    """Attributes and small constants of all nodes, by ONNX name; None for those left out. If
    several nodes have a name, the first node counts."""
    fields: dict[str, Any] = {}
    for node in reversed(group.nodes):
        schema = schema_of(node, source.opset, spec.schema)
        fields |= dict.fromkeys((*(i.name for i in schema.inputs), *schema.attributes))
        given = defaults(node, source.opset, spec.schema)
        fields |= {name: _value(value) for name, value in given.items()}
        for name, own in zip(node.input, _formal(node, schema)):
            if name in source.constants and source.constants[name].size <= 16:
                fields[own] = _value(source.constants[name].tolist())
    return fields


def _formal(node: onnx.NodeProto, schema: onnx.defs.OpSchema) -> list[str]:
    """The name that the schema gives to each input of a node."""
    last = len(schema.inputs) - 1
    return [schema.inputs[min(i, last)].name for i in range(len(node.input))]


def _fields(
    source: StaticModel, group: NodeGroup, spec: type[OpSpec]
) -> tuple[dict[str, Any], list[str]]:
    """The spec's attributes, from attributes and constant inputs of the node; and the other inputs.

    Raises: ValueError if the group has several nodes.
    """
    (node,) = group.nodes
    schema = schema_of(node, source.opset, spec.schema)
    given = defaults(node, source.opset, spec.schema)
    fields = {name: _value(value) for name, value in given.items()}
    inputs = []
    for name, formal in _ordered(spec, list(zip(node.input, _formal(node, schema)))):
        if formal in (*spec.declared, *spec.constant_inputs) and (
            not name or name in source.constants
        ):
            fields[formal] = _value(source.constants[name].tolist()) if name else None
        elif name:
            inputs.append(name)
        else:
            fields[formal] = None
    for left_out in schema.inputs[len(node.input) :]:
        fields.setdefault(left_out.name, None)
    return fields, inputs


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return tuple(map(_value, value)) if isinstance(value, list) else value

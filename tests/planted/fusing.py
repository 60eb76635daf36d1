"""A compiler whose optimised level rewrites two neighbours wrongly, by seven rules.

    nnfuzz fuzz --plugin tests/planted/fusing.py -b fusing --tests 600
    python -m scripts.check.triage CAMPAIGN --truth tests/planted/fusing.py

Relu and Clip are merged in both orders, by a rule each; one rule accepts three operators; one
forgets that other nodes read the first of two as well; one kernel is wrong at every level.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import numpy as np
import onnx

from nnfuzz.backend.registry import backend

sys.path.append(str(Path(__file__).parents[2]))

from tests.planted.faults import Arrays, Faults, FaultyBackend, FaultyCompiler, dying, same

FAULTS = Faults()
RULES: dict[str, Callable[[onnx.GraphProto], None]] = {}


def pairs(graph, firsts, seconds) -> Iterator[tuple[onnx.NodeProto, onnx.NodeProto]]:
    """Pairs of a node and one that reads its result as first input, of the given operators."""
    made = {name: node for node in graph.node for name in node.output}
    for node in graph.node:
        first = made.get(node.input[0]) if node.input else None
        if first is not None and first.op_type in firsts and node.op_type in seconds:
            yield first, node


def become(node, op, *inputs):
    """The node computes something else under its old name."""
    node.op_type = op
    del node.attribute[:], node.input[:]
    node.input.extend(inputs)


def rule(function):
    RULES[function.__name__] = function
    return function


@rule
def relu_after_clip(graph):
    """Relu is lost behind Clip, whatever its lower bound."""
    for first, second in pairs(graph, ["Clip"], ["Relu"]):
        become(second, "Identity", first.output[0])


@rule
def clip_after_relu(graph):
    """Relu is lost before Clip."""
    for first, second in pairs(graph, ["Relu"], ["Clip"]):
        second.input[0] = first.input[0]


@rule
def cast_of_cast(graph):
    """The first of two casts is lost, even one that rounds."""
    for first, second in pairs(graph, ["Cast"], ["Cast"]):
        second.input[0] = first.input[0]


@rule
def own_inverse(graph):
    """Each of these operators is taken for the inverse of the one before it."""
    for first, second in pairs(graph, ["Neg", "Abs", "Reciprocal"], ["Neg", "Abs", "Reciprocal"]):
        become(second, "Identity", first.input[0])


@rule
def bias_subtracted(graph):
    """What is added to a product is subtracted."""
    for _, second in pairs(graph, ["MatMul"], ["Add"]):
        second.op_type = "Sub"


@rule
def computed_in_place(graph):
    """Sigmoid behind Mul replaces the product for other readers as well."""
    for first, second in pairs(graph, ["Mul"], ["Sigmoid", "Tanh"]):
        old, new = first.output[0], second.output[0]
        for node in list(graph.node)[list(graph.node).index(second) + 1 :]:
            node.input[:] = [new if name == old else name for name in node.input]


@rule
def transposed_twice(graph):
    """A permutation is taken for its own inverse."""
    for first, second in pairs(graph, ["Transpose"], ["Transpose"]):
        become(second, "Identity", first.input[0])


@FAULTS.kernel("Floor", "Ceil")
def rounded_at_every_level(node, inputs, run):
    """Small numbers are rounded towards zero."""
    return [np.where(abs(inputs[0]) < 1, np.zeros_like(y), y) for y in run()]


KERNELS = FaultyCompiler(FAULTS)
CAUSES = [*RULES, "rounded_at_every_level"]


def optimised(model: onnx.ModelProto, rules: Collection[str]) -> onnx.ModelProto:
    """The model after some of the rules."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    for name in rules:
        RULES[name](copy.graph)
    return copy


def causes_of(model: bytes, feeds: Arrays) -> set[str]:
    """The rules and kernels that make these bytes fail on these inputs. Without a rule that does so
    alone, these are the rules without which the others give another result.
    """
    given, every = onnx.ModelProto.FromString(model), {*RULES}

    def result(rules: Collection[str]) -> object:
        try:
            return FaultyCompiler(()).run(optimised(given, rules), feeds)
        except Exception as error:
            return type(error)

    good = result(())
    alone = {name for name in RULES if not same(good, result({name}))}
    if not alone and not same(good, bad := result(every)):
        alone = {name for name in RULES if not same(bad, result(every - {name}))}
    return alone | KERNELS.causes_of(model, feeds)


@backend
class Fusing(FaultyBackend):
    name = "fusing"
    levels = ("O0", "O2")
    compiler = KERNELS

    def build(self, module: onnx.ModelProto, level: str) -> Callable[[Arrays], Arrays]:
        ready = optimised(module, RULES if level == "O2" else ())
        return lambda inputs: dying(self.compiler.run, ready, inputs)

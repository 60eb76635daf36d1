"""Inputs for a model that others have made: valid ones, or the obstacle to them.

A foreign model holds values that generation avoids: masks of -inf, constants near the greatest
number, integers that mean "look here" or "leave this out". So the search runs several times, under
assumptions that get stronger (`_attempts`); its inputs are tried on the model as it is.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import ml_dtypes
import numpy as np
import onnx

from nnfuzz.backend.interface import TensorSpec
from nnfuzz.inputs.draws import draw_array
from nnfuzz.inputs.program import InvalidCause, Program, index_ranges
from nnfuzz.inputs.search import NotFound, SearchConfig, search
from nnfuzz.ir.dtypes import DType, plain
from nnfuzz.ir.graph import Graph, Node
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize import protos
from nnfuzz.materialize.module import execute, tensors
from nnfuzz.operators.carriers import array, tensor
from nnfuzz.operators.operator import ANY_RANGE, Range
from nnfuzz.testcase.case import ModelError

Arrays = Mapping[str, np.ndarray]
STAND_IN = 1e4
"""The stand-in for infinite or enormous constants while inputs are searched: exp(-1e4) is 0 in
every dtype, as exp(-inf) is."""
TRIALS = 24
"""Draws in which the values around a node are looked at that no inputs suit."""
MODERATE = SearchConfig(moderate=True)
"""Inputs of the usual kind: a wrong kernel must show, and one check has one set of inputs."""
SIZES = (2, 1, 32, 224)
"""Sizes to guess for open dimensions: a batch, words, and pixels."""
KEPT = 2 / 3
"""The share of the last axis that a mask keeps: padding stands at the end."""


class NoInputs(Exception):
    """The search for valid inputs failed; the message has the reason. position: of the node in the
    way, if any.
    """

    def __init__(self, message: str, position: int | None = None) -> None:
        super().__init__(message)
        self.position = position


def search_inputs(graph: Graph, weights: Arrays, seed: int) -> Arrays:
    """Inputs under which no value is NaN or infinite, but for values that infinite constants make
    so.

    A function of the arguments. Raises: NoInputs.
    """
    second: Arrays | None = None
    failed: NotFound | Exception | None = None
    for given in _attempts(graph, weights):
        try:
            searched = search(graph, random.Random(seed), MODERATE, given)
        except Exception as error:  # weights or inputs that an operator cannot take
            failed = failed or error
            continue
        if isinstance(searched, NotFound):
            failed = failed or searched
            continue
        ends = _with_ends(graph, searched.inputs)
        for inputs in (ends, searched.inputs):
            share = _finite(graph, {**inputs, **weights})
            if share == 1:
                return inputs
            second = second or (inputs if share else None)
    if second is not None:
        return second
    if isinstance(failed, NotFound) and failed.violations:
        position = max(failed.violations, key=failed.violations.__getitem__)
        obstacle = _obstacle(graph, weights, position, seed)
        tried = f"it is valid in none of {failed.draws} draws and {failed.steps} gradient steps"
        raise NoInputs(obstacle or tried, position)
    raise NoInputs(f"PyTorch cannot run the model: {failed}")


def guesses(
    declared: Mapping[str, TensorSpec], model: onnx.ModelProto, seed: int
) -> Iterator[dict[str, np.ndarray]]:
    """Inputs that may suit a model of which no graph is known: normal floats, small integers, texts
    that occur in the model; open dimensions of several sizes.
    """
    texts = sorted(_texts(model)) or ["a"]
    for i, (size, (low, high)) in enumerate(itertools.product(SIZES, ((1, 4), (0, 2)))):
        rng = np.random.default_rng([seed, i])
        drawn: dict[str, np.ndarray] = {}
        for name, spec in declared.items():
            shape = [size if n is None else n for n in spec.shape]
            if spec.dtype.kind == "U":
                drawn[name] = rng.choice(texts, shape)
            elif spec.dtype.kind in "biu":
                drawn[name] = rng.integers(low, high, shape).astype(spec.dtype)
            else:
                drawn[name] = rng.standard_normal(shape).astype(spec.dtype)
        yield {name: np.asarray(array) for name, array in drawn.items()}


def _texts(model: onnx.ModelProto) -> Iterator[str]:
    """The strings in the attributes and constants of the main graph, which may be keys."""
    attributes = [a for node in model.graph.node for a in node.attribute]
    kept = [*model.graph.initializer, *(a.t for a in attributes if a.HasField("t"))]
    texts = [*(a.strings for a in attributes), *(tensor.string_data for tensor in kept)]
    for text in itertools.chain(*texts):
        with suppress(UnicodeDecodeError):
            yield text.decode()


def _attempts(graph: Graph, weights: Arrays) -> Iterator[Arrays]:
    """The weights of the searches, one after the other: as they are; with stand-ins for infinities
    and enormous numbers; and with masks for inputs that may be such."""
    tamed = {name: _tamed(value, graph.type(name).dtype) for name, value in weights.items()}
    changed = any(tamed[name] is not weights[name] for name in weights)
    if all(np.isfinite(plain(w)).all() for n, w in weights.items() if graph.type(n).dtype.is_float):
        yield weights
    if changed:
        yield tamed
    if masks := _masks(graph):
        yield {**tamed, **masks}


def _tamed(value: np.ndarray, dtype: DType) -> np.ndarray:
    """The array, with stand-ins for numbers too large to be squared; itself if there are none."""
    if not dtype.is_float:
        return value
    most = math.sqrt(float(ml_dtypes.finfo(dtype.numpy).max))
    wide = value.astype(np.float64)
    large = np.abs(wide) > most
    if not large.any():
        return value
    return np.where(large, np.copysign(min(STAND_IN, most / 4), wide), wide).astype(value.dtype)


def _masks(graph: Graph) -> dict[str, np.ndarray]:
    """Ones with zeros at the end of the last axis, for integer and boolean inputs that are no
    indices."""
    indices = index_ranges(graph)
    masks = {}
    for name in graph.inputs:
        type_ = graph.type(name)
        if name not in indices and not type_.dtype.is_float and type_.dtype.native:
            mask = np.ones(type_.sizes, type_.dtype.numpy)
            if mask.ndim:
                mask[..., math.ceil(mask.shape[-1] * KEPT) :] = 0
            masks[name] = mask
    return masks


def _with_ends(graph: Graph, inputs: Arrays) -> Arrays:
    """The inputs, with the least and the greatest index in those that are indices."""
    ranges = index_ranges(graph)
    made = dict(inputs)
    for name in [name for name in made if name in ranges]:
        made[name] = np.array(made[name])
        if made[name].size > 2:
            made[name].flat[0], made[name].flat[-1] = ranges[name]
    return made


def _finite(graph: Graph, params: Arrays) -> float:
    """The share of the outputs' elements that are finite on the model's own weights."""
    values = execute(graph, tensors({n: params[n] for n in (*graph.inputs, *graph.weights)}))
    outputs = (plain(array(values[n], graph.type(n).dtype)).ravel() for n in graph.outputs)
    finite = np.concatenate([np.isfinite(a) for a in outputs])
    return float(finite.mean()) if finite.size else 1.0


# -- obstacles ------------------------------------------------------------------------------------


def _obstacle(graph: Graph, weights: Arrays, position: int, seed: int) -> str:
    """Why the inputs of a node are invalid, a sentence about the node; "" if no draw gets to it."""
    node = graph.nodes[position]
    bounds = _bounds(graph, weights)
    ranges = [bounds[name] for name in node.inputs]
    if not node.op.feasible(*ranges) and (described := _described(node, ranges)):
        return f"{described} whatever the inputs are, and it is not defined there"
    tamed = {name: _tamed(value, graph.type(name).dtype) for name, value in weights.items()}
    observed, cause = _observed(graph, weights, position, seed)
    if not observed:
        observed, cause = _observed(graph, tamed, position, seed)
    why = (
        "its result is not finite"
        if cause is InvalidCause.FINITE
        else "it is undefined there or overflows"
    )
    described = _described(node, observed)
    return f"{described} in each of {TRIALS} trials, and {why}" if described else ""


def _bounds(graph: Graph, weights: Arrays) -> dict[str, Range]:
    """A range for every value that holds its elements for all inputs."""
    bounds = {name: _admitted(graph.type(name).dtype) for name in graph.values}
    bounds |= {name: _range(weights[name]) for name in graph.weights}
    for node in graph.nodes:
        if len(node.outputs) == 1:
            own = node.op.value_range(*(bounds[name] for name in node.inputs))
            lo, hi = bounds[node.outputs[0]]
            bounds[node.outputs[0]] = max(lo, own[0]), min(hi, own[1])
    return bounds


def _admitted(dtype: DType) -> Range:
    return ANY_RANGE if dtype.is_float else (0, 1) if dtype.is_bool else dtype.limits


def _range(value: np.ndarray) -> Range:
    wide = plain(value).astype(np.float64)
    return (float(wide.min()), float(wide.max())) if wide.size else ANY_RANGE


def _observed(
    graph: Graph, weights: Arrays, position: int, seed: int
) -> tuple[list[Range], InvalidCause | None]:
    """The ranges that a node's inputs have in draws that get to it, and why it was not valid."""
    program, dice = Program(graph), np.random.default_rng(seed)
    hints = index_ranges(graph)
    ranges: list[Range] = []
    cause = None
    for trial in range(TRIALS):
        drawn = {n: draw_array(dice, graph.type(n), hints.get(n), trial) for n in graph.inputs}
        values = {name: tensor(value) for name, value in {**weights, **drawn}.items()}
        violation = program.run(values)
        if violation is None or violation.position != position:
            continue
        cause = violation.cause
        names = graph.nodes[position].inputs
        own = [_range(array(values[n], graph.type(n).dtype)) for n in names]
        ranges = [_union(a, b) for a, b in zip(ranges, own)] if ranges else own
    return ranges, cause


def _union(one: Range, other: Range) -> Range:
    return min(one[0], other[0]), max(one[1], other[1])


def _described(node: Node, ranges: Sequence[Range]) -> str:
    """Which inputs of a node are in which ranges; "" if nothing is known of any."""
    texts = {name: _spoken(range_) for name, range_ in zip(node.inputs, ranges)}
    return " and ".join(f"its input {n!r} is {spoken}" for n, spoken in texts.items() if spoken)


def _spoken(range_: Range) -> str:
    lo, hi = (end + 0.0 for end in range_)  # no -0
    if lo == hi:
        return f"{lo:.6g}"
    if math.isfinite(lo) and math.isfinite(hi):
        return f"between {lo:.6g} and {hi:.6g}"
    if math.isfinite(hi):
        return f"at most {hi:.6g}"
    return f"at least {lo:.6g}" if math.isfinite(lo) else ""


def single_node(
    model: onnx.ModelProto, inputs: Arrays, output: str
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model of the node that computes a value, and its inputs as onnx.reference computes them.

    What does not depend on the model's inputs stays a constant. Raises: ModelError if there is no
    such node, or one of its values is no tensor or cannot be computed.
    """
    node = next((n for n in model.graph.node if output in n.output), None)
    if node is None:
        raise ModelError(f"no node computes {output}")
    values = _values(model, inputs)
    free = _free(model, inputs)
    graph, fed = onnx.GraphProto(name="node", node=[node]), {}
    for name in dict.fromkeys(name for name in node.input if name):
        if name in free:
            fed[name] = _tensor(values, name)
            graph.input.append(protos.value_info(name, _type(fed[name])))
        else:
            graph.initializer.append(protos.constant_proto(name, _tensor(values, name)))
    for name in filter(None, node.output):
        graph.output.append(protos.value_info(name, _type(_tensor(values, name))))
    opset = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    return protos.model(graph, opset), fed


def _values(model: onnx.ModelProto, inputs: Arrays) -> Mapping[str, object]:
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):
            return dict(ReferenceEvaluator(model).run(None, dict(inputs), intermediate=True))
    except Exception as error:  # it is written operator by operator in Python
        raise ModelError(f"onnx.reference: {type(error).__name__}: {error}") from error


def _free(model: onnx.ModelProto, inputs: Arrays) -> set[str]:
    """The names of values that depend on the model's inputs."""
    free = {*inputs}
    for node in model.graph.node:
        if not free.isdisjoint(node.input):
            free.update(node.output)
    return free


def _tensor(values: Mapping[str, object], name: str) -> np.ndarray:
    value = values.get(name)
    if not isinstance(value, (np.ndarray, np.generic)):
        raise ModelError(f"{name} is no tensor")
    return np.asarray(value)


def _type(array: np.ndarray) -> TensorType:
    return TensorType(DType.of(array.dtype), array.shape)

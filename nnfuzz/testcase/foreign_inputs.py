"""Inputs for a model that others have made: valid ones, or the obstacle to them.

A foreign model holds values that generation avoids: masks of -inf, constants near the greatest
number, integers that mean "look here" or "leave this out". So the search runs several times, under
assumptions that get stronger (`_attempts`); its inputs are tried on the model as it is.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping
from contextlib import suppress

import ml_dtypes
import numpy as np
import onnx

from nnfuzz.backend.interface import TensorSpec
from nnfuzz.inputs.program import index_ranges
from nnfuzz.inputs.search import NotFound, SearchConfig, search
from nnfuzz.ir.dtypes import DType, plain
from nnfuzz.ir.graph import Graph
from nnfuzz.materialize.module import execute, tensors
from nnfuzz.materialize.pinning import assignments, open_dimensions
from nnfuzz.operators.carriers import array
from nnfuzz.operators.families.quantized import REDUCED

Arrays = Mapping[str, np.ndarray]
STAND_IN = 1e4
"""The stand-in for infinite or enormous constants while inputs are searched: exp(-1e4) is 0 in
every dtype, as exp(-inf) is."""
MODERATE = SearchConfig(moderate=True)
"""Inputs of the usual kind: a wrong kernel must show, and one check has one set of inputs."""
SIZES = (2, 1, 32, 224)
"""Sizes to guess for all open dimensions, after different ones: a batch, words, and pixels."""
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
        tried = f"{failed.draws} draws and {failed.steps} gradient steps"
        raise NoInputs(f"it overflows or is undefined in all of {tried}", position)
    raise NoInputs(f"PyTorch cannot run the model: {failed}")


def guesses(
    declared: Mapping[str, TensorSpec],
    model: onnx.ModelProto,
    seed: int,
    given: Mapping[str, int] | None = None,
) -> Iterator[dict[str, np.ndarray]]:
    """Inputs that may suit a model of which no graph is known: normal floats, small integers, texts
    that occur in the model; open dimensions of several sizes.

    given: sizes of open dimensions by name, for a single guess in which integers are 0.
    """
    texts, first = sorted(_texts(model)) or ["a"], next(assignments(model.graph))
    named = {v.name: {axis: n for n, axis in open_dimensions(v)} for v in model.graph.input}
    options = [first, *(dict.fromkeys(first, size) for size in SIZES)]
    attempts = itertools.product(options, ((1, 4), (0, 2))) if given is None else [(given, (0, 1))]
    for number, (sizes, ends) in enumerate(attempts):
        rng = np.random.default_rng([seed, number])
        drawn: dict[str, np.ndarray] = {}
        for name, spec in declared.items():
            own = {axis: sizes.get(n, 1) for axis, n in named.get(name, {}).items()}
            shape = [own.get(axis, 1) if n is None else n for axis, n in enumerate(spec.shape)]
            if spec.dtype.kind == "U":
                drawn[name] = rng.choice(texts, shape)
            elif spec.dtype.kind in "biu":
                drawn[name] = rng.integers(*ends, shape).astype(spec.dtype)
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
    """The array, with stand-ins for numbers too large to be squared, and for int8 beyond REDUCED,
    which specs avoid; itself if there are none.
    """
    if dtype is DType.INT8 and (np.abs(plain(value)) > REDUCED).any():
        return value.clip(-REDUCED, REDUCED)
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

"""Reduces a user's model while a command of theirs exits as it does with the whole model.

No compiler and no reference is asked. Nodes are left out, half of them first, then quarters, and at
last one by one; what the rest reads of them becomes an input of the model. Outputs are left out in
the same way. A body of an If, Loop or Scan takes the place of the whole model if the command exits
alike with it; otherwise nodes of the body are left out.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from subprocess import TimeoutExpired
from time import monotonic
from typing import Any

import numpy as np
import onnx

from nnfuzz.base.files import npz_bytes
from nnfuzz.base.programs import run_program
from nnfuzz.base.untrusted import all_nodes
from nnfuzz.materialize import protos
from nnfuzz.materialize.emit import rename_in_place
from nnfuzz.materialize.liveness import keep_only
from nnfuzz.materialize.validity import invalid, types_at_any_depth
from nnfuzz.materialize.walk import bodies, reads
from nnfuzz.reduction.case import NotReduced
from nnfuzz.testcase.extraction import extracted

MODEL, INPUTS = "{}", "{inputs}"
"""Words of a command that stand for the paths of the model and of its inputs (.npz)."""
PATIENCE, LEAST = 10, 10.0
"""A command is ended after so many times the seconds that it takes for the whole model, and no less
than so many seconds: with a part of the model it may hang."""
Arrays = Mapping[str, np.ndarray]
Place = tuple[tuple[int, int], ...]
"""Where a body is: position of a node and of a body of it, in the main graph, in this body, ..."""


@dataclass
class ModelReduction:
    """A model under reduction.

    words: of the command; the path of the model comes last if MODEL is not among them. values:
    arrays by name, of inputs of the model and of values inside of it, if INPUTS is among them.
    budget: most runs of the command. adopt: called with each smaller model with which the command
    exits alike, and its inputs. watch: called with the numbers of runs and of nodes.
    """

    model: onnx.ModelProto
    words: Sequence[str]
    values: Arrays
    budget: int
    adopt: Callable[[onnx.ModelProto, Arrays], None]
    watch: Callable[[int, int], None] = lambda runs, nodes: None
    runs: int = 0
    _limit: float | None = None

    def reduce(self) -> onnx.ModelProto:
        """The smallest model that is found: no node and no output of it can be left out alone,
        unless the budget is spent. Raises: NotReduced if the command exits with 0; OSError if it
        cannot be started.
        """
        self._valid = not invalid(self.model.SerializeToString(), full=False)
        self._types = types_at_any_depth(self.model)
        began, self._code = monotonic(), self._exit_code(self.model)
        if not self._code:
            raise NotReduced("the command exits with 0: there is nothing to reduce")
        self._limit = max(LEAST, PATIENCE * (monotonic() - began))
        best, size = self.model, (0, 0)
        while size != (size := (count_nodes(best), len(best.graph.output))):
            best = self._fewer(best, best.graph.node, partial(self._part, best))
            names = [value.name for value in best.graph.output]
            best = self._fewer(best, names, partial(self._part, best, best.graph.node))
            for place in [*_places(best.graph)][::-1]:  # the bodies inside of a body before it
                body = _body(best.graph, place)
                if (alone := self._alone(best, body)) is not None and self._fails(alone):
                    best = alone
                    break
                made = partial(self._inside, best, place)
                best = self._fewer(best, range(len(body.node)), made)
        return best

    def _fewer(
        self,
        model: onnx.ModelProto,
        items: Sequence[Any],
        made: Callable[[Sequence[Any]], onnx.ModelProto | None],
    ) -> onnx.ModelProto:
        """A model with as few of some items as the command allows, the last ones left out first;
        `model` if it needs all of them. made: the model with some items; None if there is none.
        """
        left, size = list(items), len(items) // 2
        while size:
            count = len(left)
            for end in range(count, 0, -size):
                kept = left[: max(0, end - size)] + left[end:]
                if kept and (smaller := made(kept)) is not None and self._fails(smaller):
                    left, model = kept, smaller
            size = size // 2 or int(len(left) < count)
        return model

    def _fails(self, model: onnx.ModelProto) -> bool:
        """Whether the command exits with a part of the model as it does with the whole."""
        invalid_now = self._valid and invalid(model.SerializeToString(), full=False)
        if self.runs >= self.budget or invalid_now or self._exit_code(model) != self._code:
            return False
        self.adopt(model, self._inputs(model))
        return True

    def _exit_code(self, model: onnx.ModelProto) -> int | None:
        """The exit code of the command for a model; None if it does not end in time."""
        self.runs += 1
        self.watch(self.runs, count_nodes(model))
        with tempfile.TemporaryDirectory() as folder:
            paths = {MODEL: Path(folder, "model.onnx"), INPUTS: Path(folder, "inputs.npz")}
            paths[MODEL].write_bytes(model.SerializeToString())
            paths[INPUTS].write_bytes(npz_bytes(self._inputs(model)))
            words = [*self.words, *([] if MODEL in self.words else [MODEL])]
            with suppress(TimeoutExpired):  # a script of the user's may import its neighbours
                line = [str(paths.get(word, word)) for word in words]
                return run_program(line, {"PYTHONSAFEPATH": ""}, self._limit).returncode
        return None

    def _inputs(self, model: onnx.ModelProto) -> Arrays:
        """What the command is given: zeros for what only a body has, where it takes inputs."""
        held = {tensor.name for tensor in model.graph.initializer}
        read = {v.name: v for v in model.graph.input if self.values and v.name not in held}
        return {n: self.values[n] if n in self.values else _zeros(v) for n, v in read.items()}

    def _part(
        self, model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto], ends: Sequence[str] = ()
    ) -> onnx.ModelProto | None:
        """The model of some nodes. None if the type of a value that they read is unknown.

        ends: its outputs; default: those of `model`, and values that none of the nodes reads.
        """
        made = [name for node in nodes for name in node.output if name]
        read = dict.fromkeys(name for node in nodes for name in reads(node))
        given = {value.name for value in model.graph.output}
        ends = ends or [name for name in made if name in given or name not in read]
        held = {tensor.name for tensor in model.graph.initializer}
        inputs = [value.name for value in model.graph.input if value.name not in held]
        missing = [name for name in read if name not in held.union(made, inputs)]
        if not self._types.keys() >= {*missing}:
            return None
        types = {name: self._types[name] for name in (*inputs, *missing)}
        return extracted(model, types, ends, self._types)

    def _alone(self, model: onnx.ModelProto, body: onnx.GraphProto) -> onnx.ModelProto | None:
        """A body as a model of its own. None if the type of a value that it reads is unknown."""
        free = reads(protos.node("If", [], [""], [protos.attribute("body", body)]))
        held = {tensor.name: tensor for tensor in model.graph.initializer if tensor.name in free}
        if not self._types.keys() >= {*free} - held.keys():
            return None
        alone = onnx.ModelProto()
        alone.CopyFrom(model)
        alone.graph.CopyFrom(body)
        alone.graph.initializer.extend(held.values())
        alone.graph.input.extend(self._types[name] for name in free if name not in held)
        keep_only(alone.graph, [self._types.get(end.name, end) for end in body.output])
        return alone

    def _inside(
        self, model: onnx.ModelProto, place: Place, kept: Sequence[int]
    ) -> onnx.ModelProto | None:
        """The model with only some nodes of a body.

        A value that is no longer computed is replaced by an operand of the node that computed it,
        if one has the same dtype and rank, or else by a new input of the model. None if the type of
        the value is unknown, or if the model does not become smaller.
        """
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        body, names = _body(copy.graph, place), dict[str, str]()
        kinds = {name: _kind(value) for name, value in self._types.items()}
        for node in (node for i, node in enumerate(body.node) if i not in kept):
            for made in filter(None, node.output):
                like = next((n for n in reads(node) if kinds.get(n, 0) == kinds.get(made)), "")
                names[made] = names.get(like, like) or "/".join(map(str, (made, *chain(*place))))
        nodes = [onnx.NodeProto.FromString(body.node[i].SerializeToString()) for i in kept]
        for node in nodes:
            name = node.name
            rename_in_place(node, names).name = name or node.output[0]
        free = {n for node in nodes for n in node.output}.difference(v.name for v in body.output)
        for end in body.output:
            if (own := names.get(end.name, "")) in free:
                free.remove(own)
                end.name = own
            elif own:  # another output has it, or it is from outside of the body
                nodes.append(protos.node("Identity", [own], [end.name]))
        del body.node[:]
        body.node.extend(nodes)
        needed = keep_only(body, list(body.output))
        for name, own in names.items():
            if own in needed and own not in kinds:
                if name not in kinds:
                    return None
                self._types[own] = onnx.ValueInfoProto(name=own, type=self._types[name].type)
                copy.graph.input.append(self._types[own])
        return copy if count_nodes(copy) < count_nodes(model) else None


def count_nodes(model: onnx.ModelProto) -> int:
    """The number of nodes, with those of bodies."""
    return sum(1 for _ in all_nodes(model.graph.node))


def _places(graph: onnx.GraphProto) -> Iterator[Place]:
    """Where the bodies in a graph are, at any depth."""
    for i, node in enumerate(graph.node):
        for j, body in enumerate(bodies(node)):
            yield ((i, j),)
            yield from (((i, j), *further) for further in _places(body))


def _body(graph: onnx.GraphProto, place: Place) -> onnx.GraphProto:
    for position, which in place:
        graph = list(bodies(graph.node[position]))[which]
    return graph


def _kind(value: onnx.ValueInfoProto) -> tuple[int, int]:
    """The dtype and the rank of a value."""
    return value.type.tensor_type.elem_type, len(value.type.tensor_type.shape.dim)


def _zeros(value: onnx.ValueInfoProto) -> np.ndarray:
    """Zeros of the type of a value; open dimensions are 1."""
    type_ = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(type_.elem_type)
    return np.zeros([dim.dim_value or 1 for dim in type_.shape.dim], dtype)

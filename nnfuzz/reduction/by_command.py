"""Reduces a user's model while a command of theirs exits as it does with the whole model.

No compiler and no reference is asked. Nodes are left out, half of them first, then quarters, and at
last one by one; what the rest reads of them becomes an input of the model. Then outputs go alike.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from subprocess import TimeoutExpired
from time import monotonic
from typing import Any

import numpy as np
import onnx

from nnfuzz.base.files import npz_bytes
from nnfuzz.base.programs import run_program
from nnfuzz.materialize.validity import declared_types, invalid
from nnfuzz.materialize.walk import reads
from nnfuzz.reduction.case import NotReduced
from nnfuzz.testcase.extraction import extracted

MODEL, INPUTS = "{}", "{inputs}"
"""Words of a command that stand for the paths of the model and of its inputs (.npz)."""
PATIENCE, LEAST = 10, 10.0
"""A command is ended after so many times the seconds that it takes for the whole model, and no less
than so many seconds: with a part of the model it may hang."""


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
    values: Mapping[str, np.ndarray]
    budget: int
    adopt: Callable[[onnx.ModelProto, Mapping[str, np.ndarray]], None]
    watch: Callable[[int, int], None] = lambda runs, nodes: None
    runs: int = 0
    _limit: float | None = None

    def reduce(self) -> onnx.ModelProto:
        """The smallest model that is found: no node and no output of it can be left out alone,
        unless the budget is spent. Raises: NotReduced if the command exits with 0; OSError if it
        cannot be started.
        """
        self._valid = not invalid(self.model.SerializeToString(), full=False)
        self._types = declared_types(self.model)
        began, self._code = monotonic(), self._exit_code(self.model)
        if not self._code:
            raise NotReduced("the command exits with 0: there is nothing to reduce")
        self._limit = max(LEAST, PATIENCE * (monotonic() - began))
        best, size = self.model, 0
        while size != (size := len(best.graph.node) + len(best.graph.output)):
            best = self._fewer(best, best.graph.node, partial(self._part, best))
            names = [value.name for value in best.graph.output]
            best = self._fewer(best, names, partial(self._part, best, best.graph.node))
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
        self.watch(self.runs, len(model.graph.node))
        with tempfile.TemporaryDirectory() as folder:
            paths = {MODEL: Path(folder, "model.onnx"), INPUTS: Path(folder, "inputs.npz")}
            paths[MODEL].write_bytes(model.SerializeToString())
            paths[INPUTS].write_bytes(npz_bytes(self._inputs(model)))
            words = [*self.words, *([] if MODEL in self.words else [MODEL])]
            with suppress(TimeoutExpired):  # a script of the user's may import its neighbours
                line = [str(paths.get(word, word)) for word in words]
                return run_program(line, {"PYTHONSAFEPATH": ""}, self._limit).returncode
        return None

    def _inputs(self, model: onnx.ModelProto) -> Mapping[str, np.ndarray]:
        names = [value.name for value in model.graph.input]
        return {name: self.values[name] for name in names if name in self.values}

    def _part(
        self, model: onnx.ModelProto, nodes: Sequence[onnx.NodeProto], ends: Sequence[str] = ()
    ) -> onnx.ModelProto | None:
        """The model of some nodes. None if the type of a value that they read is unknown, or the
        value itself, and the command takes inputs.

        ends: its outputs; default: those of `model`, and values that none of the nodes reads.
        """
        made = [name for node in nodes for name in node.output if name]
        read = dict.fromkeys(name for node in nodes for name in reads(node))
        given = {value.name for value in model.graph.output}
        ends = ends or [name for name in made if name in given or name not in read]
        held = {tensor.name for tensor in model.graph.initializer}
        inputs = [value.name for value in model.graph.input if value.name not in held]
        missing = [name for name in read if name not in held.union(made, inputs)]
        if any(n not in self._types or (self.values and n not in self.values) for n in missing):
            return None
        types = {name: self._types[name] for name in (*inputs, *missing)}
        return extracted(model, types, ends, self._types)

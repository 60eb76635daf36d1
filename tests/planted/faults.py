"""Planted faults with known causes: what fails where, and which causes a model really meets.

A static fault raises while a model is imported or compiled; a fault of a kernel replaces what a
node computes. A fault is one cause, whatever operators it hits.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from nnfuzz.backend.contract import Backend
from nnfuzz.backend.outcome import Stage
from tests.planted.nodewise import Call, Interpreter, Node, Value, arrays, read_node, right

Arrays = Mapping[str, np.ndarray]


class Death(BaseException):
    """How the process would end: "abort", "segfault", "division" or "hang". `text`: for stderr.

    Asking for the ground truth must not end the process: only `dying` carries it out.
    """

    def __init__(self, how: str, text: str = "") -> None:
        super().__init__(how, text)
        self.how, self.text = how, text


def dying(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls the function; a Death that it raises happens."""
    try:
        return function(*arguments)
    except Death as death:
        print(death.text, file=sys.stderr, flush=True)
        if death.how == "hang":
            time.sleep(1e6)
        if death.how == "segfault":
            ctypes.string_at(0)
        os.kill(os.getpid(), signal.SIGFPE if death.how == "division" else signal.SIGABRT)


@dataclass(frozen=True, eq=False)
class Site:
    """A node as an importer sees it. dtypes, ranks: by value, where ONNX infers them. makers: the
    operators of values that nodes before it compute.
    """

    node: Node
    index: int
    dtypes: Mapping[str, int]
    ranks: Mapping[str, int]
    makers: Mapping[str, str]

    @property
    def op(self) -> str:
        return self.node.op

    def has(self, dtype: int) -> bool:
        """Whether any input or output has that onnx.TensorProto.DataType."""
        return any(self.dtypes.get(n) == dtype for n in (*self.node.inputs, *self.node.outputs))

    def reads(self, op: str) -> bool:
        """Whether it reads a result of an operator."""
        return any(self.makers.get(name) == op for name in self.node.inputs)

    def rank(self) -> int:
        """Of the first input; 0 if it is unknown."""
        return self.ranks.get(self.node.inputs[0], 0) if self.node.inputs else 0


@dataclass(frozen=True, eq=False)
class Fault:
    """One cause. ops: operators that it hits, () for all. when: at which of their sites.

    stage IMPORT, COMPILE: `act(site)` raises. EXECUTE: `act(node, inputs, run)` returns outputs or
    raises; `run(*inputs, **attributes)` computes the node rightly, as it is by default.
    """

    cause: str
    text: str
    stage: Stage
    ops: tuple[str, ...]
    act: Callable[..., Any]
    when: Callable[[Site], bool] = lambda site: True

    def hits(self, op: str) -> bool:
        return not self.ops or op in self.ops


class Faults(list[Fault]):
    """Collects faults by decorators; a function's name and docstring become the fault's."""

    def at(
        self,
        stage: Stage,
        *ops: str,
        when: Callable[[Site], bool] = lambda site: True,
        cause: str = "",
    ) -> Any:
        """A static fault: the function takes a Site, and raises. cause: that of another fault."""
        return lambda act: self._add(act, stage, ops, when, cause)

    def kernel(self, *ops: str) -> Any:
        """A wrong kernel: the function takes node, inputs, run."""
        return lambda act: self._add(act, Stage.EXECUTE, ops, lambda site: True)

    def operators(self) -> list[str]:
        """All that are named, sorted."""
        return sorted({op for fault in self for op in fault.ops})

    def _add(self, act: Any, stage: Stage, ops: tuple[str, ...], when: Any, cause: str = "") -> Any:
        if not cause and any(act.__name__ == fault.cause for fault in self):
            raise ValueError(f"two faults are called {act.__name__}")
        text = (act.__doc__ or "").strip().splitlines()[0]
        self.append(Fault(cause or act.__name__, text, stage, ops, act, when))
        return act


@dataclass(frozen=True)
class FaultyCompiler:
    """A compiler that is right but for its faults. refused: those that are refusals, and no causes:
    a finding that tells of one is unplanted.
    """

    faults: Sequence[Fault]
    refused: Sequence[Fault] = ()

    def check(self, model: onnx.ModelProto, stage: Stage) -> None:
        """Raises: what the first static fault of the stage raises."""
        if met := self.first(model, stage):
            met[0].act(met[1])

    def causes_of(self, model: bytes, feeds: Arrays) -> set[str]:
        """The ground truth: the causes by which these ONNX bytes fail on these inputs."""
        known = self.causes(onnx.load_model_from_string(model), feeds)
        return known - {fault.cause for fault in self.refused}

    def first(self, model: onnx.ModelProto, stage: Stage) -> tuple[Fault, Site] | None:
        """The first static fault in the order of the nodes, and its place."""
        static = [fault for fault in self.faults if fault.stage is stage]
        for site in sites(model) if static else ():
            for fault in static:
                if fault.hits(site.op) and fault.when(site):
                    return fault, site
        return None

    def run(self, model: onnx.ModelProto, feeds: Arrays) -> dict[str, np.ndarray]:
        """Raises: NotImplementedError where even the right compiler has no kernel."""
        return Interpreter(model, self.call())(feeds)

    def call(self) -> Call:
        wrong: Call = right
        for fault in self.faults:
            if fault.stage is Stage.EXECUTE:
                wrong = _planted(fault, wrong)
        return wrong

    def causes(self, model: onnx.ModelProto, feeds: Arrays) -> set[str]:
        """The causes by which the model fails here; empty if it does not.

        The first static fault hides all others. Of the kernels, those count that change an output
        or raise when nothing else is wrong; without any such, all whose absence changes the result.
        """
        for stage in (Stage.IMPORT, Stage.COMPILE):
            if met := self.first(model, stage):
                return {met[0].cause}
        used = {site.op for site in sites(model)}
        kernels = [f for f in self.faults if f.stage is Stage.EXECUTE]
        kernels = [f for f in kernels if any(f.hits(op) for op in used)]
        good = _result((), model, feeds)
        alone = {f.cause for f in kernels if not same(good, _result((f,), model, feeds))}
        if alone or same(good, bad := _result(kernels, model, feeds)):
            return alone
        rest = {f.cause: [g for g in kernels if g is not f] for f in kernels}
        return {cause for cause, left in rest.items() if not same(bad, _result(left, model, feeds))}


class FaultyBackend(Backend):
    """A backend whose compiler has faults at every level. `compiler`: which ones."""

    levels = ("O0",)
    preload = ("onnxruntime", "onnx.reference")
    max_opset = 26
    compiler: FaultyCompiler

    def versions(self) -> dict[str, str]:
        import onnxruntime

        return {self.name: "1.0", "onnxruntime": onnxruntime.__version__}

    def load(self, model: bytes) -> onnx.ModelProto:
        module = onnx.load_model_from_string(model)
        self.check(module, Stage.IMPORT)
        return module

    def build(self, module: onnx.ModelProto, level: str) -> Callable[[Arrays], Arrays]:
        self.check(module, Stage.COMPILE)
        return lambda inputs: dying(self.compiler.run, module, inputs)

    def check(self, module: onnx.ModelProto, stage: Stage) -> None:
        """Fails as the first static fault of a stage does."""
        dying(self.compiler.check, module, stage)


def _planted(fault: Fault, call: Call) -> Call:
    def planted(node: Node, inputs: Sequence[Value]) -> Sequence[Value]:
        if not fault.hits(node.op):
            return call(node, inputs)

        def run(*xs: Value, **attrs: Any) -> Sequence[Value]:
            return call(replace(node, attrs={**node.attrs, **attrs}), xs or inputs)

        return [arrays(x) for x in fault.act(node, inputs, run)]

    return planted


def _result(faults: Sequence[Fault], model: onnx.ModelProto, feeds: Arrays) -> Any:
    """Outputs, or the type of what is raised."""
    try:
        return FaultyCompiler(faults).run(model, feeds)
    except (Exception, Death) as error:
        return type(error)


def same(a: Any, b: Any) -> bool:
    """Two results of `_result`, bit for bit."""
    if not (isinstance(a, dict) and isinstance(b, dict)):
        return a is b
    return all(
        x.dtype == b[n].dtype and x.shape == b[n].shape and x.tobytes() == b[n].tobytes()
        for n, x in a.items()
    )


def sites(model: onnx.ModelProto) -> Iterator[Site]:
    """All nodes in order, those of bodies behind the node that has them."""
    inferred = onnx.shape_inference.infer_shapes(model)
    dtypes: dict[str, int] = {}
    ranks: dict[str, int] = {}
    nodes: list[onnx.NodeProto] = []
    _collect(inferred.graph, dtypes, ranks, nodes)
    makers = {name: proto.op_type for proto in nodes for name in proto.output}
    for index, proto in enumerate(nodes):
        yield Site(read_node(proto, model), index, dtypes, ranks, makers)


def _collect(
    graph: onnx.GraphProto, dtypes: dict, ranks: dict, nodes: list[onnx.NodeProto]
) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info):
        tensor = value.type.tensor_type
        if tensor.elem_type:
            dtypes[value.name] = tensor.elem_type
            ranks[value.name] = len(tensor.shape.dim)
    for tensor in graph.initializer:
        dtypes[tensor.name], ranks[tensor.name] = tensor.data_type, len(tensor.dims)
    for proto in graph.node:
        nodes.append(proto)
        for attribute in proto.attribute:
            if attribute.HasField("g"):
                _collect(attribute.g, dtypes, ranks, nodes)

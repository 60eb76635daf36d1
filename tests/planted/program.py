"""A toy compiler's program: parsed from an ONNX model, run node by node on torch tensors.

Planted changes replace single nodes and leave the others alone, so a run can start from the values
of the unchanged program and computes only what the change reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import Tensor

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.carriers import array, tensor
from tests.planted.kernels import KERNELS
from tests.planted.resampling import resizes

Kernel = Callable[..., Any]
"""(attributes, *input tensors; None where absent) -> tensor or sequence of tensors."""


class Unsupported(NotImplementedError):
    """An operator that the toy compiler lacks."""


@dataclass(frozen=True, eq=False)
class Node:
    """One instruction; the same object is the same computation. Absent inputs are ""."""

    op: str
    attrs: Mapping[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    kernel: Kernel

    def __call__(self, *xs: Tensor | None) -> tuple[Tensor, ...]:
        result = self.kernel(self.attrs, *(_alike(xs) if self.op in _STRICT else xs))
        return tuple(result) if isinstance(result, (tuple, list)) else (result,)


@dataclass(frozen=True, eq=False)
class Program:
    """Nodes in topological order. outputs: their declared dtypes by name.

    carry: dtype that values of a dtype are kept in (excess precision), for inputs and constants.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    constants: Mapping[str, Tensor]
    outputs: Mapping[str, torch.dtype]
    carry: Mapping[torch.dtype, torch.dtype] = field(default_factory=dict)

    def with_nodes(self, nodes: Iterable[Node]) -> Program:
        return replace(self, nodes=tuple(nodes))

    def producers(self) -> dict[str, Node]:
        """The node behind each computed value."""
        return {name: node for node in self.nodes for name in node.outputs}

    def readers(self) -> dict[str, list[Node]]:
        """The nodes that read each value, in order."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found.setdefault(name, []).append(node)
        return found

    def carried(self, x: Tensor) -> Tensor:
        return x.to(self.carry.get(x.dtype, x.dtype))


def load(model: bytes) -> Program:
    """Raises: Unsupported."""
    graph = onnx.load_model_from_string(model).graph
    constants = {t.name: _native(numpy_helper.to_array(t)) for t in graph.initializer}
    nodes = []
    for proto in graph.node:
        if proto.op_type == "Constant" and proto.attribute[0].name == "value":
            constants[proto.output[0]] = _native(numpy_helper.to_array(proto.attribute[0].t))
            continue
        if proto.op_type not in KERNELS:
            raise Unsupported(proto.op_type)
        attrs = {a.name: _attribute(a) for a in proto.attribute}
        if proto.op_type == "Resize" and not resizes(attrs):
            raise Unsupported("Resize in that mode")
        ends = tuple(proto.input), tuple(proto.output)
        nodes.append(Node(proto.op_type, attrs, *ends, KERNELS[proto.op_type]))
    inputs = tuple(i.name for i in graph.input if i.name not in constants)
    outputs = {o.name: _dtype(o.type.tensor_type.elem_type) for o in graph.output}
    return Program(tuple(nodes), inputs, constants, outputs)


def _attribute(proto: onnx.AttributeProto) -> Any:
    value = helper.get_attribute_value(proto)
    return value.decode() if isinstance(value, bytes) else value


def _dtype(code: int) -> torch.dtype:
    return _native(np.empty(0, helper.tensor_dtype_to_np_dtype(code))).dtype


def _native(array: np.ndarray) -> Tensor:
    """Raises: Unsupported for a dtype that PyTorch hardly computes with."""
    dtype = DType.of(array.dtype)
    if dtype.carried:
        raise Unsupported(dtype.value)
    return tensor(array)


@dataclass(frozen=True, eq=False)
class Run:
    """The values of a program on some inputs."""

    program: Program
    values: Mapping[str, Tensor]

    def outputs(self) -> dict[str, np.ndarray]:
        """In their declared dtypes: excess precision is rounded here."""
        with np.errstate(over="ignore"):
            outputs = self.program.outputs.items()
            return {n: array(self.values[n].to(d), DType.of(d)) for n, d in outputs}


def run(program: Program, feeds: Mapping[str, np.ndarray], base: Run | None = None) -> Run:
    """Run a program; nodes that it shares with `base` and that see the same values are not run.

    Raises: whatever a kernel raises.
    """
    with torch.inference_mode():
        if base is not None and base.program.carry == program.carry:
            return _rerun(program, base)
        values = {
            name: program.carried(_native(np.asarray(feeds[name]))) for name in program.inputs
        }
        values.update({name: program.carried(x) for name, x in program.constants.items()})
        for node in program.nodes:
            values.update(zip(node.outputs, node(*_arguments(values, node)), strict=True))
        return Run(program, values)


def _rerun(program: Program, base: Run) -> Run:
    values = {n: base.values[n] for n in (*program.inputs, *base.program.constants)}
    changed = set()
    for name, x in program.constants.items():
        if base.program.constants.get(name) is not x:
            values[name] = program.carried(x)
            changed.add(name)
    same = set(base.program.nodes)
    for node in program.nodes:
        if node in same and not changed.intersection(node.inputs):
            values.update((name, base.values[name]) for name in node.outputs)
            continue
        for name, x in zip(node.outputs, node(*_arguments(values, node)), strict=True):
            values[name] = x
            if name not in base.values or not identical(x, base.values[name]):
                changed.add(name)
    return Run(program, values)


_STRICT = frozenset({"Conv", "ConvTranspose", "MatMul", "Gemm", "Einsum"})
"""Operators whose kernels take operands of one dtype."""


def _alike(xs: Iterable[Tensor | None]) -> list[Tensor | None]:
    """The operands in the widest of their dtypes: a variation may keep some of them wider."""
    given = [x for x in xs if x is not None]
    wide = reduce(torch.promote_types, (x.dtype for x in given))
    return [None if x is None else x.to(wide) for x in xs]


def _arguments(values: Mapping[str, Tensor], node: Node) -> list[Tensor | None]:
    return [values[name] if name else None for name in node.inputs]


def identical(a: Tensor, b: Tensor) -> bool:
    """Same dtype, shape and values; NaN differs from NaN."""
    return a.dtype is b.dtype and a.shape == b.shape and torch.equal(a, b)

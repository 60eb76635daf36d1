"""The exporters, which turn a graph into a serialized ONNX model, behind one checking interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
from torch import Tensor, nn

from nnfuzz.ir.graph import Graph
from nnfuzz.ir.opset_imports import OWN_DOMAINS
from nnfuzz.ir.sizes import copies, same_model
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize import dynamo, emit, torchscript
from nnfuzz.materialize.emit import SizeError, emit_called
from nnfuzz.materialize.errors import ExportError, OpsetError
from nnfuzz.materialize.module import Array, GraphModule, execute_checked, tensors
from nnfuzz.materialize.names import readmit, redeclare, restore
from nnfuzz.materialize.opsets import CALLED, is_called, opset_range
from nnfuzz.operators.carriers import array

ModuleExport = Callable[[nn.Module, tuple[Tensor, ...], Sequence[str], Sequence[str], int], bytes]
"""(module, example inputs, input names, output names, opset) -> serialized model."""
Lower = Callable[[Graph, Mapping[str, np.ndarray], int], onnx.ModelProto]
"""(graph, weights, opset) -> model."""


@dataclass(frozen=True)
class Exporter:
    """One way from a graph to a model. `opsets` are the lowest and the highest opset.

    call: an exporter of PyTorch; if None, `lower` builds the model from the specs' lowerings.
    """

    name: str
    opsets: tuple[int, int]
    call: ModuleExport | None = None
    lower: Lower = emit.emit_model

    def export(
        self,
        graph: Graph,
        weights: Mapping[str, Array],
        inputs: Mapping[str, Array],
        opset: int,
    ) -> bytes:
        """The serialized model of a concrete graph.

        weights become initializers. inputs: PyTorch's exporters trace the module with these arrays,
        so every operator must be defined on them; direct emission ignores them. Inputs and outputs
        of the model have the graph's names and order; an output that is listed twice comes once.
        Raises: OpsetError; ExportError if an exporter of PyTorch fails on a module that runs;
        GraphFault if the module does not run or a lowering fails; SizeError if the model would
        depend on the call.
        """
        if not self.opsets[0] <= opset <= self.opsets[1]:
            raise OpsetError(f"exporter {self.name}", opset, self.opsets)
        if self.call is None:
            arrays = {name: _array(weights[name], graph.type(name)) for name in graph.weights}
            return self.lower(graph, arrays, opset).SerializeToString(deterministic=True)
        if is_called(self.name):
            graph, *others = copies(graph)
            if not all(same_model(graph, other) for other in others):
                raise SizeError("PyTorch's exporters write models of one size")
        module = GraphModule(graph, weights).eval()
        fed = tensors({name: inputs[name] for name in graph.inputs})
        names = module.input_names, module.output_names
        try:
            data = self.call(module, tuple(fed.values()), *names, opset)
            return _finished(data, graph, *names, opset)
        except Exception as error:
            execute_checked(graph, {**fed, **tensors({n: weights[n] for n in graph.weights})})
            raise ExportError(self.name, opset, error) from error


def _finished(
    data: bytes, graph: Graph, inputs: Sequence[str], outputs: Sequence[str], opset: int
) -> bytes:
    """The exported model with the graph's names, and its outputs declared with the graph's shapes.

    Raises: ValueError if the exporter returned another opset, or other inputs or outputs.
    """
    model = onnx.ModelProto.FromString(data)
    versions = [entry.version for entry in model.opset_import if entry.domain in OWN_DOMAINS]
    if versions != [opset]:
        raise ValueError(f"the exporter was asked for opset {opset} and made {versions}")
    changed = readmit(model.graph, {name: graph.type(name) for name in inputs})
    changed = restore(model.graph, inputs, outputs) or changed
    changed = redeclare(model.graph, {name: graph.type(name) for name in outputs}) or changed
    return model.SerializeToString() if changed else data


def _array(value: Array, type_: TensorType) -> np.ndarray:
    return array(value, type_.dtype) if isinstance(value, Tensor) else np.asarray(value)


def exporters() -> dict[str, Exporter]:
    """The exporters that users can choose, by name. Each caches what models have in common."""
    calls = {
        "torchscript": torchscript.TorchScriptExport(),
        "dynamo": dynamo.DynamoExport(),
        "direct": None,
    }
    return {name: Exporter(name, opset_range(name), call) for name, call in calls.items()}


def all_exporters() -> dict[str, Exporter]:
    """`exporters`, and for each of them another one, which writes a model that is called several
    times: its graph holds a copy for each call (nnfuzz.ir.sizes).
    """
    usual = exporters()
    called = [replace(own, name=f"{name}{CALLED}") for name, own in usual.items()]
    return usual | {own.name: replace(own, lower=emit_called) for own in called}

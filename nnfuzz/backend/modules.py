"""The graph of a test case as a PyTorch module, for backends that read no ONNX.

The graph is traced once into operators of PyTorch (torch.fx), so that the compiler sees what a
user's module would come down to and none of nnfuzz's own code, and so that the module can be
written out as source. `TorchSource.exported` is the same as a program of torch.export.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from nnfuzz.backend.interface import InputError, TensorSpec, read_interface
from nnfuzz.backend.registry import import_plugin
from nnfuzz.backend.target import DIRECT
from nnfuzz.ir.graph import Graph, pruned
from nnfuzz.materialize.importing import import_onnx, rename
from nnfuzz.materialize.module import Interpreter
from nnfuzz.materialize.opsets import READ_FROM, opset_range
from nnfuzz.materialize.static import OnnxImportError
from nnfuzz.operators import carriers
from nnfuzz.operators.foreign import Opaque
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.sandbox.wire import MAGIC, WireError, decode

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import ExportedProgram
    from torch.fx import GraphModule

MOST_BYTES = 1 << 16
"""The bytes of all constants up to which `TorchSource.code` writes a module out."""
LISTED = 32
"""Elements up to which a constant is written as a list; above, its bytes."""
_NOT_WRITTEN = ("aten.detach.default", "aten.detach_.default", "aten.lift_fresh_copy.default")
"""Traces of tracing, which no user writes."""
_CODE = '''\
class Module(torch.nn.Module):
    inputs = {inputs!r}  # name: dtype
    outputs = {outputs!r}

    def __init__(self):
        super().__init__()
{constants}
{forward}


def to_torch(array):
    """An array as PyTorch has it; unsigned integers and small types are held in wider ones."""
    if str(array.dtype) == "bfloat16":
        return torch.from_numpy(array.astype(np.float32)).bfloat16()
    if str(array.dtype) == "uint64":
        return torch.from_numpy(array.view(np.int64))
    wider = {wider!r}
    return torch.from_numpy(array.astype(wider.get(str(array.dtype), array.dtype)))


def to_numpy(tensor, dtype):
    tensor = tensor.detach().cpu()
    if dtype == "uint64":
        return tensor.numpy().view(np.uint64)
    array = (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy()
    return array.astype(np.dtype(dtype))
'''


@dataclass(frozen=True)
class TorchSource:
    """A concrete graph with its weights. Tensors are in the carriers of their dtypes."""

    graph: Graph
    weights: Mapping[str, np.ndarray]
    inputs: Mapping[str, TensorSpec]
    device: str = "cpu"

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.graph.outputs))

    @cached_property
    def module(self) -> GraphModule:
        """Tensors by position -> a tuple of tensors; weights are buffers.

        Raises: NotImplementedError if an operator spec computes in a way that cannot be traced.
        """
        return _traced(self.graph, self.weights, self.device)

    def exported(self) -> ExportedProgram:
        """The module as a program of torch.export. Raises: NotImplementedError if that fails."""
        import torch

        try:
            return torch.export.export(self.module, self.examples(), strict=False)
        except Exception as error:
            raise NotImplementedError(f"the module cannot be exported: {error}") from error

    def examples(self) -> tuple[Tensor, ...]:
        """Zeros of the types that the module takes."""
        types = {n: self.graph.type(n) for n in self.graph.inputs}
        return self.arguments({n: np.zeros(t.sizes, t.dtype.numpy) for n, t in types.items()})

    def arguments(self, inputs: Mapping[str, np.ndarray]) -> tuple[Tensor, ...]:
        """Arrays by name -> the module's arguments."""
        return tuple(carriers.tensor(inputs[n]).to(self.device) for n in self.graph.inputs)

    def results(self, tensors: Sequence[Tensor]) -> dict[str, np.ndarray]:
        """The module's results -> arrays by name, in the dtypes of the tensors where these are
        not the declared ones.
        """
        arrays = {}
        for name, value in zip(self.outputs, tensors, strict=True):
            declared = self.graph.type(name).dtype
            same = value.dtype == declared.torch
            arrays[name] = carriers.array(value.cpu(), declared) if same else value.cpu().numpy()
        return arrays

    def code(self) -> str:
        """Source of a class `Module` with its constants, and of to_torch and to_numpy; it needs
        torch and np. "" if the constants are too many to be written out.
        """
        constants = dict(self.module.named_buffers())
        if sum(value.nbytes for value in constants.values()) > MOST_BYTES:
            return ""
        rows = [f"        self.{name} = {_written(value)}\n" for name, value in constants.items()]
        forward = self.module.code.strip().replace("\n", "\n    ")
        dtypes = {n: self.graph.type(n).dtype for n in (*self.graph.inputs, *self.outputs)}
        wider = {d.value: d.carrier for d in dtypes.values() if d.carried and d.carrier}
        return _CODE.format(
            inputs={n: dtypes[n].value for n in self.graph.inputs},
            outputs={n: dtypes[n].value for n in self.outputs},
            constants="".join(rows),
            forward="    " + "\n".join(map(str.rstrip, forward.splitlines())),
            wider={name: np.dtype(carrier).name for name, carrier in wider.items()},
        )


def read_source(data: bytes, plugins: Sequence[str] = (), device: str = "cpu") -> TorchSource:
    """A frame of TestCase.source, or an ONNX model, as a graph with weights.

    plugins: files and modules with further operator specs. Raises: InputError if it is neither;
    NotImplementedError for an ONNX model with operators that no spec covers.
    """
    registry = OpRegistry.load(import_plugin(path) for path in plugins)
    if not data.startswith(MAGIC):
        return _imported(data, registry, device)
    try:
        header, blobs = decode(bytearray(data))
    except WireError as error:
        raise InputError(f"no test case: {error}") from error
    graph = Graph.from_json(header["graph"], registry.get)
    weights = {name: np.asarray(blobs[name]) for name in graph.weights}
    specs = {n: TensorSpec(graph.type(n).dtype.numpy, graph.type(n).sizes) for n in graph.inputs}
    return TorchSource(graph, weights, specs, device)


def _imported(data: bytes, registry: OpRegistry, device: str) -> TorchSource:
    import onnx

    inputs, outputs = read_interface(data)
    model = onnx.load_model_from_string(data)
    least, most = READ_FROM, opset_range(DIRECT)[1]
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), most)
    try:
        made = import_onnx(model, registry, min(max(opset, least), most))
    except OnnxImportError as error:
        raise NotImplementedError(f"the model is no graph of PyTorch operators: {error}") from error
    rename(made.graph, made.names)
    full = made.graph
    graph = pruned(full.values, full.nodes, full.inputs, full.weights, outputs)
    if made.lost or any(isinstance(node.op, Opaque) for node in graph.nodes):
        raise NotImplementedError("the model has operators that no spec covers")
    weights = {n: made.constants[n].astype(graph.type(n).dtype.numpy) for n in graph.weights}
    return TorchSource(graph, weights, inputs, device)


def _traced(graph: Graph, weights: Mapping[str, np.ndarray], device: str) -> GraphModule:
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    names, run = (*graph.inputs, *graph.weights), Interpreter(graph)
    outputs = tuple(dict.fromkeys(graph.outputs))

    def forward(*tensors: Tensor) -> tuple[Tensor, ...]:
        values = run(dict(zip(names, tensors)))
        return tuple(values[name] for name in outputs)

    types = graph.types(names)
    like = [torch.zeros(t.sizes, dtype=t.dtype.torch, device=device) for t in types]
    try:
        with torch.no_grad():
            # Before decompositions, as torch.export does it; without computing anything.
            module = make_fx(forward, tracing_mode="fake", pre_dispatch=True)(*like)
    except Exception as error:
        raise NotImplementedError(f"the module cannot be traced: {error}") from error
    places = [node for node in module.graph.nodes if node.op == "placeholder"]
    for k, (name, place) in enumerate(zip(graph.weights, places[len(graph.inputs) :])):
        value = carriers.tensor(weights[name]).to(device)
        _bind(module, place, f"weight{k}", value)
    for node in list(module.graph.nodes):
        if str(node.target) in _NOT_WRITTEN:
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
    module.recompile()
    return module


def _bind(module: GraphModule, place: Any, name: str, value: Tensor) -> None:
    """Makes a buffer out of a parameter of the traced function."""
    module.register_buffer(name, value)
    with module.graph.inserting_after(place):
        place.replace_all_uses_with(module.graph.get_attr(name))
    module.graph.erase_node(place)


def _written(value: Tensor) -> str:
    """A tensor as an expression, exact."""
    import torch

    value = value.detach().cpu().contiguous()
    if value.numel() <= LISTED and bool(torch.isfinite(value).all()):
        return f"torch.tensor({value.tolist()}, dtype={value.dtype})"
    raw = value.reshape(-1).view(torch.uint8).numpy().tobytes()
    encoded = base64.b64encode(raw).decode()
    lines = "".join(f"\n            {part!r}" for part in _pieces(encoded))
    dtype, shape = value.dtype, list(value.shape)
    return (
        f"torch.frombuffer(bytearray(base64.b64decode({lines}\n        )), dtype={dtype})"
        f".reshape({shape})"
    )


def _pieces(text: str, width: int = 84) -> Iterator[str]:
    for start in range(0, len(text), width):
        yield text[start : start + width]

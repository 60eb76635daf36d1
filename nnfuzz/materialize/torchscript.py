"""Export through PyTorch's TorchScript-based exporter, `torch.onnx.export(dynamo=False)`.

`shortcuts` halves the time of that function with equal bytes (tests compare them): no lint passes,
no repeated type inference over the whole graph, no search for functions in the finished model,
cached signatures, and no Python iterators over nodes and values (each ends in a C++ exception, 10
microseconds).
"""

from __future__ import annotations

import functools
import inspect
import io
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nnfuzz.materialize.scoped import Overlay, Patch, Shortened, do_nothing, private, quiet

_INTERNAL = "torch.onnx._internal.torchscript_exporter"


def stock(
    module: nn.Module,
    args: tuple[Tensor, ...],
    input_names: Sequence[str],
    output_names: Sequence[str],
    opset: int,
) -> bytes:
    """The serialized model that PyTorch's exporter writes for a module and example tensors."""
    buffer = io.BytesIO()
    with quiet():
        torch.onnx.export(
            module,
            args,
            buffer,  # type: ignore[arg-type]
            input_names=list(input_names),
            output_names=list(output_names),
            opset_version=opset,
            dynamo=False,
        )
    return buffer.getvalue()


class TorchScriptExport(Shortened):
    """`stock`, without output to the terminal and made faster by `shortcuts`."""

    def __init__(self) -> None:
        super().__init__(stock, shortcuts, silence)


def silence() -> Sequence[Patch]:
    """Patches that stop the exporter from printing its graph when it fails."""
    utils = private(f"{_INTERNAL}.utils")
    return [Patch(utils, "_C", Overlay(utils._C, _jit_onnx_log=do_nothing))]


def shortcuts() -> Sequence[Patch]:
    """Patches with faster functions. Raises: AttributeError or ImportError if torch has changed."""
    utils = private(f"{_INTERNAL}.utils")
    protos = private(f"{_INTERNAL}.onnx_proto_utils")
    helper = private(f"{_INTERNAL}.symbolic_helper")
    jit = private(f"{_INTERNAL}.jit_utils")
    bindings = Overlay(
        utils._C,
        _jit_onnx_log=do_nothing,
        _jit_pass_lint=do_nothing,
        _jit_pass_onnx_lint=do_nothing,
        _jit_pass_onnx_graph_shape_type_inference=_types_of_branches(utils._C),
    )
    signature = functools.lru_cache(maxsize=None)(inspect.signature)
    return [
        Patch(utils, "_C", bindings),
        Patch(utils, "_split_tensor_list_constants", _split_lists(utils)),
        Patch(utils, "_apply_friendly_debug_names", _friendly_names),
        Patch(protos, "_add_onnxscript_fn", lambda model, custom_opsets: model),
        Patch(helper, "inspect", Overlay(helper.inspect, signature=signature)),
        Patch(jit, "_create_node", _create_node(jit)),
    ]


def _types_of_branches(bindings: Any) -> Any:
    """Whole-graph type inference only for sub-graphs; other types are known node by node."""
    original = bindings._jit_pass_onnx_graph_shape_type_inference

    def infer(graph: Any, *args: Any) -> None:
        if graph.findAllNodes("onnx::If") or graph.findAllNodes("onnx::Loop"):
            original(graph, *args)

    return infer


def _split_lists(utils: Any) -> Any:
    """A replacement that visits only the constants instead of all nodes."""
    original, is_list = utils._split_tensor_list_constants, utils._is_constant_tensor_list

    def split(graph: Any, block: Any) -> None:
        for node in graph.findAllNodes("prim::Constant"):
            if node.output().type().kind() == "ListType" and is_list(node):
                original(graph, block)
                return

    return split


def _friendly_names(graph: Any, params: dict[str, Any]) -> None:
    for node in graph.nodes():
        for i in range(node.inputsSize()):
            value = node.inputsAt(i)
            old = value.debugName()
            if old.isdigit() and old == str(value.unique()):
                new = f"{node.kind()}_{old}"
                value.setDebugName(new)
                if old in params:
                    params[new] = params.pop(old)


def _create_node(jit: Any) -> Any:
    """A replacement that counts the outputs instead of collecting them."""
    skipped, add_attribute = jit._SKIP_NODE_ATTRIBUTES, jit._add_attribute
    infer, block_type = jit._C._jit_pass_onnx_node_shape_type_inference, jit._C.Block

    def create(
        block: Any,
        kind: str,
        inputs: Sequence[Any],
        attributes: dict[str, Any],
        params_dict: dict[object, object],
        opset_version: int,
        n_outputs: int,
        shape_inference: bool = True,
    ) -> Any:  # called by keywords: the names are the original's
        if isinstance(block, block_type):
            node = block.addNode(kind, inputs)
            for _ in range(1, n_outputs):
                node.addOutput()
        else:
            node = block.insertNode(block.create(kind, inputs, n_outputs))
        if node.outputsSize() != n_outputs:
            raise AssertionError(f"{kind} has {node.outputsSize()} outputs, not {n_outputs}")
        for key in sorted(attributes):
            if key not in skipped:
                add_attribute(node, key, attributes[key], aten=kind.startswith("aten::"))
        if shape_inference:
            infer(node, params_dict, opset_version)
        return node

    return create

"""Models of a few nodes, for tests that need any."""

from __future__ import annotations

from onnx import TensorProto, helper

from nnfuzz.backend.complaint import ComplaintKind, Stage, described
from nnfuzz.backend.contract import files_of


def chain(*operators: str, shape: tuple[int | str, ...] = (2, 3), about: str = "") -> bytes:
    """x -> one operator behind the other -> y, all of float32. about: the doc_string."""
    names = ["x", *(f"v{i}" for i in range(1, len(operators))), "y"]
    nodes = [helper.make_node(op, [a], [b]) for op, a, b in zip(operators, names, names[1:])]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y])
    opsets = [helper.make_opsetid("", 21)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10, doc_string=about)
    return made.SerializeToString()


def is_refusal(backend, error, stage=Stage.COMPILE):
    """Whether a compiler's error says that it does not implement a model."""
    text = described(error, stage, files_of(type(backend)))
    return backend.complaint(text).kind is ComplaintKind.UNSUPPORTED

"""A compiler with a planted bug, for the tutorial: nnfuzz fuzz -b hasty --plugin hasty.py

At O0 it runs a model as it stands, with the evaluator of onnx. At O1 it leaves out two Transposes
in a row, as though the second always undid the first.
"""

import importlib.metadata
from typing import Any

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

import nnfuzz
from nnfuzz.backend.contract import Backend, IssueForm, Program


def without_pairs_of_transposes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with each Transpose of a Transpose replaced by what went in: the bug."""
    nodes = list(model.graph.node)
    made_by = {name: node for node in nodes for name in node.output}
    for node in nodes:
        before = made_by.get(node.input[0]) if node.op_type == "Transpose" else None
        if before is not None and before.op_type == "Transpose":
            node.op_type = "Identity"
            node.input[0] = before.input[0]
            del node.attribute[:]
    return model


@nnfuzz.register
class Hasty(Backend):
    name = "hasty"
    levels = ("O0", "O1")
    preload = ("onnx.reference",)
    issue_form = IssueForm(
        "example/hasty", (("What happens", "{symptom}"), ("Versions", "{versions}"))
    )

    def versions(self) -> dict[str, str]:
        return {"onnx": importlib.metadata.version("onnx")}

    def load(self, model: bytes) -> Any:
        return onnx.load_model_from_string(model)

    def build(self, module: Any, level: str) -> Program:
        model = without_pairs_of_transposes(module) if level == "O1" else module
        program = ReferenceEvaluator(model)
        names = [output.name for output in model.graph.output]
        return lambda inputs: dict(zip(names, map(np.asarray, program.run(None, inputs))))

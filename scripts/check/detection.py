"""Checks that `nnfuzz check` finds a wrong kernel in models like those of users, and names its
node.

PyTorch exports the modules of modules.py; other models are written by hand. A compiler that is
right but for one node (planted/one_node.py) runs each: the check must find something wrong, and
report that node as the first wrong one. With -b, installed compilers run the same models, where the
check should report true errors only.

    python -m scripts.check.detection
    python -m scripts.check.detection --only gpt
    python -m scripts.check.detection -b onnxruntime -b tvm -b openvino
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import onnx
import torch
import typer
from onnx import parser

import nnfuzz
from nnfuzz.backend.target import Target
from planted import one_node
from scripts.check.imports import exported, module_of

PLUGIN = Path(one_node.__file__)
TORCHSCRIPT, DYNAMO, BY_HAND = ("torchscript", 17), ("dynamo", 20), ("", 0)
WRITTEN = {
    "normalise": "float[2, 6] x) => (float[2, 6] y) { m = ReduceMean<axes = [1]>(x) d = Sub(x, m) "
    "e = Constant<value_float = 3.0>() y = Div(d, e) }",
    "bordered": "float[1, 2, 4, 4] x) => (float[1, 2, 7, 4] y) { p = Constant<value_ints = "
    "[0, 0, 2, 0, 0, 0, 1, 0]>() a = Relu(x) b = Add(a, x) c = Pad(b, p) y = Exp(c) }",
    "counted": "float[3, 8] x) => (int32[3, 8] y) { c = Constant<value_float = 5.0>() "
    "a = Mul(x, c) b = Abs(a) y = Cast<to = 6>(b) }",
    "square": "float[2, 5, 5] x) => (float[2, 5] y) { a = Tanh(x) m = ReduceMean<axes = [1], "
    "keepdims = 0>(a) y = Exp(m) }",
}
"""Handwritten models at opset 17: the text behind "model name (" in onnx.parser's language."""


@dataclass(frozen=True)
class Plant:
    """A model, and the node of an operator that is computed wrong. nth: -1 is the last one."""

    model: str
    exporter: tuple[str, int]
    operator: str
    fault: str
    nth: int = 0

    def load(self) -> onnx.ModelProto:
        """Raises: whatever PyTorch's exporter raises."""
        if self.exporter == BY_HAND:
            head = '<ir_version: 8, opset_import: ["" : 17]> model ('
            return parser.parse_model(head + WRITTEN[self.model])
        return exported(module_of(self.model), *self.exporter)

    def value(self, model: onnx.ModelProto) -> str:
        """The name of the node's output. Raises: IndexError if the model has no such node."""
        return [n for n in model.graph.node if n.op_type == self.operator][self.nth].output[0]


PLANTS = (
    Plant("mlp", TORCHSCRIPT, "Gemm", "missing_bias"),
    Plant("cnn", TORCHSCRIPT, "Conv", "pads_at_the_end", -1),
    Plant("resnet", TORCHSCRIPT, "Conv", "off_by_a_thousandth", -1),
    Plant("inverted_residual", TORCHSCRIPT, "HardSigmoid", "default_alpha"),
    Plant("unet", TORCHSCRIPT, "Concat", "swapped"),
    Plant("vit", TORCHSCRIPT, "LayerNormalization", "epsilon", -1),
    Plant("bert", DYNAMO, "Gelu", "tanh_gelu"),
    Plant("gpt", DYNAMO, "Softmax", "axis_in_front"),
    Plant("gpt_masked_fill", TORCHSCRIPT, "Where", "inverted"),
    Plant("sdpa_causal", DYNAMO, "MatMul", "half", -1),
    Plant("padding_mask", TORCHSCRIPT, "Erf", "cheap_erf"),
    Plant("llama", TORCHSCRIPT, "Div", "reciprocal_of_12_bits"),
    Plant("moe", TORCHSCRIPT, "TopK", "descending"),
    Plant("lstm", TORCHSCRIPT, "LSTM", "gates"),
    Plant("gru", DYNAMO, "GRU", "reset_first", -1),
    Plant("group_norm", TORCHSCRIPT, "InstanceNormalization", "unbiased", -1),
    Plant("embedding_bag", TORCHSCRIPT, "Gather", "one_less"),
    Plant("detection", DYNAMO, "Sigmoid", "half"),
    Plant("super_resolution", TORCHSCRIPT, "DepthToSpace", "columns_first"),
    Plant("upsample", DYNAMO, "Resize", "corners", 1),
    Plant("conv1d", TORCHSCRIPT, "Conv", "dense"),
    Plant("conv3d", DYNAMO, "MaxPool", "flat_window"),
    Plant("gan", TORCHSCRIPT, "ConvTranspose", "unflipped", -1),
    Plant("quantised", DYNAMO, "QuantizeLinear", "truncated", -1),
    Plant("einsum", DYNAMO, "ArgMax", "least"),
    Plant("geometry", TORCHSCRIPT, "CumSum", "exclusive"),
    Plant("normalise", BY_HAND, "Div", "swapped"),
    Plant("bordered", BY_HAND, "Pad", "other_side"),
    Plant("counted", BY_HAND, "Cast", "to_nearest"),
    Plant("square", BY_HAND, "ReduceMean", "other_axis"),
)


def planted(plant: Plant, model: onnx.ModelProto) -> str:
    """The check's verdict on the planted fault: "found", or what it reports instead."""
    value = plant.value(model)
    target = Target(f"one-node,fault={plant.fault},value={value}")
    found = nnfuzz.check_model(model, [target], plugins=[PLUGIN], localise=False)
    if not found.places:
        return f"MISSED: {found.summary()}"
    (place,) = found.places
    if place.value == value:
        return "found"
    return f"ELSEWHERE: {place.maker} computes {place.value}; it is {value}"


def main(
    backend: Annotated[list[str] | None, typer.Option("--backend", "-b")] = None,
    only: Annotated[str, typer.Option(help="Part of the names of models.")] = "",
) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    chosen = [plant for plant in PLANTS if only in plant.model]
    said: list[str] = []
    told = 0
    for plant in chosen:
        name = f"{plant.model} {plant.exporter[0] or 'by hand'}, {plant.operator} {plant.fault}"
        try:
            model = plant.load()
            said.append(planted(plant, model))
        except Exception as error:
            said.append(f"NOT CHECKED: {type(error).__name__}: {str(error)[:200]}")
        print(f"{name}: {said[-1]}", flush=True)
        if not backend or said[-1].startswith("NOT CHECKED"):
            continue
        check = nnfuzz.check_model(model, backend, localise=False)
        told += check.failed
        print(f"    right: {check.summary()}", flush=True)
        for place in check.places:
            print("\n".join(f"        {line[:300]}" for line in place.lines()), flush=True)
    located = said.count("found")
    elsewhere = sum(text.startswith("ELSEWHERE") for text in said)
    print(f"{located + elsewhere} of {len(chosen)} planted faults found, {located} at their node")
    if backend:
        print(f"{told} of {len(chosen)} models fail on {', '.join(backend)}, see above")
    raise typer.Exit(0 if located >= 14 / 15 * len(chosen) else 1)


if __name__ == "__main__":
    typer.run(main)

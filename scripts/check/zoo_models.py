"""Makes the models of scripts/check/zoo.py: python scripts/check/zoo_models.py GROUP FOLDER.

Each group runs in the environment that has its libraries: trees and pipelines of scikit-learn in
the zoo's own, modules of PyTorch and quantised models in that of nnfuzz.
"""

from __future__ import annotations

import sys
import tomllib
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

Made = Iterator[tuple[str, Any]]
"""Names of models, and the models as onnx.ModelProto."""
ZOO = tomllib.loads(Path(__file__).with_name("zoo.toml").read_text())
OPSET = {"": 18, "ai.onnx.ml": 3}


def learned() -> Made:
    """Classifiers, regressors and pipelines as skl2onnx and onnxmltools convert them."""
    import lightgbm
    import onnxmltools
    import xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType as OtherFloats
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    sklearn = {name: import_module(f"sklearn.{name}") for name in ZOO["modules"].split()}
    rng = np.random.default_rng(0)
    x = rng.standard_normal((120, 6)).astype(np.float32)
    kinds, two, number = x[:, 0].round().astype(int) % 3, (x[:, 1] > 0).astype(int), x @ x[0]
    words = np.array(["red", "green", "blue"])[kinds].astype(object)
    targets = {"kinds": kinds, "two": two, "number": number, "names": words.astype(str)}
    for i, line in enumerate(ZOO["learned"].strip().splitlines()):
        text, kind = line.split(" | ")
        own, strings = eval(text, sklearn), kind == "words"
        ends = ("s", StringTensorType([None, 1])) if strings else ("x", FloatTensorType([None, 6]))
        own.fit(words.reshape(-1, 1) if strings else x, targets.get(kind))
        steps = [step for _, step in getattr(own, "steps", [("", own)])]
        name = "-".join(type(step).__name__ for step in steps)
        yield f"sklearn-{i}-{name}", to_onnx(own, initial_types=[ends], target_opset=OPSET)
    for library, prefix in ((lightgbm, "LGBM"), (xgboost, "XGB")):
        convert = getattr(onnxmltools, f"convert_{library.__name__}")
        for kind, target in (("Classifier", kinds), ("Classifier", two), ("Regressor", number)):
            own = getattr(library, prefix + kind)(n_estimators=10, max_depth=4).fit(x, target)
            model = convert(own, initial_types=[("x", OtherFloats([None, 6]))], target_opset=15)
            yield f"{library.__name__}-{kind}{'-two' if target is two else ''}", model


def modules() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Modules of the kinds that people export, with example inputs."""
    import torch
    from torch import nn

    class Recurrent(nn.Module):
        def __init__(self, kind: str) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(50, 16), nn.Linear(24, 5)
            self.cell = getattr(nn, kind)(16, 12, 2, batch_first=True, bidirectional=True)

        def forward(self, ids: Any) -> Any:
            return self.head(self.cell(self.embed(ids))[0]).log_softmax(-1)

    def conv(i: int, o: int, **more: Any) -> list[nn.Module]:
        return [nn.Conv2d(i, o, 3, padding=1, bias=False, **more), nn.BatchNorm2d(o), nn.ReLU()]

    image, ids = torch.rand(1, 3, 32, 32), torch.randint(0, 50, (2, 12))
    ends = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)]
    up = [*conv(3, 8), nn.AvgPool2d(2), nn.ConvTranspose2d(8, 8, 2, 2), nn.Upsample(None, 2.0)]
    layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu", batch_first=True)
    return {
        "residual": (nn.Sequential(*conv(3, 16, stride=2), nn.MaxPool2d(2), *ends), (image,)),
        "unet": (nn.Sequential(*up), (image,)),
        "lstm": (Recurrent("LSTM"), (ids,)),
        "gru": (Recurrent("GRU"), (ids,)),
        "encoder": (nn.Sequential(layer, nn.LayerNorm(32), nn.Tanh()), (torch.randn(2, 12, 32),)),
    }


def exported() -> Made:
    """The modules as both of PyTorch's exporters write them, and quantised forms of some."""
    import torch

    torch.manual_seed(0)
    for name, (module, inputs) in modules().items():
        for suffix, more in (("dynamo", {"dynamo": True}), ("script", {"opset_version": 17})):
            file = Path(sys.argv[2], f"torch-{name}-{suffix}.onnx")
            more = {"dynamo": False, "external_data": False, **more}
            torch.onnx.export(module.eval(), inputs, str(file), **more)
        if name in ("residual", "unet", "lstm", "encoder"):
            yield from quantised(name, file, inputs)


def quantised(name: str, file: Path, inputs: Any) -> Made:
    """A model in the three forms that onnxruntime.quantization writes."""
    from onnxruntime import quantization as own

    class Reader(own.CalibrationDataReader):
        left = [dict(zip((v.name for v in onnx.load(file).graph.input), (inputs[0].numpy(),)))]

        def get_next(self) -> Any:
            self.left, left = [], self.left
            return left[0] if left else None

    ready, out = str(file.with_suffix(".pre")), str(file.with_suffix(".q"))
    own.quant_pre_process(str(file), ready, skip_symbolic_shape=True)
    own.quantize_dynamic(ready, out)
    yield f"quantised-{name}-dynamic", onnx.load(out)
    for form, kind in (("QDQ", own.QuantType.QInt8), ("QOperator", own.QuantType.QUInt8)):
        more = {"quant_format": own.QuantFormat[form], "per_channel": form == "QDQ"}
        own.quantize_static(ready, out, Reader(), activation_type=kind, **more)
        yield f"quantised-{name}-{form}", onnx.load(out)
    for left in (ready, out):
        Path(left).unlink()


def written() -> Made:
    """Sequences, strings, loops and the like, and a large model of 5,000 nodes and 100 MB."""
    for name, text in ZOO["written"].items():
        head = '<ir_version: 8, opset_import: ["" : 18, "ai.onnx.ml" : 3]>'
        yield name, parser.parse_model(f"{head} g {text}")
    rng, value, nodes, weights = np.random.default_rng(0), "x", [], []
    for i in range(1666):
        weight = (rng.standard_normal((122, 122)) / 11).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{i}"))
        read = value if i % 2 else "x"
        triple = ("MatMul", value, f"w{i}"), ("Tanh", f"m{i}"), ("Add", f"t{i}", read)
        nodes += [helper.make_node(k, reads, [f"{k[0].lower()}{i}"]) for k, *reads in triple]
        value = f"a{i}"
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 122]) for n in ("x", value)]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", 17)]
    yield "large", helper.make_model(graph, opset_imports=opsets, ir_version=8)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    groups = {"learned": learned, "exported": exported, "written": written}
    for made_name, model in groups[sys.argv[1]]():
        onnx.save(model, str(Path(sys.argv[2], f"{made_name}.onnx")))

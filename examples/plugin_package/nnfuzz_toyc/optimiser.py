"""A model optimiser: what no output needs is left out."""

from collections.abc import Collection

import onnx
from nnfuzz.backends.transform import Transform


class Pruned(Transform):
    name = "pruned"
    preload = ("onnx.utils", "onnxruntime")

    @staticmethod
    def transform(model: onnx.ModelProto, without: Collection[str]) -> onnx.ModelProto:
        from onnx.utils import Extractor

        names = [[v.name for v in values] for values in (model.graph.input, model.graph.output)]
        return Extractor(model).extract_model(*names)

"""Nodes of a foreign ONNX model that no operator spec describes: known types, unknown numbers.

It keeps a starting graph (see nnfuzz.materialize.importing) whole. PyTorch's part is played by
`onnx.reference`; values that depend on its result are not compared, so that only crashes, refusals
and wrong types show in it. But where all operands are known exactly, so are the results of
operators that select, count and rearrange.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nnfuzz.ir.opset_imports import imported_versions
from nnfuzz.operators.foreign import Foreign, types_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from nnfuzz.ir.types import TensorType
    from nnfuzz.operators.intervals import Interval


CHOOSING = frozenset(
    "Compress Concat ConcatFromSequence Constant ConstantOfShape Equal Expand Gather "
    "GatherElements GatherND Identity MaxUnpool NonZero Not OneHot Optional OptionalGetElement "
    "OptionalHasElement Pad Reshape SequenceAt SequenceConstruct SequenceEmpty SequenceErase "
    "SequenceInsert SequenceLength Shape Size Slice Split SplitToSequence Squeeze TensorScatter "
    "Tile Transpose Trilu Unique Unsqueeze Where".split()
)
"""Operators of ONNX that select, count or rearrange elements, and compute nothing."""


class Opaque(Foreign):
    """Nodes whose results onnx.reference computes."""

    name = "Opaque"

    @cached_property
    def _evaluator(self) -> Any:
        import onnx
        from onnx.reference import ReferenceEvaluator

        named = ((node.domain, node.op_type) for node in self.graph.node)
        versions = imported_versions(named, self.opset).items()
        opsets = [onnx.OperatorSetIdProto(domain=d, version=v) for d, v in versions]
        model = onnx.ModelProto(ir_version=10, graph=self.graph, opset_import=opsets)
        with suppress(onnx.shape_inference.InferenceError):
            # some operators are functions of the types of their inputs
            model = onnx.shape_inference.infer_shapes(model)
        return ReferenceEvaluator(model)

    def torch(self, *tensors: Tensor) -> list[Tensor]:
        """Computed by onnx.reference on NumPy arrays in the dtypes of the model, as its constants
        are. Where floats come in a wider one, floats leave in it.
        """
        from nnfuzz.operators import carriers

        fed, wide = {}, None
        for info, x, type_ in zip(self.graph.input, tensors, types_of(self.takes)):
            if x.is_floating_point():
                wide = x.dtype if x.dtype != type_.dtype.torch else wide
                x = carriers.rounded(x, type_.dtype)
            fed[info.name] = carriers.array(x, type_.dtype)
        results = zip(self._evaluator.run(None, fed), types_of(self.gives))
        return [self._stored(array, type_, wide) for array, type_ in results]

    def _stored(self, array: Any, type_: TensorType, wide: Any) -> Tensor:
        import numpy as np

        from nnfuzz.operators import carriers

        array = np.asarray(array).reshape(type_.shape)
        stored = carriers.tensor(array.astype(type_.dtype.numpy))
        return stored.to(wide) if type_.dtype.is_float and wide is not None else stored

    def undefined(self, *intervals: Interval) -> Tensor:
        """Every element or none: a mask that broadcasts to all outputs."""
        import torch

        known = all(b.exact and b.any is None for b in intervals)
        chosen = {node.op_type for node in self.graph.node} <= CHOOSING
        return torch.tensor(not (known and chosen))

    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        from nnfuzz.operators.intervals import Interval, outputs

        return [Interval(y, y) for y in outputs(self, *[b.lo for b in intervals])]

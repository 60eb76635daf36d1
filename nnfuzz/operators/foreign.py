"""Nodes of an imported ONNX model that a graph keeps unchanged, with their types.

`Opaque` nodes have no operator spec, and `onnx.reference` computes their results in place of
PyTorch. Results that depend on them are not compared, so only crashes, refusals and wrong types are
found. Exception: if all operands are known exactly, operators that only select, count or rearrange
elements have known results, too.
"""

from __future__ import annotations

import base64
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.opset_imports import imported_versions
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.operator import ConstraintError, OpSpec
from nnfuzz.operators.unexportable import Unexportable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import onnx
    from torch import Tensor

    from nnfuzz.ir.expr import Bool
    from nnfuzz.operators.intervals import Interval

_WHY = "a node of a seed model has no PyTorch form: use --exporter direct"


class Foreign(OpSpec):
    """ONNX nodes in place of an operator.

    text: an onnx.GraphProto of the nodes and their constants, in base64; its inputs and outputs are
    those of this operator, in order. takes, gives: types of inputs and outputs as (dtype name,
    *dimensions).
    """

    takes_empty = True
    variadic = (0, 256)
    weight = 0.0
    unexportable = (Unexportable("torchscript", _WHY), Unexportable("dynamo", _WHY))
    text = Choice(("",))
    opset = Choice((0,))
    takes = Choice(((),))
    gives = Choice(((),))

    @classmethod
    def of(
        cls,
        graph: onnx.GraphProto,
        opset: int,
        takes: Sequence[TensorType],
        gives: Sequence[TensorType],
        **more: Any,
    ) -> Self:
        """The operator for an ONNX graph. takes, gives: concrete types. more: other attributes."""
        text = base64.b64encode(graph.SerializeToString(deterministic=True)).decode()
        flat = [tuple((t.dtype.value, *t.shape) for t in types) for types in (takes, gives)]
        return cls(text=text, opset=opset, takes=flat[0], gives=flat[1], **more)

    def __repr__(self) -> str:
        return f"{self.name}<{', '.join(node.op_type for node in self.graph.node)}>"

    @cached_property
    def graph(self) -> onnx.GraphProto:
        """The nodes and constants, decoded from `text`."""
        import onnx

        return onnx.GraphProto.FromString(base64.b64decode(self.text))

    @classmethod
    def signatures(cls) -> list[Any]:
        """No signatures: generation never inserts it."""
        return []

    def check(self, *inputs: TensorType) -> None:
        if not _same(inputs, types_of(self.takes)):
            raise ConstraintError(f"{self!r} takes {types_of(self.takes)}, got {list(inputs)}")

    def requires(self, *inputs: TensorType) -> Iterator[Bool]:
        yield _same(inputs, types_of(self.takes))

    def type_transfer(self, *inputs: TensorType) -> list[TensorType]:
        return types_of(self.gives)

    def output_dtype(self, *inputs: TensorType) -> DType:
        return DType(self.gives[0][0])

    def onnx(self, emit: Any, *values: str) -> Any:
        """The nodes themselves, with their constants as initializers."""
        return emit.graft(self.graph, values)


def types_of(flat: Sequence[Any]) -> list[TensorType]:
    """The types that an attribute like `takes` lists."""
    return [TensorType(DType(dtype), tuple(shape)) for dtype, *shape in flat]


def _same(types: Sequence[TensorType], wanted: Sequence[TensorType]) -> bool:
    return len(types) == len(wanted) and all(
        a.is_concrete and a.same(b) for a, b in zip(types, wanted)
    )


CHOOSING = frozenset(
    "Compress Concat ConcatFromSequence Constant ConstantOfShape Equal Expand Gather "
    "GatherElements GatherND Identity MaxUnpool NonZero Not OneHot Optional OptionalGetElement "
    "OptionalHasElement Pad Reshape SequenceAt SequenceConstruct SequenceEmpty SequenceErase "
    "SequenceInsert SequenceLength Shape Size Slice Split SplitToSequence Squeeze TensorScatter "
    "Tile Transpose Trilu Unique Unsqueeze Where".split()
)
"""Operators of ONNX that select, count or rearrange elements, and compute nothing."""


class Opaque(Foreign):
    """Nodes without an operator spec; onnx.reference computes their results."""

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
            # Some operators are functions that depend on the types of their inputs.
            model = onnx.shape_inference.infer_shapes(model)
        return ReferenceEvaluator(model)

    def torch(self, *tensors: Tensor) -> list[Tensor]:
        """The results of onnx.reference in the dtypes of the model.

        If a float input has a wider dtype (float64 for the oracle), float results get it, too.
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
        """A scalar mask: False if all inputs are exact and the nodes only select elements."""
        import torch

        known = all(b.exact and b.any is None for b in intervals)
        chosen = {node.op_type for node in self.graph.node} <= CHOOSING
        return torch.tensor(not (known and chosen))

    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        from nnfuzz.operators.intervals import Interval, outputs

        return [Interval(y, y) for y in outputs(self, *[b.lo for b in intervals])]

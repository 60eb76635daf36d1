"""Nodes of a foreign ONNX model that no operator spec describes: known types, unknown numbers.

It keeps a starting graph (see nnfuzz.materialize.importing) whole. PyTorch's part is played by
`onnx.reference`; whatever depends on its result is never compared, so that only crashes, refusals
and wrong types show in it.
"""

from __future__ import annotations

import base64
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nnfuzz.ir.dtypes import ALL, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.spec.attributes import Choice
from nnfuzz.spec.operator import ConstraintError, In, OpSpec
from nnfuzz.spec.unexportable import Unexportable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import onnx
    from torch import Tensor

    from nnfuzz.ir.expr import Bool
    from nnfuzz.spec.intervals import Interval

_WHY = "a node of a seed model has no PyTorch form: use --exporter direct"


class Opaque(OpSpec):
    """text: an onnx.GraphProto of a node and its constants, in base64, or of several nodes; its
    inputs and outputs are those of this operator, in order. takes, gives: their types as
    (dtype name, *dimensions).
    """

    name = "Opaque"
    inputs = (In("T", ALL),)
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
    ) -> Opaque:
        """The operator for a graph, as above, with concrete types."""
        text = base64.b64encode(graph.SerializeToString(deterministic=True)).decode()
        flat = [tuple((t.dtype.value, *t.shape) for t in types) for types in (takes, gives)]
        return cls(text=text, opset=opset, takes=flat[0], gives=flat[1])

    def __repr__(self) -> str:
        return f"Opaque<{', '.join(node.op_type for node in self.graph.node)}>"

    @cached_property
    def graph(self) -> onnx.GraphProto:
        """The nodes and constants, decoded from `text`."""
        import onnx

        return onnx.GraphProto.FromString(base64.b64decode(self.text))

    @cached_property
    def _evaluator(self) -> Any:
        import onnx
        from onnx.reference import ReferenceEvaluator

        opsets = [onnx.OperatorSetIdProto(domain="", version=self.opset)]
        model = onnx.ModelProto(ir_version=10, graph=self.graph, opset_import=opsets)
        with suppress(onnx.shape_inference.InferenceError):
            # some operators are functions of the types of their inputs
            model = onnx.shape_inference.infer_shapes(model)
        return ReferenceEvaluator(model)

    @classmethod
    def signatures(cls) -> list[Any]:
        """None: it is never generated."""
        return []

    def check(self, *inputs: TensorType) -> None:
        if not _same(inputs, _types(self.takes)):
            raise ConstraintError(f"{self!r} takes {_types(self.takes)}, got {list(inputs)}")

    def requires(self, *inputs: TensorType) -> Iterator[Bool]:
        yield _same(inputs, _types(self.takes))

    def type_transfer(self, *inputs: TensorType) -> list[TensorType]:
        return _types(self.gives)

    def output_dtype(self, *inputs: TensorType) -> DType:
        return DType(self.gives[0][0])

    def torch(self, *tensors: Tensor) -> list[Tensor]:
        """Computed by onnx.reference on NumPy arrays in the dtypes of the model, as its constants
        are. Where floats come in a wider one, floats leave in it.
        """
        from nnfuzz.spec import carriers

        fed, wide = {}, None
        for info, x, type_ in zip(self.graph.input, tensors, _types(self.takes)):
            if x.is_floating_point():
                wide = x.dtype if x.dtype != type_.dtype.torch else wide
                x = carriers.rounded(x, type_.dtype)
            fed[info.name] = carriers.array(x, type_.dtype)
        results = zip(self._evaluator.run(None, fed), _types(self.gives))
        return [self._stored(array, type_, wide) for array, type_ in results]

    def _stored(self, array: Any, type_: TensorType, wide: Any) -> Tensor:
        import numpy as np

        from nnfuzz.spec import carriers

        array = np.asarray(array).reshape(type_.shape)
        found = carriers.tensor(array.astype(type_.dtype.numpy))
        return found.to(wide) if type_.dtype.is_float and wide is not None else found

    def undefined(self, *intervals: Interval) -> Tensor:
        """Every element: a mask that broadcasts to all outputs."""
        import torch

        return torch.ones((), dtype=torch.bool)

    def interval(self, *intervals: Interval) -> Sequence[Interval]:
        from nnfuzz.spec.intervals import Interval, outputs

        return [Interval(y, y) for y in outputs(self, *[b.lo for b in intervals])]

    def onnx(self, emit: Any, *values: str) -> Any:
        """The nodes themselves, with their constants as initializers."""
        return emit.graft(self.graph, values)


def _same(types: Sequence[TensorType], wanted: Sequence[TensorType]) -> bool:
    return len(types) == len(wanted) and all(
        a.is_concrete and a.same(b) for a, b in zip(types, wanted)
    )


def _types(flat: Sequence[Any]) -> list[TensorType]:
    return [TensorType(DType(dtype), tuple(shape)) for dtype, *shape in flat]

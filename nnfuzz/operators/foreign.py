"""Nodes of a foreign ONNX model that a graph keeps as they are, with their types."""

from __future__ import annotations

import base64
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from nnfuzz.ir.dtypes import ALL, DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.operator import ConstraintError, In, OpSpec
from nnfuzz.operators.unexportable import Unexportable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import onnx

    from nnfuzz.ir.expr import Bool

_WHY = "a node of a seed model has no PyTorch form: use --exporter direct"


class Foreign(OpSpec):
    """text: an onnx.GraphProto of a node and its constants, in base64, or of several nodes; its
    inputs and outputs are those of this operator, in order. takes, gives: their types as
    (dtype name, *dimensions).
    """

    inputs = (In("T", ALL),)
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
        """The operator for a graph, as above, with concrete types and further attributes."""
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
        """None: it is never generated."""
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
    """The types that an attribute like `takes` stands for."""
    return [TensorType(DType(dtype), tuple(shape)) for dtype, *shape in flat]


def _same(types: Sequence[TensorType], wanted: Sequence[TensorType]) -> bool:
    return len(types) == len(wanted) and all(
        a.is_concrete and a.same(b) for a, b in zip(types, wanted)
    )

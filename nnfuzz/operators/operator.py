"""The operator contract: one class is everything nnfuzz knows about one operator.

A class is the operator, an instance is the operator with its attributes set. While a graph grows
attributes may hold expressions; `concrete` evaluates them. See docs/HOW_IT_WORKS.md for the tour
and `nnfuzz.operators.families` for the base classes that keep a usual spec at five lines.

The contract has four parts: attributes (`attributes.py`), types (`typed.py`), numbers
(`numeric.py`), and here the operator's meaning and the exceptions from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.numeric import Numeric
from nnfuzz.operators.typed import ANY_RANGE, ConstraintError, In, Range, Typed, meets, per_input
from nnfuzz.operators.unexportable import Unexportable

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "ANY_RANGE",
    "ConstraintError",
    "In",
    "OpSpec",
    "Range",
    "dtypes_of",
    "flatten",
    "meets",
    "operator",
    "per_input",
]

S = TypeVar("S", bound="OpSpec")


class OpSpec(Typed, Numeric):
    """Base of all operator specs."""

    operator_name: ClassVar[str]
    """The name, in a class that `operator` has marked."""

    onnx_domain: ClassVar[str] = ""
    """The domain of the operator set that has the operator; "" for that of ONNX. `operator` sets it
    to what stands before the last dot of the name: the domain of `name = "com.microsoft.Gelu"` is
    com.microsoft. Models import version 1 of such a domain."""

    since: ClassVar[int] = 7
    """The first ai.onnx opset that `onnx` lowers to; 13 at least for operators of other domains.
    Which signatures and instances have a form at opsets before 11 is found by trial
    (nnfuzz.materialize.older)."""

    weight: ClassVar[float] = 1.0
    """How often generation picks the operator, relative to the others."""

    unexportable: ClassVar[tuple[Unexportable, ...]] = ()
    """Where PyTorch's exporters fail on the operator; generation for that exporter avoids it."""

    unset: ClassVar[Mapping[str, str]] = {}
    """Why attributes of the ONNX operator of that name are never set; `ops check` asks for it."""

    usual: ClassVar[Mapping[str, Any]] = {}
    """Of attributes that say how a model spells the operator, the values that exporters use."""

    plain: ClassVar[type[OpSpec] | None] = None
    """The operator that this one is a mode of: with the same inputs and outputs, but for the
    attribute that makes the mode. The reducer tries it instead."""

    merges: ClassVar[tuple[str, ...]] = ()
    """Operators that compilers cancel or merge with this one behind them: its inverse, what it can
    do itself, as a convolution pads, and perhaps its own kind. Generation often makes such pairs.
    """

    edges: ClassVar[bool] = False
    """Whether IEEE 754 or ONNX decides the results for NaN, infinities and signed zeros: arithmetic
    that is rounded once, comparison, selection by a condition, movement of data, the functions of
    IEEE 754-2019 clause 9.2 (exp, log, sin and the like). ONNX says nothing of infinities and
    signed zeros in a maximum, in a sum of many, in an activation."""

    carries_nan: ClassVar[bool] = False
    """Whether a result that depends on a NaN is NaN for all other operands: arithmetic,
    functions, and the maximum of IEEE 754-2019 clause 9.6, which NumPy, PyTorch and the reference
    implementation of ONNX compute. It is about the NaN that `torch` makes of NaN."""

    leaves_out: ClassVar[bool] = False
    """Whether an element of -inf takes no part in the result beside others: that of a softmax has
    the weight 0, that of a maximum is less than they are."""

    # -- meaning ------------------------------------------------------------------------------

    @per_input
    def torch(self, *tensors: Tensor) -> Tensor | Any:
        """Reference semantics: a tensor, or a sequence of them where there are several outputs.

        Floats may come in any float dtype, float64 included.
        """
        raise NotImplementedError(f"{self.name}.torch")

    @per_input
    def proxy(self, *tensors: Tensor) -> Tensor | Any:
        """A differentiable stand-in for `torch`, where that is flat or jumps.

        The input search takes its derivatives only, never its values. Every tensor comes in
        float64, integers and booleans too. Default: `torch`.
        """
        return self.torch(*tensors)

    @per_input
    def onnx(self, emit: Any, *values: str) -> str | Any:
        """Lower to standard ONNX through `emit` (see nnfuzz.materialize.emit.Emitter).

        Returns the name of the output, or a sequence of names where there are several.

        Default: one ONNX operator of the same name with `onnx_attributes`, of which those in
        `as_inputs` become initializers of int64.
        """
        attributes = dict(self.onnx_attributes())
        more = [emit.const(attributes.pop(name), DType.INT64) for name in self.as_inputs]
        return emit(self.name, *values, *more, **attributes)

    as_inputs: ClassVar[tuple[str, ...]] = ()
    """The attributes that ONNX takes as inputs, behind the tensors."""

    def onnx_attributes(self) -> dict[str, Any]:
        """The attributes of the default lowering. Default: the declared ones, by their names."""
        return self.attributes

    @per_input
    def executes(self, *inputs: TensorType) -> Iterable[tuple[OpSpec, list[TensorType]]]:
        """The operators inside of it, with their inputs' types. Default: none."""
        return ()

    # -- where others fail --------------------------------------------------------------------

    def refusal(self, exporter: str, opset: int, *inputs: TensorType) -> str:
        """Why the operator on such inputs (concrete or not) is not for an exporter; or ""."""
        for declared in self.unexportable:
            if declared.exporter == exporter and declared.covers(exporter, opset, inputs):
                return declared.reason
        if type(self).executes is OpSpec.executes:
            return ""
        inner = (op.refusal(exporter, opset, *types) for op, types in self.executes(*inputs))
        return next(filter(None, inner), "")


def operator(cls: type[S]) -> type[S]:
    """Mark a class as a complete operator spec, so that registries find it."""
    cls.operator_name = cls.name = vars(cls).get("name") or cls.__name__
    cls.onnx_domain = cls.name.rpartition(".")[0]
    cls.since = max(cls.since, 13) if cls.onnx_domain else cls.since
    return cls


def dtypes_of(spec: type[OpSpec], count: int, binding: Mapping[str, DType]) -> list[DType]:
    """One dtype per input for a binding of the type variables."""
    return [binding[p.var] for p in spec.patterns(count)]


def flatten(outputs: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    """The outputs of `OpSpec.torch` as a sequence, whether it returned one tensor or several."""
    return outputs if isinstance(outputs, (list, tuple)) else (outputs,)

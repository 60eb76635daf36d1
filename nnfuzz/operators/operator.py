"""The operator contract: one class is everything nnfuzz knows about one operator.

The class is the operator; an instance is the operator with its attributes set. Attributes may be
symbolic while a graph grows, and `concrete` evaluates them. docs/HOW_IT_WORKS.md gives a tour, and
`nnfuzz.operators.families` has base classes that keep a usual spec at five lines.

The contract has four parts: attributes (`attributes.py`), types (`typed.py`), numbers
(`numeric.py`), and, here, meaning and exceptions.
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
    """The operator's name; the decorator `operator` sets it."""

    onnx_domain: ClassVar[str] = ""
    """The ONNX domain of the operator; "" for ai.onnx. The decorator `operator` takes it from the
    name: "com.microsoft" for "com.microsoft.Gelu". Models import version 1 of it."""

    schema: ClassVar[Any] = None
    """The onnx.defs.OpSchema of the operator where onnx has none: with it models of others are read
    that have the operator."""

    since: ClassVar[int] = 7
    """The first ai.onnx opset that `onnx` can lower to; at least 13 for operators of other domains.
    For opsets before 11, nnfuzz.materialize.older finds by trial which instances can be lowered."""

    constant_inputs: ClassVar[tuple[str, ...]] = ()
    """ONNX's names of inputs. If such an input is a constant, `from_onnx` gets its value as a
    field."""

    order: ClassVar[tuple[int, ...]] = ()
    """The position in an ONNX node of each input, if the node has them in another order."""

    weight: ClassVar[float] = 1.0
    """How often generation picks the operator, relative to others."""

    unexportable: ClassVar[tuple[Unexportable, ...]] = ()
    """Cases in which PyTorch's exporters fail; generation for such an exporter avoids them."""

    unset: ClassVar[Mapping[str, str]] = {}
    """Attributes of the ONNX operator that are never set -> the reason (see `ops check`)."""

    usual: ClassVar[Mapping[str, Any]] = {}
    """For attributes that only change how a model writes the operator: what exporters write."""

    plain: ClassVar[type[OpSpec] | None] = None
    """The operator that this one is a mode of: with the same inputs and outputs, but for the
    attribute that makes the mode. `--focus` on that one aims at this one as well."""

    merges: ClassVar[tuple[str, ...]] = ()
    """Operators that compilers cancel with this one or merge into it if they read its result: its
    inverse, operators whose work it can do (a convolution can pad), perhaps its own kind.
    Generation often makes such pairs."""

    edges: ClassVar[bool] = False
    """Whether IEEE 754 or ONNX defines the results for NaN, infinities and signed zeros: arithmetic
    that rounds once, comparison, selection by a condition, data movement, the functions of IEEE
    754-2019 clause 9.2 (exp, log, sin and the like). For a maximum, a sum of many terms or an
    activation, ONNX does not define them."""

    carries_nan: ClassVar[bool] = False
    """Whether a result that depends on a NaN is NaN, whatever the other operands are: arithmetic,
    functions, and the maximum of IEEE 754-2019 clause 9.6, which NumPy, PyTorch and onnx.reference
    compute. `torch` must return NaN for NaN."""

    leaves_out: ClassVar[bool] = False
    """Whether an element of -inf has no effect beside finite ones, as in a softmax or a maximum."""

    # -- meaning ------------------------------------------------------------------------------

    @per_input
    def torch(self, *tensors: Tensor) -> Tensor | Any:
        """Reference semantics: a tensor, or a sequence of tensors if there are several outputs.

        Float inputs may have any float dtype, float64 included.
        """
        raise NotImplementedError(f"{self.name}.torch")

    @per_input
    def proxy(self, *tensors: Tensor) -> Tensor | Any:
        """A differentiable replacement for `torch` where that is flat or jumps.

        The input search uses its derivatives only, never its values. Every tensor is float64, also
        those of integers and booleans. Default: `torch`.
        """
        return self.torch(*tensors)

    @per_input
    def onnx(self, emit: Any, *values: str) -> str | Any:
        """Lower to standard ONNX through `emit` (nnfuzz.materialize.emit.Emitter).

        Returns the name of the output, or a sequence of names if there are several. Default: one
        ONNX operator of this name with `onnx_attributes`; those in `as_inputs` become initializers.
        """
        attributes = dict(self.onnx_attributes())
        more = [emit.const(attributes.pop(name), DType.INT64) for name in self.as_inputs]
        return emit(self.name, *values, *more, **attributes)

    as_inputs: ClassVar[tuple[str, ...]] = ()
    """Names of the attributes that ONNX takes as inputs, after the tensors."""

    def onnx_attributes(self) -> dict[str, Any]:
        """The attributes of the default lowering. Default: the declared ones, by their names."""
        return self.attributes

    @per_input
    def executes(self, *inputs: TensorType) -> Iterable[tuple[OpSpec, list[TensorType]]]:
        """The operators inside this one (steps of a body), with their input types."""
        return ()

    # -- where others fail --------------------------------------------------------------------

    def refusal(self, exporter: str, opset: int, *inputs: TensorType) -> str:
        """Why the exporter cannot export the operator with such inputs; "" if it can."""
        for declared in self.unexportable:
            if declared.exporter == exporter and declared.covers(exporter, opset, inputs):
                return declared.reason
        if type(self).executes is OpSpec.executes:
            return ""
        inner = (op.refusal(exporter, opset, *types) for op, types in self.executes(*inputs))
        return next(filter(None, inner), "")


def operator(cls: type[S], domain: str = "") -> type[S]:
    """Marks a class as a complete operator spec, so that registries find it.

    domain: stands before the name of the class, with a dot, if there is one.
    """
    cls.operator_name = cls.name = f"{domain}.{cls.name}" if domain else cls.name
    cls.onnx_domain = cls.name.rpartition(".")[0]
    cls.since = max(cls.since, 13) if cls.onnx_domain else cls.since
    return cls


def dtypes_of(spec: type[OpSpec], count: int, binding: Mapping[str, DType]) -> list[DType]:
    """The dtype of each of `count` inputs. binding: dtypes by type variable."""
    return [binding[p.var] for p in spec.patterns(count)]


def flatten(outputs: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    """The outputs of `OpSpec.torch` as a sequence, whether it returned one tensor or several."""
    return outputs if isinstance(outputs, (list, tuple)) else (outputs,)

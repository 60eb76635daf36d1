"""The results of one operator: of PyTorch, of ONNX's type inference, and of onnx.reference."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from nnfuzz.check.instances import OpInstance
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.ir.opset_imports import OWN_DOMAINS
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.operator import OpSpec, Range, flatten

if TYPE_CHECKING:
    import onnx
    from torch import Tensor

Arrays = list[np.ndarray]
SPANS = ((-3.0, 3.0), (-1.0, 1.0), (-0.25, 0.25), (0.25, 0.75), (1.25, 4.0))
"""Ranges of values tried in turn until the operator's domain admits one."""


class RejectedByOnnx(Exception):
    """ONNX does not accept a model; the text is its reason."""


# -- values -----------------------------------------------------------------------------------


def inputs_for(instance: OpInstance, rng: np.random.Generator) -> tuple[Arrays, bool]:
    """Random inputs, and whether they lie in the operator's domain.

    Wide values are tried first, positive numbers (small integers) at last.
    """
    arrays: Arrays = []
    for span in SPANS:
        arrays = [_array(t, r, span, rng) for t, r in zip(instance.types, _ranges(instance))]
        if in_domain(instance.op, arrays):
            return arrays, True
    return arrays, False


def in_domain(op: OpSpec, arrays: Sequence[np.ndarray]) -> bool:
    """Whether every domain term is at most 0. A term that is not a number counts as violated."""
    return all(bool((term <= 0).all()) for term in op.domain(*torch_tensors(arrays)))


def _ranges(instance: OpInstance) -> list[object]:
    """Per input, the range of its integers, or its valid range where both ends are finite."""
    valid = [r if r and math.isfinite(r[1] - r[0]) else None for r in instance.op.valid]
    given = instance.op.integer_range(*instance.types)
    rows = itertools.zip_longest(instance.types, given, valid)
    return [
        (own or bounds) if type_.dtype.is_float else own for type_, own, bounds in rows if type_
    ]


def _array(type_: TensorType, range_: Any, span: Range, rng: np.random.Generator) -> np.ndarray:
    dtype, shape = type_.dtype, type_.sizes
    if dtype.is_bool:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_int:
        lo, hi = (1, 5) if span[0] > 0 else (-8, 8)
        lo, hi = (lo, hi) if range_ is None else (int(range_[0]), int(range_[1]))
        least, most = dtype.limits
        return rng.integers(int(max(lo, least)), int(min(hi, most)) + 1, shape).astype(dtype.numpy)
    if range_ is not None:
        lo, hi = max(span[0], range_[0]), min(span[1], range_[1])
        span = (lo, hi) if lo < hi else range_
    return np.asarray(rng.uniform(*span, shape)).astype(dtype.numpy)


def torch_tensors(arrays: Sequence[np.ndarray]) -> list[Tensor]:
    """Copies as torch tensors, in the carriers of their dtypes."""
    from nnfuzz.operators.carriers import tensor

    return [tensor(a) for a in arrays]


def doubled(arrays: Sequence[np.ndarray]) -> list[Tensor]:
    """The same with floats in float64."""
    return [t.double() if t.is_floating_point() else t for t in torch_tensors(arrays)]


# -- PyTorch ----------------------------------------------------------------------------------


def run_torch(op: OpSpec, arrays: Sequence[np.ndarray]) -> Arrays:
    """The results of `op.torch`. Raises: any error of it; ValueError if it wrote to an input."""
    from nnfuzz.operators.carriers import array

    given = torch_tensors(arrays)
    results = list(flatten(op.torch(*given)))
    outputs = [_stored(x, d) for x, d in zip(results, _output_dtypes(op, arrays, results))]
    for before, after in zip(arrays, given):
        if before.tobytes() != array(after, DType.of(before.dtype)).tobytes():
            raise ValueError("torch() wrote to its input")
    return outputs


def _output_dtypes(
    op: OpSpec, arrays: Sequence[np.ndarray], results: Sequence[Tensor]
) -> list[DType]:
    """The declared dtypes, or those of the results where the spec refuses the inputs."""
    try:
        declared = [t.dtype for t in op.type_transfer(*map(type_of, arrays))]
    except Exception:
        declared = []
    actual = [DType.of(x.dtype) for x in results]
    return declared if len(declared) == len(actual) else actual


def _stored(x: Tensor, dtype: DType) -> np.ndarray:
    """A result as an array of its declared dtype, or of its own if that is not the carrier."""
    from nnfuzz.operators.carriers import array, settled

    if x.dtype is not dtype.torch:
        return np.array(array(x, DType.of(x.dtype)))
    return np.array(array(settled(x, dtype), dtype))


def type_of(array: np.ndarray) -> TensorType:
    """The type of an array."""
    return TensorType(DType.of(array.dtype), tuple(map(int, array.shape)))


# -- ONNX -------------------------------------------------------------------------------------


def one_node(instance: OpInstance, outputs: Sequence[TensorType], opset: int) -> onnx.ModelProto:
    """The direct lowering of the instance as a model with inputs x0, x1 ... and outputs y0 ..."""
    from nnfuzz.materialize.emit import emit_model

    ins = [f"x{i}" for i in range(len(instance.types))]
    outs = [f"y{i}" for i in range(len(outputs))]
    values = {n: Value(n, t) for n, t in zip([*ins, *outs], [*instance.types, *outputs])}
    node = Node(instance.op, tuple(ins), tuple(outs))
    return emit_model(Graph(values, [node], ins, [], outs), {}, opset)


def unknown_operators(model: onnx.ModelProto) -> list[str]:
    """The operators of ONNX's own domain in a model's graph that no opset of ONNX has."""
    from onnx import defs

    own = [node.op_type for node in model.graph.node if node.domain in OWN_DOMAINS]
    return [name for name in own if not defs.has(name)]


def other_types(model: onnx.ModelProto, outputs: Sequence[TensorType]) -> str:
    """The output types that strict shape inference finds by itself, after a full check of the
    model; "" if it finds these or leaves them open. Raises: RejectedByOnnx.
    """
    import onnx

    try:
        onnx.checker.check_model(model, full_check=True)
        bare = onnx.ModelProto()
        bare.CopyFrom(model)
        for output in bare.graph.output:
            output.ClearField("type")
        inferred = onnx.shape_inference.infer_shapes(bare, strict_mode=True, data_prop=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise RejectedByOnnx(str(error).strip().splitlines()[-1]) from None
    found = inferred.graph.output
    if all(_admits(value.type.tensor_type, type_) for value, type_ in zip(found, outputs)):
        return ""
    return ", ".join(map(onnx.helper.printable_value_info, found))


def _admits(inferred: Any, type_: TensorType) -> bool:
    """Whether a type agrees with the inferred one, whose open parts agree with anything."""
    import onnx

    if not inferred.elem_type:  # GroupNormalization has no type inference (onnx 1.23).
        return True
    if DType.of(onnx.helper.tensor_dtype_to_np_dtype(inferred.elem_type)) is not type_.dtype:
        return False
    dims = [d.dim_value if d.HasField("dim_value") else None for d in inferred.shape.dim]
    return not inferred.HasField("shape") or (
        len(dims) == type_.rank and all(a in (None, b) for a, b in zip(dims, type_.shape))
    )


Runtime = Callable[["onnx.ModelProto", Sequence[np.ndarray]], Arrays]
"""Runs a model with inputs x0, x1 ... Raises: Unavailable, or any other error."""
EVALUATOR = "onnx.reference"
BODY = "function body"
STRICT = (EVALUATOR, BODY)
"""The authorities: a difference from them without a `Waiver` is a problem."""


class Unavailable(Exception):
    """A runtime is not installed, or says that it does not implement the operator."""


def run_reference(model: onnx.ModelProto, arrays: Sequence[np.ndarray]) -> Arrays:
    """The outputs of onnx.reference. Raises: Unavailable for any error of it.

    It is written operator by operator in Python, so an exception of its own says nothing of a
    model that the checker has passed.
    """
    from onnx.reference import ReferenceEvaluator

    try:
        with np.errstate(all="ignore"):
            outputs = ReferenceEvaluator(model).run(None, named(arrays))
    except Exception as error:
        raise Unavailable(f"{type(error).__name__}: {error}") from None
    return [np.asarray(a) for a in outputs]


def run_body(model: onnx.ModelProto, arrays: Sequence[np.ndarray]) -> Arrays:
    """The operators that ONNX defines by a function are replaced by its body for onnx.reference.

    Raises: Unavailable if there is none, or it needs a type that is not known beforehand.
    """
    import onnx.inliner

    given = {(node.domain, node.op_type) for node in model.graph.node}
    try:
        opened = onnx.inliner.inline_selected_functions(
            model, sorted(given), inline_schema_functions=True
        )
    except RuntimeError as error:  # The inliner (onnx 1.23) does not know types of constants.
        raise Unavailable(str(error)) from None
    if [n.op_type for n in opened.graph.node] == [n.op_type for n in model.graph.node]:
        raise Unavailable("no operator of the model is defined by a function")
    return run_reference(opened, arrays)


def named(arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Inputs by the names that `one_node` gives them."""
    return {f"x{i}": array for i, array in enumerate(arrays)}


REFERENCE: Mapping[str, Runtime] = {EVALUATOR: run_reference}
"""The runtime that comes with onnx; it is asked first, backends arbitrate."""
BUNDLED: Mapping[str, Runtime] = {**REFERENCE, BODY: run_body}
"""onnx's own implementations of its operators."""

"""A model's inputs and outputs: names, dtypes and shapes as declared, and elements as bytes."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nnfuzz.base.code_paths import MODEL_FOLDER
from nnfuzz.base.external_data import write_model
from nnfuzz.base.packed_values import Packing, packing_of

Arrays = Mapping[str, np.ndarray]


class InputError(ValueError):
    """Inputs that do not belong to the model: a fault of the caller, not of the compiler."""


@dataclass(frozen=True)
class TensorSpec:
    """dtype (`str` for text) and shape of one input or output; None for a symbolic dimension."""

    dtype: np.dtype
    shape: tuple[int | None, ...]

    def accepts(self, array: np.ndarray) -> bool:
        return (
            (array.dtype == self.dtype or array.dtype.kind == self.dtype.kind == "U")
            and len(array.shape) == len(self.shape)
            and all(want in (None, have) for want, have in zip(self.shape, array.shape))
        )

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


class ModelFile:
    """A model with its external data (nnfuzz.base.external_data) in a temporary folder, which is
    deleted with this object.

    path: of the model.
    """

    def __init__(self, model: bytes) -> None:
        folder = tempfile.mkdtemp(prefix=f"{MODEL_FOLDER}-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = str(Path(folder, "model.onnx"))
        write_model(model, Path(self.path))


class OnnxModel(bytes):
    """A serialised ONNX model with its declared inputs and outputs; usable wherever bytes are.

    file: the model as a file in a folder of its own, with its external data beside it; None where
    it has none, and for backends that load no files (Backend.loads_files).

    Each property raises: InputError if the bytes are no ONNX model, or a declared type is none of a
    tensor.
    """

    file: ModelFile | None = None

    @property
    def path_or_bytes(self) -> str | bytes:
        """The path of `file`, or else the bytes: the two forms in which compilers take models."""
        return self.file.path if self.file else self

    @cached_property
    def inputs(self) -> dict[str, TensorSpec]:
        """By name, in order, without initializers; of a text the numbers in it."""
        weights = {tensor.name for tensor in self._graph.initializer}
        return _tensors((v for v in self._graph.input if v.name not in weights), self.packed_inputs)

    @cached_property
    def outputs(self) -> dict[str, TensorSpec]:
        """By name, in order; as the file declares them, not as the compiler returns them; of a
        text or of maps the numbers in it.
        """
        return _tensors(self._graph.output, self.packed_outputs)

    @property
    def output_names(self) -> tuple[str, ...]:
        return tuple(
            name
            for value in self._graph.output
            for packed in [self.packed_outputs.get(value.name)]
            for name in (packed.tensors if packed else [value.name])
        )

    @property
    def loose_outputs(self) -> frozenset[str]:
        """Outputs that are not declared as tensors of numbers, and pack none of a known number."""
        from onnx import TensorProto

        packed, no_numbers = self.packed_outputs, (TensorProto.UNDEFINED, TensorProto.STRING)
        loose = (v for v in self._graph.output if v.name not in packed)
        return frozenset(v.name for v in loose if v.type.tensor_type.elem_type in no_numbers)

    @cached_property
    def packed_inputs(self) -> Packing:
        """The inputs that are texts."""
        return packing_of(self._graph.input)

    @cached_property
    def packed_outputs(self) -> Packing:
        """The outputs that are maps or texts."""
        return packing_of(self._graph.output, self._graph.node)

    @cached_property
    def _graph(self) -> Any:
        import onnx
        from google.protobuf.message import DecodeError

        try:
            return onnx.load_model_from_string(bytes(self)).graph
        except DecodeError as error:
            raise InputError(f"these {len(self)} bytes are not an ONNX model: {error}") from error


def read_interface(model: bytes) -> tuple[dict[str, TensorSpec], tuple[str, ...]]:
    """Serialised ONNX model -> (inputs without initializers, output names).

    Raises: InputError if the bytes are no ONNX model or an input is not a tensor.
    """
    known = OnnxModel(model)
    return known.inputs, known.output_names


def check_inputs(wanted: Mapping[str, TensorSpec], inputs: Arrays) -> None:
    """Raises: InputError that names every input which is missing, unknown or of another type."""
    problems = [f"{name!r} is missing" for name in wanted if name not in inputs]
    problems += [f"{name!r} is no input of the model" for name in inputs if name not in wanted]
    for name in (name for name in wanted if name in inputs):
        array = inputs[name]
        if not isinstance(array, np.ndarray) or not wanted[name].accepts(array):
            got = getattr(array, "dtype", type(array).__name__), list(np.shape(array))
            problems.append(f"{name!r} is {got[0]}{got[1]}, the model wants {wanted[name]}")
    if problems:
        raise InputError("inputs do not fit the model: " + "; ".join(problems))


def _tensors(values: Iterable[Any], packing: Packing) -> dict[str, TensorSpec]:
    """The tensors that some inputs or outputs are or pack, in order. Raises: InputError."""
    specs: dict[str, TensorSpec] = {}
    for value in values:
        if packed := packing.get(value.name):
            dtype = np.dtype(packed.dtype)
            specs |= {name: TensorSpec(dtype, shape) for name, shape in packed.tensors.items()}
        else:
            specs[value.name] = _tensor_spec(value)
    return specs


def _tensor_spec(value: Any) -> TensorSpec:
    from onnx.helper import tensor_dtype_to_np_dtype

    tensor = value.type.tensor_type
    if not tensor.elem_type:
        kind = str(value.type.WhichOneof("value")).removesuffix("_type")
        no_dtype = "tensor of no declared dtype" if kind in ("tensor", "None") else ""
        raise InputError(f"{value.name!r} is a {no_dtype or f'{kind}: nnfuzz feeds tensors alone'}")
    dims = ((d.HasField("dim_value"), d.dim_value) for d in tensor.shape.dim)
    shape = tuple(size if known and size >= 0 else None for known, size in dims)  # -1 is open
    dtype = np.dtype(tensor_dtype_to_np_dtype(tensor.elem_type))
    return TensorSpec(np.dtype(str) if dtype.hasobject else dtype, shape)


def to_bytes(array: np.ndarray) -> bytes:
    """The elements in the order of C, as a compiler's memory and ONNX's `raw_data` hold them, for
    compilers that take no arrays of ml_dtypes, which have one element of 4 bits per byte. Two of
    these share a byte, the first in the low half.
    """
    from onnx import numpy_helper

    return numpy_helper.from_array(np.asarray(array, order="C")).raw_data


def from_bytes(raw: bytes, dtype: int, shape: Sequence[int]) -> np.ndarray:
    """The inverse of `to_bytes`; dtype: a number of onnx.TensorProto.DataType."""
    from onnx import TensorProto, numpy_helper

    return numpy_helper.to_array(TensorProto(data_type=dtype, dims=shape, raw_data=raw))


def onnx_dtype(array: np.ndarray) -> int:
    """The number of an array's dtype in onnx.TensorProto.DataType."""
    from onnx.helper import np_dtype_to_tensor_dtype

    return int(np_dtype_to_tensor_dtype(array.dtype))


def packed_bytes(dtype: int, shape: Sequence[int]) -> int:
    """How many bytes `to_bytes` makes of an array of this dtype, a number of
    onnx.TensorProto.DataType.
    """
    from onnx.helper import tensor_dtype_to_np_dtype

    return len(to_bytes(np.zeros(shape, tensor_dtype_to_np_dtype(dtype))))

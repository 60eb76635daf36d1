"""Inputs and outputs of a model that are maps or texts, and inputs that a graph holds as constants.

The graph of a test case has tensors of numbers at its ends, and so have its inputs and its expected
outputs. The file may have them written as strings (nnfuzz.vary.rewrite.spelling): such an input or
output says in its `doc_string` which tensor it packs, and an input that stands for a constant says
its numbers there. What a ZipMap makes packs the matrix that it reads. Between the two stand
`packed` and `unpacked`, which a backend's program is wrapped with
(nnfuzz.backend.contract.Executable).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx import NodeProto, ValueInfoProto

Shape = tuple[int | None, ...]
_PREFIX = "nnfuzz packs "
_STRING = 8  # onnx.TensorProto.STRING


class PackingError(ValueError):
    """A compiler has returned nothing that packs these tensors."""


class PackingKind(StrEnum):
    """TEXT: a tensor of strings, the decimal numbers of a tensor of integers. MAPS: a sequence of
    maps, one for each row of a matrix. NUMBERS: always the same numbers.
    """

    MAPS = "map_type"
    TEXT = "tensor_type"
    NUMBERS = "numbers"


@dataclass(frozen=True)
class PackedValue:
    """An input or output of the file that packs a tensor.

    tensors: its shape by its name; none of NUMBERS. dtype: of the tensor, by its name in NumPy.
    keys: of maps, by column. numbers: a list, nested as deep as the rank; of NUMBERS only.
    """

    kind: PackingKind
    dtype: str
    tensors: Mapping[str, Shape]
    keys: tuple[int | str, ...] = ()
    numbers: Any = None

    @property
    def doc_string(self) -> str:
        return _PREFIX + json.dumps([self.dtype, self.tensors, self.numbers])

    def packed(self, *arrays: np.ndarray) -> Any:
        """The value for a compiler: a list of dicts, an array of str objects, or of numbers."""
        if self.kind is PackingKind.NUMBERS:
            return np.array(self.numbers, self.dtype)
        (array,) = arrays
        if self.kind is PackingKind.MAPS:
            return [dict(zip(self.keys, row)) for row in array]
        return array.astype(str).astype(object)

    def unpacked(self, name: str, value: Any) -> np.ndarray:
        """The inverse of `packed`. Raises: PackingError."""
        if self.kind is PackingKind.TEXT:
            try:
                return np.asarray(value).astype(self.dtype)
            except (ValueError, TypeError, OverflowError) as error:
                raise PackingError(f"output {name!r} has no numbers: {error}") from error
        if not isinstance(value, list | tuple):
            raise PackingError(f"output {name!r} is {type(value).__name__}, not a list of maps")
        for row in value:
            if not isinstance(row, Mapping) or row.keys() != {*self.keys}:
                raise PackingError(f"output {name!r} has {row}, not a map of {list(self.keys)}")
        rows = [[row[key] for key in self.keys] for row in value]
        return np.array(rows, self.dtype).reshape(len(value), len(self.keys))


Packing = Mapping[str, PackedValue]
"""By the names of the inputs or outputs in the file."""


def packing_of(
    values: Iterable[ValueInfoProto], nodes: Iterable[NodeProto] = ()
) -> dict[str, PackedValue]:
    """Those of some declared inputs or outputs that pack tensors of a test case.

    nodes: of the model, among which a ZipMap may make an output.
    """
    maps = {node.output[0]: _zipped(node) for node in nodes if is_zip_map(node)}
    packing = {v.name: maps.get(v.name) or _packed_value(v) for v in values}
    return {name: packed for name, packed in packing.items() if packed is not None}


def is_zip_map(node: NodeProto) -> bool:
    """Whether a node makes a sequence of maps of a matrix."""
    return (node.domain, node.op_type) == ("ai.onnx.ml", "ZipMap")


def _zipped(node: NodeProto) -> PackedValue:
    keys = [key for a in node.attribute for key in (*a.ints, *map(bytes.decode, a.strings))]
    shape = (None, len(keys))
    return PackedValue(PackingKind.MAPS, "float32", {node.output[0]: shape}, tuple(keys))


def _packed_value(value: ValueInfoProto) -> PackedValue | None:
    if not value.doc_string.startswith(_PREFIX):
        return None
    is_text = value.type.tensor_type.elem_type == _STRING
    try:
        dtype, shapes, numbers = json.loads(value.doc_string.removeprefix(_PREFIX))
        if is_text:
            tensors = {str(name): tuple(map(int, shape)) for name, shape in shapes.items()}
            return PackedValue(PackingKind.TEXT, np.dtype(dtype).name, tensors)
        name = np.array(numbers, dtype).dtype.name
        return None if shapes else PackedValue(PackingKind.NUMBERS, name, {}, numbers=numbers)
    except (AttributeError, OverflowError, RecursionError, TypeError, ValueError):
        return None  # somebody else has written it


def packed(packing: Packing, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays by the names of tensors -> by those of the file's inputs or outputs."""
    inside = {name for value in packing.values() for name in value.tensors}
    given = {name: array for name, array in arrays.items() if name not in inside}
    made = {n: v.packed(*(arrays[tensor] for tensor in v.tensors)) for n, v in packing.items()}
    return {**given, **made}


def evaluated(model: bytes, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The outputs of a model by ONNX's reference evaluator, as arrays of the test case's names.

    Raises: whatever the evaluator raises; PackingError.
    """
    import onnx
    from onnx.reference import ReferenceEvaluator

    proto = onnx.load_model_from_string(model)
    evaluator = ReferenceEvaluator(proto)
    results = evaluator.run(None, packed(packing_of(proto.graph.input), inputs))
    named = dict(zip(evaluator.output_names, results, strict=True))
    made = unpacked(packing_of(proto.graph.output, proto.graph.node), named)
    return {part: array for name, value in made.items() for part, array in elements(name, value)}


def elements(name: str, value: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays in an output of any type, with names: of a sequence "s" these are "len(s)", "s[0]"
    and so on, of a map "keys(m)" and "m[KEY]". Strings are arrays of text.

    Raises: PackingError for a sparse tensor, or what is no value of ONNX.
    """
    if isinstance(value, Mapping):
        yield from elements(f"keys({name})", np.array(list(value)))
        for key, inner in value.items():
            yield from elements(f"{name}[{key!r}]", inner)
    elif isinstance(value, list | tuple) or value is None:
        items = value or ()
        yield f"len({name})", np.array(len(items))
        for i, inner in enumerate(items):
            yield from elements(f"{name}[{i}]", inner)
    elif not isinstance(value, np.ndarray | np.generic | str | bool | int | float):
        raise PackingError(f"output {name!r} is {type(value).__name__}, which holds no arrays")
    else:
        array = np.asarray(value)
        yield name, array.astype(str) if array.dtype.kind in "OSU" else array


def unpacked(packing: Packing, returned: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `packed`. Raises: PackingError for what packs no such tensors."""
    arrays = {name: value for name, value in returned.items() if name not in packing}
    for name, value in packing.items():
        if returned.get(name) is not None:
            arrays |= {part: value.unpacked(name, returned[name]) for part in value.tensors}
    return arrays

"""External data: tensors of a model that lie in files beside it.

Inside of nnfuzz a model is bytes that hold everything. A tensor that names a file (`external_data`)
and has its elements in the model all the same (`data_location` DEFAULT) is valid ONNX, and is
written to that file where a model becomes a file: for a compiler that loads files, in the folder of
a finding, and in a corpus. nnfuzz.base.untrusted.read_embedded is the inverse.

Source: onnx/onnx, docs/ExternalData.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

FILLING = 0xA5
"""The byte between tensors in a file, which a reader with a wrong offset shall notice."""


def names_files(model: bytes) -> bool:
    """Whether any tensor of a serialised model names a file that it is to be written to."""
    return b"location" in model and bool(_placed(_parsed(model)))


def write_model(model: bytes, path: Path) -> None:
    """Writes a serialised model, and the files that its tensors name, beside it.

    Raises: OSError; ValueError for a file that is not below the folder.
    """
    if b"location" not in model:  # invalid models, too, need not be read
        path.write_bytes(model)
        return
    proto = _parsed(model)
    files: dict[str, bytearray] = {}
    for tensor in _placed(proto):
        location, start = _place(tensor)
        if Path(location).is_absolute() or ".." in Path(location).parts:
            raise ValueError(f"{location!r} is not inside of the model's folder")
        content, end = files.setdefault(location, bytearray()), start + len(tensor.raw_data)
        content.extend([FILLING] * (end - len(content)))
        content[start:end] = tensor.raw_data
    for tensor in _placed(proto):
        location, start = _place(tensor)
        if files[location][start:].startswith(tensor.raw_data):  # else another one overwrote it
            tensor.ClearField("raw_data")
            tensor.data_location = type(tensor).EXTERNAL
    for location, content in files.items():
        place = path.parent / location
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    path.write_bytes(proto.SerializeToString(deterministic=True) if files else model)


def _parsed(model: bytes) -> ModelProto:
    import onnx

    return onnx.load_model_from_string(model)


def _placed(model: ModelProto) -> list[TensorProto]:
    """The initializers of the main graph that name a file and have their elements in the model."""
    return [
        tensor
        for tensor in model.graph.initializer
        if tensor.external_data and tensor.raw_data and tensor.data_location != tensor.EXTERNAL
    ]


def _place(tensor: TensorProto) -> tuple[str, int]:
    """The file that a tensor names, and the place of its first byte in it."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    return entries["location"], int(entries.get("offset", 0))

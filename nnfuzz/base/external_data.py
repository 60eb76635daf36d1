"""External data: tensors of a model that lie in files beside it.

Inside of nnfuzz a model is bytes that hold everything. A tensor that names a file (`external_data`)
and has its elements in the model all the same (`data_location` DEFAULT) is valid ONNX, and is
written to a file where a model becomes a file: for a compiler that loads files, in the folder of a
finding, and in a corpus. The file has one of the names in LOCATIONS, whatever name a foreign model
has for it. nnfuzz.base.untrusted.read_embedded is the inverse.

Source: onnx/onnx, docs/ExternalData.md.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

LOCATIONS = ("model.onnx.data", "weights.bin", "data/weights.bin", "a/b/w.0.1")
"""Names of files for external data, to which a number may be added: a model could say numpy.py."""
_OWN = re.compile(rf"(?:{'|'.join(map(re.escape, LOCATIONS))})[0-9]{{0,4}}")
FILLING = 0xA5
"""The byte between tensors in a file, which a reader with a wrong offset shall notice."""


def names_files(model: bytes) -> bool:
    """Whether any tensor of a serialised model names a file that it is to be written to."""
    return b"location" in model and bool(_placed(_parsed(model)))


def write_model(model: bytes, path: Path) -> None:
    """Writes a serialised model, and the external data of its tensors beside it.

    Raises: OSError.
    """
    if b"location" not in model:  # invalid models, too, need not be read
        path.write_bytes(model)
        return
    proto = _parsed(model)
    placed, files = _placed(proto), dict[str, bytearray]()
    for tensor, location, start in placed:
        content, end = files.setdefault(location, bytearray()), start + len(tensor.raw_data)
        content.extend([FILLING] * (end - len(content)))
        content[start:end] = tensor.raw_data
    names = _file_names(files)
    for tensor, location, start in placed:
        if files[location][start:].startswith(tensor.raw_data):  # else another one overwrote it
            tensor.ClearField("raw_data")
            tensor.data_location = type(tensor).EXTERNAL
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = names[location]
    for location, content in files.items():
        place = path.parent / names[location]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    path.write_bytes(proto.SerializeToString(deterministic=True) if files else model)


def _file_names(locations: Collection[str]) -> dict[str, str]:
    """The file for each location: of the same name if nnfuzz has that one, or else a new one."""
    own = {location for location in locations if _OWN.fullmatch(location)}
    fresh = (f"{LOCATIONS[0]}{number or ''}" for number in range(len(locations) + len(own)))
    free = (name for name in fresh if name not in own)
    return {location: location if location in own else next(free) for location in locations}


def _parsed(model: bytes) -> ModelProto:
    import onnx

    return onnx.load_model_from_string(model)


def _placed(model: ModelProto) -> list[tuple[TensorProto, str, int]]:
    """The initializers of the main graph that name a file and have their elements in the model,
    each with that name and the place of its first byte in the file. A tensor whose entries do not
    fit it stays in the model.
    """
    places = []
    for tensor in model.graph.initializer:
        if tensor.raw_data and tensor.data_location != tensor.EXTERNAL:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            start, size = entries.get("offset", "0"), str(len(tensor.raw_data))
            fits = re.fullmatch("[0-9]{1,18}", start) and entries.get("length", size) == size
            if "location" in entries and fits:
                places.append((tensor, entries["location"], int(start)))
    return places

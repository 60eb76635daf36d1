"""What is mined: folders, files, and installed packages, with their licences."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from nnfuzz.base.reading import Unreadable

MODELS = (".onnx", ".prototxt", ".textproto", ".pbtxt", ".onnxtxt", ".onnxtext")
SCRIPT = ".py"
BACKEND_TESTS = "onnx"
"""The package that makes models of its own: the backend tests of the standard."""
_LICENCES = {
    "Apache License": "Apache-2.0",
    "MIT License": "MIT",
    "Permission is hereby granted, free of charge": "MIT",
    "BSD 3-Clause": "BSD-3-Clause",
    "BSD 2-Clause": "BSD-2-Clause",
    "Mozilla Public License": "MPL-2.0",
}
"""SPDX names of licences, by a text that they contain."""
_HEAD = 2_000
UNKNOWN = "unknown"


@dataclass(frozen=True)
class ModelSource:
    """Models and Python files of one origin. label, licence: written into patterns."""

    label: str
    licence: str
    models: tuple[Path, ...] = ()
    scripts: tuple[Path, ...] = ()
    backend_tests: bool = False


def source_of(text: str, licence: str = "") -> ModelSource:
    """The source that a path or the name of an installed package means.

    licence: in place of the one that is found beside it. Raises: Unreadable.
    """
    path = Path(text)
    if path.exists():
        root = path if path.is_dir() else path.parent
        return _files(path.name or text, licence or licence_of(root), path)
    spec = importlib.util.find_spec(text) if text.isidentifier() else None
    if spec is None or spec.origin is None:
        raise Unreadable(f"{text} is neither a file, nor a folder, nor an installed package")
    found = _files(text, licence or _declared(text), Path(spec.origin).parent)
    whole = text == BACKEND_TESTS
    return replace(found, backend_tests=True, scripts=()) if whole else found


def _files(label: str, licence: str, path: Path) -> ModelSource:
    files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    models = tuple(file.absolute() for file in files if file.suffix in MODELS)
    scripts = tuple(file.absolute() for file in files if file.suffix == SCRIPT)
    if not (models or scripts or path.is_dir()):
        raise Unreadable(f"{path} is no ONNX model ({', '.join(MODELS)}) and no Python file")
    return ModelSource(label, licence, models, scripts)


def builds_models(script: Path) -> bool:
    """Whether a Python file names one of the libraries that build ONNX models."""
    try:
        text = script.read_text(errors="replace")
    except OSError:
        return False
    names = (
        "make_model",
        "onnx.parser",
        "onnx.helper",
        "onnxscript",
        "onnx.save",
        "from_onnx_text",
    )
    return any(name in text for name in names)


def licence_of(folder: Path) -> str:
    """The licence in the nearest file of that name, here or above, by its SPDX name."""
    for place in (folder.absolute(), *folder.absolute().parents):
        for file in sorted(place.glob("LICEN[SC]E*")):
            if file.is_file():
                head = re.sub(r"\s+", " ", file.read_text(errors="replace")[:_HEAD])
                return next((name for text, name in _LICENCES.items() if text in head), UNKNOWN)
        if (place / ".git").exists():
            break
    return UNKNOWN


def _declared(package: str) -> str:
    """The licence that an installed package declares."""
    names: Sequence[str] = metadata.packages_distributions().get(package, [package])
    try:
        about = metadata.metadata(names[0]).json
    except metadata.PackageNotFoundError:
        return UNKNOWN
    named = about.get("license_expression") or about.get("license") or ""
    lines = str(named).strip().splitlines()
    return lines[0][:60] if lines else UNKNOWN

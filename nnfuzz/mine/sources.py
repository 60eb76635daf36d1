"""What is mined: folders, files, and installed packages, with their licences."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

from nnfuzz.base.reading import Unreadable
from nnfuzz.base.text import one_line
from nnfuzz.base.untrusted import MAX_TEXT_BYTES, read_bytes

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
    """Models and Python files of one origin. label, licence: written into patterns. problems: a
    line on each file that cannot be used.
    """

    label: str
    licence: str
    models: tuple[Path, ...] = ()
    scripts: tuple[Path, ...] = ()
    backend_tests: bool = False
    problems: tuple[str, ...] = ()


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
    known = (*MODELS, SCRIPT)
    if not path.is_dir() and (path.suffix not in known or not path.is_file()):
        raise Unreadable(f"{path} is no ONNX model ({', '.join(MODELS)}) and no Python file")
    files, problems = [path.absolute()], list[str]()
    if path.is_dir():
        below = (file for file in files_below(path.absolute(), problems) if file.suffix in known)
        files = [file for file in sorted(below) if not _refused(file, path.resolve(), problems)]
    models = tuple(file for file in files if file.suffix in MODELS)
    scripts = tuple(file for file in files if file.suffix == SCRIPT)
    return ModelSource(one_line(label), licence, models, scripts, problems=tuple(problems))


def files_below(folder: Path, problems: list[str]) -> Iterator[Path]:
    """Everything below a folder that is no folder; links to folders are not followed.

    problems: gets a line for each folder that cannot be read.
    """
    waiting = [folder]
    while waiting:  # a recursion would be as deep as the folders
        place = waiting.pop()
        try:
            entries = list(os.scandir(place))
        except OSError as error:
            problems.append(f"{place} cannot be read: {error.strerror}")
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            else:
                yield Path(entry.path)


def _refused(file: Path, folder: Path, problems: list[str]) -> bool:
    """Whether a file below a folder cannot be used; the reason is added to the problems.

    Links to models are followed, as caches of models consist of such, but no script is run that
    does not belong to the folder.
    """
    name = one_line(file)
    if os.path.isdir(file):
        return True  # a link to a folder
    if not os.path.isfile(file):
        problems.append(f"{name} cannot be read: it is no regular file")
    elif name != str(file):
        problems.append(f"{name} is not read: its name has characters that cannot be printed")
    elif file.suffix == SCRIPT and not file.resolve().is_relative_to(folder):
        problems.append(f"{name} is not run: it is a link to {one_line(file.resolve())}")
    else:
        return False
    return True


def source_text(script: Path) -> str:
    """The text of a Python file, in whatever encoding. Raises: Unreadable."""
    return read_bytes(script, MAX_TEXT_BYTES).decode(errors="replace")


def builds_models(script: Path) -> bool:
    """Whether a Python file names one of the libraries that build ONNX models.

    Raises: Unreadable.
    """
    text = source_text(script)
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
                head = re.sub(r"\s+", " ", _head(file))
                return next((name for text, name in _LICENCES.items() if text in head), UNKNOWN)
        if (place / ".git").exists():
            break
    return UNKNOWN


def _head(file: Path) -> str:
    """The beginning of a text; "" if it cannot be read."""
    try:
        return read_bytes(file, length=min(_HEAD, file.stat().st_size)).decode(errors="replace")
    except (OSError, Unreadable):
        return ""


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

"""Findings as commands take them: a folder that is checked, and the backend to run it on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from nnfuzz.cli.errors import UsageError

if TYPE_CHECKING:
    from nnfuzz.execute.registry import BackendSpec
    from nnfuzz.report.finding import Finding


def open_finding(folder: Path) -> Finding:
    """The finding in a folder. Raises: UsageError if there is none or a file of it is damaged."""
    from zipfile import BadZipFile

    from nnfuzz.report.finding_folder import FindingError, read_finding

    try:
        found = read_finding(folder)
    except FindingError as error:
        raise UsageError(str(error)) from error
    except (EOFError, BadZipFile) as error:
        raise UsageError(f"{folder} is damaged: an .npz file is cut off ({error})") from error
    _check_model(found, folder / "model.onnx")
    return found


def _check_model(found: Finding, file: Path) -> None:
    """Only a finding of an exporter may lack its model. Raises: UsageError."""
    import onnx
    from google.protobuf.message import DecodeError

    from nnfuzz.execute.outcome import Stage

    if not found.case.model:
        if found.failure.stage is not Stage.EXPORT:
            raise UsageError(f"{file} is missing or empty: copy the whole folder of the finding")
        return
    try:
        onnx.load_model_from_string(found.case.model)
    except DecodeError as error:
        raise UsageError(
            f"{file} is damaged ({len(found.case.model)} bytes that are not an ONNX model): "
            "copy the whole folder of the finding again"
        ) from error


def backend_of(found: Finding, text: str, plugins: Iterable[Path]) -> BackendSpec | None:
    """The backend that `text` asks for; if it is empty, the finding's own with its options.

    plugins: files besides those that the finding names. None if neither names a backend.
    Raises: RegistryError, OptionError.
    """
    from nnfuzz.execute.registry import BackendRegistry

    own = found.backend
    stored = [Path(path) for path in (own.plugins if own else ()) if Path(path).is_file()]
    registry = BackendRegistry.discover(dict.fromkeys(p.resolve() for p in [*plugins, *stored]))
    if text:
        return registry.parse(text)
    return registry.spec(own.name, own.options) if own else None

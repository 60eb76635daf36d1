"""Names that a shell completes, without importing PyTorch, ONNX or a compiler."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

import typer

GROUPS = ("nnfuzz.backends", "nnfuzz.transforms")
"""The entry points of backends, as nnfuzz.backend.registry has them, which needs NumPy."""
_CLASS = re.compile(r"^@operator\nclass (\w+).*?(?=^\S*class|^@|\Z)", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r'^    name = "([\w.]+)"', re.MULTILINE)


def complete_backends(incomplete: str) -> list[str]:
    """Names of the installed backends that begin so."""
    points = (point for group in GROUPS for point in entry_points(group=group))
    return _beginning(incomplete, (point.name for point in points))


def levels(incomplete: str) -> list[str]:
    """Levels of all installed backends; several may be given with commas between."""
    from nnfuzz.backend.registry import BackendRegistry

    registry = BackendRegistry.discover()
    names = [level for name in registry.usable() for level in registry.get(name).levels]
    return _listed(incomplete, dict.fromkeys(names))


def complete_exporters(incomplete: str) -> list[str]:
    """The exporters, and "mixed"; several may be given with commas between."""
    from nnfuzz.materialize.opsets import OPSETS

    return _listed(incomplete, [*OPSETS, "mixed"])


def engines(incomplete: str) -> list[str]:
    """The engines that make graphs."""
    from nnfuzz.generate.config import ENGINES

    return _beginning(incomplete, ENGINES)


def complete_operators(incomplete: str) -> list[str]:
    """Operators as the sources of the installed specs name them; several with commas between."""
    texts = (file.read_text("utf-8") for file in _spec_files())
    classes = (matches for text in texts for matches in _CLASS.finditer(text))
    names = {(_NAME.search(matches[0]) or matches)[1] for matches in classes}
    return _listed(incomplete, sorted(names))


def complete_operator(incomplete: str) -> list[str]:
    """One operator, for an argument that takes no commas."""
    return [name for name in complete_operators(incomplete) if "," not in name]


def dtypes(incomplete: str) -> list[str]:
    """Names of dtypes; several may be given with commas between."""
    from nnfuzz.ir.dtypes import DType

    return _listed(incomplete, [dtype.value for dtype in DType])


def settings(ctx: typer.Context, incomplete: str) -> list[str]:
    """The settings of the command, each with the equals sign that its value follows."""
    from nnfuzz.cli.declared import expert_settings

    return _beginning(incomplete, (f"{name}=" for name in expert_settings(ctx.command)))


def _spec_files() -> Iterator[Path]:
    """The sources of the installed operator specs, which are not imported."""
    for point in entry_points(group="nnfuzz.opspecs"):
        spec = find_spec(point.module)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            yield from Path(folder).rglob("*.py")
        if spec and spec.origin:
            yield Path(spec.origin)


def _listed(incomplete: str, names: Iterable[str]) -> list[str]:
    """The names that can follow the last comma, each with the text before it."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [before + comma + name for name in _beginning(last, names) if name not in taken]


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]

"""A digest of operator specs and of the rooms that make models of them.

It names files that keep answers about specs for later processes.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Iterable
from pathlib import Path

BUILT_IN = "nnfuzz.opspecs"
_ROOMS = ("ir", "operators", "solve", "materialize", "generate", "inputs")


def specs_digest(plugins: Iterable[str] = (), further: Iterable[str] = ()) -> str:
    """A digest of everything that decides a probe's model: sources, plug-ins, versions.

    further: rooms of nnfuzz whose sources count as well.
    """
    digest = hashlib.sha256()
    for path in _sources(plugins, (*_ROOMS, *further)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    for point in importlib.metadata.entry_points(group="nnfuzz.opspecs"):
        version = point.dist.version if point.dist else ""
        digest.update(f"{point.value} {version}".encode())
    return digest.hexdigest()


def _sources(plugins: Iterable[str], rooms: Iterable[str]) -> list[Path]:
    folders = []
    for name in (BUILT_IN, *(f"nnfuzz.{room}" for room in rooms)):
        spec = importlib.util.find_spec(name)
        folders += list(spec.submodule_search_locations or ()) if spec else []
    files = [path for folder in folders for path in sorted(Path(folder).rglob("*.py"), key=str)]
    return files + [Path(plugin) for plugin in plugins]

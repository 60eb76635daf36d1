"""Tables of what releases of compilers refuse: files NAME-RELEASE.json.

An adapter may have some beside its module, in the folder TABLES, as `nnfuzz backends --probe NAME
--table DIR` writes them: campaigns begin with what the nearest one says (`claims_of`). Those of
compilers without a table are in the user's cache folder, for `nnfuzz ops` and `nnfuzz corpus`; no
campaign reads them, since its tests follow from its settings alone.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nnfuzz.backend.contract import Backend
from nnfuzz.base.files import write_atomically
from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.triage.pattern import onnx_type

TABLES = "support"


@dataclass(frozen=True)
class RefusalTable:
    """What a compiler refuses. versions: of it and the libraries that it loads, its own first.
    refused: key -> why.
    """

    backend: str
    versions: Mapping[str, str]
    refused: Mapping[SupportKey, str]

    @classmethod
    def read(cls, path: Path) -> RefusalTable | None:
        """The file at a path; None if there is no usable one."""
        with contextlib.suppress(OSError, ValueError):
            return read(cls, json.loads(path.read_text()))
        return None

    def write(self, folder: Path) -> Path:
        """Writes BACKEND-RELEASE.json, all or nothing; returns the path. Raises: OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        path = table_in(folder, self.backend, next(iter(self.versions.values())))
        write_atomically(path, (json.dumps(as_json(self), indent=1) + "\n").encode())
        return path


def table_in(folder: Path, backend: str, release: str) -> Path:
    """The path of a release's table in a folder."""
    numbered = _RELEASE.match(release)
    return folder / f"{backend}-{numbered[0] if numbered else ''}.json"


def refused_here(cache: Path, backend: str, release: str) -> Mapping[SupportKey, str]:
    """What a release refused when it was asked on this machine, with the reasons."""
    file = RefusalTable.read(table_in(cache / TABLES, backend, release))
    return file.refused if file else {}


def claims_of(adapter: type[Backend], versions: Mapping[str, str]) -> dict[SupportKey, str]:
    """What the adapter's table of the nearest release calls unsupported, with the reasons; nothing
    without any table. The nearest one is of the newest release that is not newer, or else of the
    oldest.

    versions: of the compiler, its own first.
    """
    older, newer = tables_of(adapter, versions)
    nearest = older[-1:] or newer[:1]
    file = RefusalTable.read(nearest[0]) if nearest else None
    if file is None:
        return {}
    of = next(iter(file.versions.values()), "")
    return {key: f"{why} (as {adapter.name} {of})" for key, why in file.refused.items()}


def tables_of(adapter: type[Backend], versions: Mapping[str, str]) -> tuple[list[Path], list[Path]]:
    """The adapter's tables of releases that are not newer, and those of newer ones, by release."""
    module = getattr(sys.modules.get(adapter.__module__), "__file__", None) or ""
    paths = Path(module).parent.joinpath(TABLES).glob(f"{adapter.name}-*.json")
    tables = sorted((_numbers(path.stem.removeprefix(f"{adapter.name}-")), path) for path in paths)
    own = _numbers(next(iter(versions.values()), ""))
    older, newer = ([p for r, p in tables if (r > own) is late] for late in (False, True))
    return older, newer


def declined(adapter: type[Backend], keys: Iterable[SupportKey]) -> dict[SupportKey, str]:
    """The keys of operators and dtypes that are not among those which an adapter declares to take,
    with the reasons; none of an adapter that declares nothing.
    """
    from onnx import defs

    operators, dtypes = adapter.operators, {*adapter.dtypes}
    reasons: dict[SupportKey, str] = {}
    for key in keys:
        mode = not defs.has(key.operator) and onnx_type(key.operator, operators)
        if operators and not mode and key.operator not in operators:
            reasons[key] = f"{adapter.name} declares other operators"
        elif dtypes and (others := {*re.findall(r"\w+", key.dtypes)} & _DTYPES - dtypes):
            reasons[key] = f"{adapter.name} declares no {min(others)}"
    return reasons


_DTYPES = frozenset(dtype.value for dtype in DType)
_RELEASE = re.compile(r"[\w.]*")


def _numbers(release: str) -> tuple[int, ...]:
    """The numbers of a release, without those that say where it was built ("2026.4.1-22982")."""
    found = _RELEASE.match(release)
    return tuple(map(int, re.findall(r"\d+", found[0]))) if found else ()

"""Support tables on the disk: one file for each compiler in one folder.

An adapter may have tables of releases of its compiler beside its module, in the folder TABLES, as
`nnfuzz backends --probe NAME --table DIR` writes them: campaigns begin with what the nearest one
says (`claims_of`), before anything has been asked.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from nnfuzz.backend.contract import Backend, BackendOptions
from nnfuzz.backend.registry import BackendSpec
from nnfuzz.base.reading import Json, read
from nnfuzz.base.writing import as_json
from nnfuzz.feedback.support import (
    FAILING,
    OK,
    Support,
    SupportEntry,
    generalised,
)
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.triage.pattern import onnx_type

_GENERAL = tuple(BackendOptions.__dataclass_fields__)  # limits, not behaviour
TABLES = "support"


@dataclass(frozen=True)
class SupportFile:
    """The support table of a backend. Where the opset is drawn, operators stand under the newest
    opset that has their version.

    versions: of the backend's compiler and the libraries that it loads, its own first. entries: for
    people (`nnfuzz ops`).
    """

    backend: str
    versions: Mapping[str, str] = field(default_factory=dict)
    entries: Mapping[SupportKey, SupportEntry] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> SupportFile | None:
        """The file at a path; None if there is no usable one."""
        with contextlib.suppress(OSError, ValueError):
            return read(cls, json.loads(path.read_text()))
        return None

    @property
    def support(self) -> Support:
        return Support(self.backend, dict(self.entries))

    def write(self, path: Path) -> None:
        """Replaces the file at a path, all or nothing. Raises: OSError."""
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        try:
            draft.write_text(_in_lines(as_json(self)))
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)


def _in_lines(data: Mapping[str, Json]) -> str:
    """A JSON object with one line for each field, and for each item of an object in a field."""
    lines = []
    for name, value in data.items():
        text = json.dumps(value)
        if isinstance(value, dict) and value:
            items = (f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in value.items())
            text = "{\n" + ",\n".join(items) + "\n }"
        lines.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_table(folder: Path, support: Support, versions: Mapping[str, str]) -> Path:
    """Writes what a release does not support as a table for its adapter; returns the path.

    support: of all writers. versions: of the compiler, its own first. Raises: OSError.
    """
    release = _RELEASE.match(next(iter(versions.values())))
    assert release is not None
    path = folder / f"{support.backend}-{release[0]}.json"
    SupportFile(support.backend, versions, generalised(support.entries)).write(path)
    return path


def claims_of(adapter: type[Backend], versions: Mapping[str, str]) -> dict[SupportKey, str]:
    """What the adapter's table of the nearest release calls unsupported, with the reasons; nothing
    without any table. The nearest one is of the newest release that is not newer, or else of the
    oldest.

    versions: of the compiler, its own first.
    """
    older, newer = tables_of(adapter, versions)
    nearest = older[-1:] or newer[:1]
    file = SupportFile.read(nearest[0]) if nearest else None
    if file is None:
        return {}
    of = next(iter(file.versions.values()), "")
    refused = file.support.refused()
    return {key: f"{why} (as {adapter.name} {of})" for key, why in refused.items()}


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


@dataclass(frozen=True)
class SupportCache:
    """Support tables as JSON files in one folder, for people: no campaign reads them. A file's name
    is a digest of its dependencies.
    """

    folder: Path

    def path(
        self, spec: BackendSpec, versions: Mapping[str, str], basis: Mapping[str, object]
    ) -> Path:
        """basis: what else decides a probe's result, such as the opsets that are not drawn."""
        options = {k: v for k, v in spec.options.items() if k not in _GENERAL}
        plain = replace(spec, label=spec.name, options=options)
        key = [as_json(plain), dict(versions), basis]
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
        return self.folder / f"support-{spec.name}-{digest}.json"

    def save(self, path: Path, file: SupportFile) -> None:
        """Adds to a file, which counts as the newest one even if it has all of it already; a folder
        that cannot be written costs no campaign.
        """
        before = SupportFile.read(path)
        entries = {**before.entries} if before else {}
        entries |= {key: entry for key, entry in file.entries.items() if entry.status}
        kept = {key: entry for key, entry in entries.items() if entry.status != FAILING}
        after = replace(file, entries=kept)
        with contextlib.suppress(OSError):
            if after == before:
                os.utime(path)
            else:
                after.write(path)

    def newest(self, backend: str, release: str = "") -> SupportFile | None:
        """The last saved table of a backend. release: its tables come before any others."""
        by_time = sorted(self._files(backend), key=lambda pair: -pair[0].stat().st_mtime)
        files = sorted((f for _, f in by_time), key=lambda file: not is_of(file.versions, release))
        return next(iter(files), None)

    def known(self, backend: str, release: str = "") -> Support:
        """The union of the tables of the backend's version in its newest table, without exporters.
        A signature that ran with some exporter counts as supported.

        release: as for `newest`.
        """
        newest, merged = self.newest(backend, release), Support(backend)
        if newest is None:
            return merged
        for _, file in sorted(self._files(backend)):
            for key, entry in file.entries.items() if file.versions == newest.versions else ():
                if entry.status == OK or key.signature not in merged.entries:
                    merged.entries[key.signature] = entry
        return merged

    def _files(self, backend: str) -> Iterator[tuple[Path, SupportFile]]:
        for path in self.folder.glob(f"support-{backend}-*.json"):
            if file := SupportFile.read(path):
                yield path, file


def is_of(versions: Mapping[str, str], release: str) -> bool:
    """Whether a compiler with these versions, its own first, is of a release; "" is none.

    Compilers may append where they were built: "2026.4.1-22982-e213a147257".
    """
    version = next(iter(versions.values()), "")
    rest = version.removeprefix(release)
    return (
        bool(release) and version.startswith(release) and not rest[:1].isalnum() and rest[:1] != "."
    )

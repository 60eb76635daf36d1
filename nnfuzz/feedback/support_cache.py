"""Support tables on the disk: one file for each backend and exporter in one folder.

An adapter may have tables of releases of its compiler beside its module, in the folder TABLES, as
`nnfuzz backends --probe NAME --table DIR` writes them: campaigns begin with what the nearest one
says (nnfuzz.feedback.support.SupportClaims), before anything has been asked.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
from collections import Counter
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
    ProbeAnswer,
    ProbeAnswers,
    Support,
    SupportClaims,
    SupportEntry,
    generalised,
)
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.materialize.opsets import exporter_of
from nnfuzz.operators.registry import specs_digest
from nnfuzz.records.config import CampaignConfig

_GENERAL = tuple(BackendOptions.__dataclass_fields__)  # limits, not behaviour
TABLES = "support"
APART, DOUBTED = 9, 1
"""SupportClaims.spacing of a table of the installed release, and of a table of another release."""

KnownAnswers = Mapping[tuple[SupportKey, int], Mapping[str, ProbeAnswer]]
"""(signature, instance) -> level -> answer."""


@dataclass(frozen=True)
class SupportFile:
    """The support table of a backend with one exporter and opset; its keys name no exporter. Where
    the opset is drawn, operators stand in the table of the newest opset that has their version.

    versions: of the backend's compiler and the libraries that it loads. signatures: how many the
    campaign had with this exporter. entries: for people (`nnfuzz ops`). answers: of each instance
    of a signature, by level.
    """

    backend: str
    versions: Mapping[str, str] = field(default_factory=dict)
    exporter: str = ""
    opset: int = 0
    signatures: int = 0
    entries: Mapping[SupportKey, SupportEntry] = field(default_factory=dict)
    answers: Mapping[SupportKey, tuple[Mapping[str, ProbeAnswer], ...]] = field(
        default_factory=dict
    )

    @classmethod
    def read(cls, path: Path) -> SupportFile | None:
        """The file at a path; None if there is no usable one."""
        with contextlib.suppress(OSError, ValueError):
            return read(cls, json.loads(path.read_text()))
        return None

    @property
    def support(self) -> Support:
        return Support(self.backend, dict(self.entries))

    def known_answers(self) -> KnownAnswers:
        return {
            (key, number): levels
            for key, instances in self.answers.items()
            for number, levels in enumerate(instances)
            if levels
        }

    def added(self, before: SupportFile | None, known: KnownAnswers) -> SupportFile:
        """The file with the entries of an earlier one and those of `known` that last."""
        entries = {**before.entries} if before else {}
        entries |= {key: entry for key, entry in self.entries.items() if entry.status}
        kept = {key: entry for key, entry in entries.items() if entry.status != FAILING}
        return replace(self, entries=kept, answers=_by_instance(known))

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
    entries, known = generalised(support.entries), len(support.entries)
    SupportFile(support.backend, versions, signatures=known, entries=entries).write(path)
    return path


def claims_of(
    adapter: type[Backend], versions: Mapping[str, str], plain: bool = True
) -> SupportClaims:
    """What the adapter's table of the nearest release says; nothing without any table. The nearest
    one is of the newest release that is not newer, or else of the oldest.

    versions: of the compiler, its own first. plain: whether the backend has no options that no
    table knows.
    """
    module = getattr(sys.modules.get(adapter.__module__), "__file__", None) or ""
    paths = Path(module).parent.joinpath(TABLES).glob(f"{adapter.name}-*.json")
    tables = sorted((_numbers(path.stem.removeprefix(f"{adapter.name}-")), path) for path in paths)
    own = _numbers(next(iter(versions.values()), ""))
    nearest = [path for release, path in tables if release <= own][-1:] or [p for _, p in tables][
        :1
    ]
    file = SupportFile.read(nearest[0]) if nearest else None
    if file is None:
        return SupportClaims({}, APART)
    of = next(iter(file.versions.values()), "")
    reasons = {
        key: f"{why} (as {adapter.name} {of})" for key, why in file.support.refused().items()
    }
    return SupportClaims(reasons, APART if plain and _numbers(of) == own else DOUBTED)


_RELEASE = re.compile(r"[\w.]*")


def _numbers(release: str) -> tuple[int, ...]:
    """The numbers of a release, without those that say where it was built ("2026.4.1-22982")."""
    found = _RELEASE.match(release)
    return tuple(map(int, re.findall(r"\d+", found[0]))) if found else ()


def _by_instance(known: KnownAnswers) -> dict[SupportKey, tuple[Mapping[str, ProbeAnswer], ...]]:
    """The lasting answers, with an empty mapping for each instance that has none."""
    table: dict[SupportKey, list[Mapping[str, ProbeAnswer]]] = {}
    for key, instance in sorted(known):
        levels = known[key, instance]
        row = table.setdefault(key, [])
        row += [{}] * (instance - len(row))
        row.append({level: answer for level, answer in levels.items() if answer.lasting})
    return {key: tuple(row) for key, row in table.items()}


@dataclass(frozen=True)
class SupportCache:
    """Support tables as JSON files in one folder; a file's name is a digest of its dependencies.

    Campaigns take only the answers of probes from it: with or without the cache they ask the same
    probes for the same indexes, and so generate the same.
    """

    folder: Path
    ignored: bool = False  # no answer is taken from it, but new answers are kept

    def path(
        self, spec: BackendSpec, versions: Mapping[str, str], basis: Mapping[str, object]
    ) -> Path:
        """basis: the other settings that decide a probe's result, such as exporter and opset."""
        key = [as_json(replace(spec, label=spec.name)), dict(versions), basis]
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
        return self.folder / f"support-{spec.name}-{digest}.json"

    def load(self, path: Path) -> KnownAnswers:
        """The answers of probes in a file; empty if there is no usable one."""
        return self._answers(SupportFile.read(path))

    def _answers(self, file: SupportFile | None) -> KnownAnswers:
        return {} if self.ignored or file is None else file.known_answers()

    def save(self, path: Path, file: SupportFile, known: KnownAnswers) -> None:
        """Adds to a file, which counts as the newest one even if it has all of it already; a folder
        that cannot be written costs no campaign.

        known: answers; only the lasting ones are kept.
        """
        before = SupportFile.read(path)
        after = file.added(before, {**self._answers(before), **known})
        with contextlib.suppress(OSError):
            if after == before:
                os.utime(path)
            else:
                after.write(path)

    def newest(self, backend: str, release: str = "") -> SupportFile | None:
        """The last saved table of a backend. release: its tables come before any others."""
        return next(iter(self._newest_first(backend, release)), None)

    def newest_by_exporter(self, backend: str, release: str = "") -> list[SupportFile]:
        """The last saved table of a backend for each exporter, sorted by the exporter's name."""
        newest: dict[str, SupportFile] = {}
        for file in self._newest_first(backend, release):
            newest.setdefault(file.exporter, file)
        return [newest[name] for name in sorted(newest)]

    def known(self, backend: str, release: str = "") -> tuple[str, Support]:
        """The backend's version in its newest table, and the union of that version's tables.

        A signature that ran with some exporter counts as supported. release: as for `newest`.
        """
        newest, merged = self.newest(backend, release), Support(backend)
        if newest is None:
            return "", merged
        for _, file in sorted(self._files(backend)):
            if file.versions == newest.versions:
                better = {k: e for k, e in file.entries.items() if e.status == OK}
                merged.entries = {**file.entries, **merged.entries, **better}
        return newest.versions.get(backend, ""), merged

    def _newest_first(self, backend: str, release: str) -> list[SupportFile]:
        by_time = sorted(self._files(backend), key=lambda pair: -pair[0].stat().st_mtime)
        return sorted((f for _, f in by_time), key=lambda file: not is_of(file.versions, release))

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


class SupportTables:
    """The support tables of a campaign on the disk.

    Each file has one exporter and opset, so that campaigns that also use other exporters share it.
    """

    def __init__(
        self,
        cache: SupportCache,
        config: CampaignConfig,
        versions: Mapping[str, Mapping[str, str]],
        libraries: Mapping[str, str],
    ) -> None:
        """versions: of the compilers by backend. libraries: versions of what makes test cases."""
        self._cache = cache
        self._files: list[tuple[Path, str, SupportFile]] = []
        about = {"specs": specs_digest(config.case.plugins), "libraries": dict(libraries)}
        for spec in config.backends:
            options = {k: v for k, v in spec.options.items() if k not in _GENERAL}
            plain, own = replace(spec, options=options), versions[spec.label]
            # The newest opset comes last, since people ask for the table that was saved last.
            writers = (w for e in config.case.exporters for w in reversed(config.case.writers(e)))
            for name in writers:
                exporter, opset = exporter_of(name), config.case.only(name).opset
                path = cache.path(plain, own, {**about, "exporter": exporter, "opset": opset})
                self._files.append((path, name, SupportFile(spec.label, own, exporter, opset)))

    def load(self, answers: ProbeAnswers) -> None:
        """Adds the known answers."""
        for path, name, file in self._files:
            for (key, instance), levels in self._cache.load(path).items():
                answers.add(file.backend, key.with_exporter(name), instance, levels)

    def save(
        self, tables: Mapping[str, Support], answers: ProbeAnswers, keys: Iterable[SupportKey]
    ) -> None:
        """Adds the answers that the campaign has got. keys: all of its signatures."""
        counts = Counter(key.exporter for key in keys)
        for path, name, file in (entry for entry in self._files if counts[entry[1]]):
            entries = {
                key.signature: entry
                for key, entry in tables[file.backend].entries.items()
                if key.exporter == name
            }
            known = {
                (key.signature, instance): levels
                for (key, instance), levels in answers.of(file.backend).items()
                if key.exporter == name
            }
            table = replace(file, entries=entries, signatures=counts[name])
            self._cache.save(path, table, known)

"""Support tables on the disk: a file per backend and exporter in one folder."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any

from nnfuzz.campaign.config import CampaignConfig
from nnfuzz.campaign.support import FAILING, OK, Answer, Answers, Entry, Support
from nnfuzz.execute.backend import BackendOptions
from nnfuzz.execute.registry import BackendSpec
from nnfuzz.testcase.case import refusal
from nnfuzz.writing import as_json

_GENERAL = tuple(BackendOptions.__dataclass_fields__)  # limits, not behaviour
_ENGINE = ("spec", "materialize", "generate", "inputs")

Found = dict[tuple[str, int], dict[str, Answer]]
"""(signature, instance) -> level -> answer."""


@dataclass(frozen=True)
class SupportCache:
    """Support tables as JSON files in one folder; a file's name is a digest of all they rest on.

    Campaigns take the answers of probes from it, and nothing else: with or without it they ask the
    same probes for the same indexes, and so generate the same.
    """

    folder: Path
    ignored: bool = False  # nothing is taken from it, but what is learnt is kept

    def path(
        self, spec: BackendSpec, versions: Mapping[str, str], basis: Mapping[Any, Any]
    ) -> Path:
        """basis: whatever else decides what a probe does, such as the exporter and the opset."""
        key = [as_json(replace(spec, label=spec.name)), dict(versions), basis]
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
        return self.folder / f"support-{spec.name}-{digest}.json"

    def load(self, path: Path) -> Found:
        """The answers of probes in a file; nothing if there is no usable one."""
        data = None if self.ignored else _json(path)
        try:
            return {
                (key, number): {level: Answer(*answer) for level, answer in levels.items()}
                for key, instances in (data or {}).get("answers", {}).items()
                for number, levels in enumerate(instances)
                if levels
            }
        except (AttributeError, TypeError):
            return {}

    def newest(self, backend: str, release: str = "") -> tuple[dict[str, Any], Support] | None:
        """The table of a backend that was saved last, and what it is about.

        release: of which one is taken before any other.
        """
        return next(iter(self._newest_first(backend, release)), None)

    def newest_by_exporter(
        self, backend: str, release: str = ""
    ) -> list[tuple[dict[str, Any], Support]]:
        """The same for each exporter, by its name."""
        found: dict[str, tuple[dict[str, Any], Support]] = {}
        for about, support in self._newest_first(backend, release):
            found.setdefault(about["exporter"], (about, support))
        return [found[name] for name in sorted(found)]

    def _newest_first(self, backend: str, release: str) -> list[tuple[dict[str, Any], Support]]:
        files = self.folder.glob(f"support-{backend}-*.json")
        newest_first = sorted(files, key=lambda path: path.stat().st_mtime, reverse=True)
        tables = filter(None, map(self._read, newest_first))
        return sorted(tables, key=lambda table: not is_of(table[0].get("versions", {}), release))

    def known(self, backend: str, release: str = "") -> tuple[str, Support]:
        """The backend's version in its newest table, and all that any table says of that version.

        A signature that ran in some way of exporting counts as supported. release: as for `newest`.
        """
        newest = self.newest(backend, release)
        if newest is None:
            return "", Support(backend)
        versions, merged = newest[0]["versions"], Support(backend)
        for path in sorted(self.folder.glob(f"support-{backend}-*.json")):
            about, support = self._read(path) or ({}, Support(backend))
            if about.get("versions") == versions:
                better = {k: e for k, e in support.entries.items() if e.status == OK}
                merged.entries = support.entries | merged.entries | better
        return versions.get(backend, ""), merged

    def _read(self, path: Path) -> tuple[dict[str, Any], Support] | None:
        data = _json(path)
        try:
            entries = {key: Entry(**value) for key, value in data.pop("entries").items()}
        except (AttributeError, KeyError, TypeError):
            return None
        data.pop("answers", None)
        return data, Support(data.get("backend", ""), entries)

    def save(self, path: Path, support: Support, found: Found, about: Mapping[str, Any]) -> None:
        """Adds to a file, all or nothing; a folder that cannot be written costs no campaign.

        support: for people (`nnfuzz ops`). found: answers, of which the lasting ones are kept.
        """
        before = self._read(path)
        entries = before[1].entries if before else {}
        entries |= {key: entry for key, entry in support.entries.items() if entry.status}
        shown = {key: asdict(entry) for key, entry in entries.items() if entry.status != FAILING}
        answers = _by_instance(self.load(path) | found)
        text = json.dumps({**about, "entries": shown, "answers": answers}, indent=1)
        draft = path.with_suffix(f".{os.getpid()}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            draft.write_text(text)
            os.replace(draft, path)
        except OSError:
            draft.unlink(missing_ok=True)


def is_of(versions: Mapping[str, str], release: str) -> bool:
    """Whether a compiler of these versions, its own first, is of a release; "" is none.

    Compilers may append the place that they were built at: "2026.4.1-22982-e213a147257".
    """
    told = next(iter(versions.values()), "")
    rest = told.removeprefix(release)
    return bool(release) and told.startswith(release) and not rest[:1].isalnum() and rest[:1] != "."


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _by_instance(found: Found) -> dict[str, list[dict[str, list[str]]]]:
    """The lasting answers as JSON."""
    table: dict[str, list[dict[str, list[str]]]] = {}
    for (key, instance), levels in sorted(found.items()):
        lasting = {level: list(astuple(a)) for level, a in levels.items() if a.lasting}
        row = table.setdefault(key, [])
        row += [{}] * (instance + 1 - len(row))
        row[instance] = lasting
    return table


class SupportTables:
    """Support tables as a campaign has them, with keys "EXPORTER:SIGNATURE", and on the disk.

    A file holds what is known with one exporter and opset, so that campaigns with other exporters
    beside it share it.
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
        self._versions = versions
        self._opsets = {name: config.case.only(name).opset for name in config.case.exporters}
        about = {
            "specs": specs_digest(config.case.plugins),
            "libraries": dict(libraries),
        }
        self._paths = {}
        for spec in config.backends:
            options = {k: v for k, v in spec.options.items() if k not in _GENERAL}
            plain = replace(spec, options=options)
            for name, opset in self._opsets.items():
                basis = {**about, "exporter": name, "opset": opset}
                path = cache.path(plain, versions[spec.label], basis)
                self._paths[spec.label, name] = path

    def load(self, answers: Answers) -> list[dict[str, Any]]:
        """Adds what campaigns may rely on; returns path and number of answers of every table."""
        used = []
        for (backend, exporter), path in self._paths.items():
            found = self._cache.load(path)
            for (key, instance), levels in found.items():
                answers.add(backend, refusal(exporter, key), instance, levels)
            used += [{"path": str(path), "entries": len(found)}] if found else []
        return used

    def save(self, tables: Mapping[str, Support], answers: Answers, keys: Iterable[str]) -> None:
        """keys: all that the campaign may generate."""
        keys = list(keys)
        for (backend, exporter), path in self._paths.items():
            mark = refusal(exporter, "")
            entries = {
                key.removeprefix(mark): entry
                for key, entry in tables[backend].entries.items()
                if key.startswith(mark)
            }
            found = {
                (key.removeprefix(mark), instance): levels
                for (key, instance), levels in answers.of(backend).items()
                if key.startswith(mark)
            }
            about = {
                "backend": backend,
                "versions": self._versions[backend],
                "exporter": exporter,
                "opset": self._opsets[exporter],
                "signatures": sum(key.startswith(mark) for key in keys),
            }
            self._cache.save(path, Support(backend, entries), found, about)


def specs_digest(plugins: Iterable[str] = (), further: Iterable[str] = ()) -> str:
    """A digest of everything that decides what a probe's model is: sources, plug-ins, versions.

    further: rooms of nnfuzz whose sources count as well.
    """
    digest = hashlib.sha256()
    for path in _sources(plugins, (*_ENGINE, *further)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    for point in importlib.metadata.entry_points(group="nnfuzz.opspecs"):
        version = point.dist.version if point.dist else ""
        digest.update(f"{point.value} {version}".encode())
    return digest.hexdigest()


def _sources(plugins: Iterable[str], rooms: Iterable[str]) -> list[Path]:
    folders = []
    for name in ("nnfuzz.opspecs", *(f"nnfuzz.{room}" for room in rooms)):
        spec = importlib.util.find_spec(name)
        folders += list(spec.submodule_search_locations or ()) if spec else []
    files = [path for folder in folders for path in sorted(Path(folder).rglob("*.py"))]
    return files + [Path(plugin) for plugin in plugins]

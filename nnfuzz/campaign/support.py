"""Which operator signatures the backends support: learnt from probes and tests, cached on disk.

A signature such as "Add(float16)->float16" is `ok` for a backend once a test or probe with it ran
at every level; `unsupported` once every probe of it (INSTANCES of them) met the backend's own
statement that it is not implemented; `failing` once every probe failed and one for another
reason. The last two are refused for generation. `failing` is reported as a finding and is not
taken from the cache, so that every campaign reports it anew.

Test cases stay a function of (seed, index, configuration): the refusals are part of the
configuration (`CaseConfig.refused`), a change of them starts a new epoch, and each test names the
epoch that it was made under. The store keeps the refusals of every epoch.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nnfuzz.execute.outcome import Outcome, OutcomeKind
from nnfuzz.execute.registry import BackendSpec

INSTANCES = 3
OK, UNSUPPORTED, FAILING = "ok", "unsupported", "failing"
_WHY = {UNSUPPORTED: "", FAILING: "always fails: "}
_ENGINE = ("spec", "materialize", "generate", "inputs")


@dataclass
class Entry:
    """What is known of one signature on one backend. message: of the last failure."""

    status: str = ""
    message: str = ""
    tries: int = 0
    failures: int = 0

    @property
    def refused(self) -> bool:
        return self.status in (UNSUPPORTED, FAILING)


@dataclass
class Support:
    """The table of one backend."""

    backend: str
    entries: dict[str, Entry] = field(default_factory=dict)

    def unknown(self, keys: Iterable[str]) -> list[str]:
        """Those that neither ran nor were given up."""
        return [k for k in keys if k not in self.entries or not self.entries[k].status]

    def ran(self, keys: Iterable[str]) -> None:
        """Notes that a model with these signatures ran at every level."""
        for key in keys:
            entry = self.entries.get(key)
            if entry is None or not entry.status:
                self.entries[key] = Entry(OK)

    def probed(self, key: str, outcomes: Sequence[Outcome], enough: int = INSTANCES) -> bool:
        """Notes a probe's outcomes; returns whether another probe is needed for a decision.

        enough: how many must meet the backend's own statement that it lacks the signature.
        """
        bad = [o for o in outcomes if not o.ok]
        if not bad:
            self.entries[key] = Entry(OK)
            return False
        worst = next((o for o in bad if o.kind is not OutcomeKind.UNSUPPORTED), bad[0])
        return self.failed(key, worst.kind is OutcomeKind.UNSUPPORTED, describe(worst), enough)

    def failed(self, key: str, unsupported: bool, message: str, enough: int = INSTANCES) -> bool:
        """As `probed`, for a probe that failed."""
        entry = self.entries.setdefault(key, Entry())
        if entry.status:
            return False
        entry.tries += 1
        entry.failures += not unsupported
        entry.message = message
        if entry.tries >= (INSTANCES if entry.failures else enough):
            entry.status = FAILING if entry.failures else UNSUPPORTED
        return not entry.status

    def refused(self) -> dict[str, str]:
        """Refused signature -> why."""
        return {k: f"{_WHY[e.status]}{e.message}" for k, e in self.entries.items() if e.refused}

    def to_json(self) -> dict[str, Any]:
        return {key: asdict(entry) for key, entry in self.entries.items() if entry.status}


def describe(outcome: Outcome) -> str:
    """One line on a failure."""
    lines = outcome.message.strip().splitlines() or [outcome.signal]
    return f"{outcome.kind} in {outcome.stage} at {outcome.level}: {lines[0][:200]}"


@dataclass(frozen=True)
class SupportCache:
    """Support tables as JSON files in one folder; a file's name is a digest of all they rest on."""

    folder: Path
    ignored: bool = False  # nothing is taken from it, but what is learnt is kept

    def path(self, spec: BackendSpec, versions: Mapping[str, str], basis: Mapping) -> Path:
        """basis: whatever else decides what a probe does, such as the exporter and the opset."""
        key = [spec.to_json(), dict(versions), basis]
        digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]
        return self.folder / f"support-{spec.name}-{digest}.json"

    def load(self, path: Path, backend: str) -> Support:
        """What campaigns may rely on; an empty table if there is no usable file."""
        found = None if self.ignored else self._read(path)
        entries = found[1].entries if found else {}
        return Support(backend, {k: e for k, e in entries.items() if e.status != FAILING})

    def newest(self, backend: str) -> tuple[dict[str, Any], Support] | None:
        """The table of a backend that was saved last, and what it is about."""
        return next(self._newest_first(backend), None)

    def newest_by_exporter(self, backend: str) -> list[tuple[dict[str, Any], Support]]:
        """The same for each exporter, by its name."""
        found: dict[str, tuple[dict[str, Any], Support]] = {}
        for about, support in self._newest_first(backend):
            found.setdefault(about["exporter"], (about, support))
        return [found[name] for name in sorted(found)]

    def _newest_first(self, backend: str) -> Iterator[tuple[dict[str, Any], Support]]:
        files = self.folder.glob(f"support-{backend}-*.json")
        newest_first = sorted(files, key=lambda path: path.stat().st_mtime, reverse=True)
        return filter(None, map(self._read, newest_first))

    def known(self, backend: str) -> tuple[str, Support]:
        """The backend's version in its newest table, and all that any table says of that version.

        A signature that ran in some way of exporting counts as supported.
        """
        newest = self.newest(backend)
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
        try:
            data = json.loads(path.read_text())
            entries = {key: Entry(**value) for key, value in data.pop("entries").items()}
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return data, Support(data.get("backend", ""), entries)

    def save(self, path: Path, support: Support, about: Mapping[str, Any]) -> None:
        """Writes all or nothing; a folder that cannot be written costs no campaign."""
        text = json.dumps({**about, "entries": support.to_json()}, indent=1)
        draft = path.with_suffix(f".{os.getpid()}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            draft.write_text(text)
            os.replace(draft, path)
        except OSError:
            draft.unlink(missing_ok=True)


def specs_digest(plugins: Iterable[str] = ()) -> str:
    """A digest of everything that decides what a probe's model is: sources, plug-ins, versions."""
    digest = hashlib.sha256()
    for path in _sources(plugins):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    for point in importlib.metadata.entry_points(group="nnfuzz.opspecs"):
        version = point.dist.version if point.dist else ""
        digest.update(f"{point.value} {version}".encode())
    return digest.hexdigest()


def _sources(plugins: Iterable[str]) -> list[Path]:
    folders = []
    for name in ("nnfuzz.opspecs", *(f"nnfuzz.{room}" for room in _ENGINE)):
        spec = importlib.util.find_spec(name)
        folders += list(spec.submodule_search_locations or ()) if spec else []
    files = [path for folder in folders for path in sorted(Path(folder).rglob("*.py"))]
    return files + [Path(plugin) for plugin in plugins]


def signature_keys(graph: Mapping[str, Any], variables: Mapping[str, Sequence[int]]) -> set[str]:
    """The signatures in a graph's JSON form.

    variables: per operator, the first input that each of its type variables binds, in the order
    in which a signature names them (the producer service tells).
    """
    dtypes = {name: dtype for name, dtype, _ in graph["values"]}
    keys = set()
    for node in graph["nodes"]:
        inputs = node["inputs"]
        bound = [dtypes[inputs[i]] for i in variables.get(node["op"], ()) if i < len(inputs)]
        keys.add(f"{node['op']}({','.join(bound)})->{dtypes[node['outputs'][0]]}")
    return keys

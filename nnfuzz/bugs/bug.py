"""One bug of a ledger, as bug.toml has it."""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date
from enum import StrEnum
from pathlib import Path

from packaging.version import InvalidVersion, Version

from nnfuzz.backend.contract import suggest
from nnfuzz.base.reading import Unreadable, read
from nnfuzz.base.text import visible
from nnfuzz.base.untrusted import read_text
from nnfuzz.base.writing import fields_as_json
from nnfuzz.triage.keys import (
    Key,
    KeyKind,
    KnownFailures,
    failure_kinds,
    is_known_cause,
    shared_weight,
)

FILE = "bug.toml"
SCHEMA = 1
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_ADDRESS = re.compile(r"https?://\S+")


class BugError(Unreadable):
    """A bug that cannot be read or changed as asked; the message names the file and the fix."""


class _Word(StrEnum):
    """A word of bug.toml."""

    @classmethod
    def _missing_(cls, value: object) -> None:
        """Raises: ValueError that names the words that there are."""
        raise ValueError(f"{value!r} is none of {', '.join(cls)}")


class BugState(_Word):
    """Where a bug is in its life. flaky: its script reproduces it now and then."""

    NEW = "new"
    FILED = "filed"
    CONFIRMED = "confirmed"
    FIXED = "fixed"
    WONTFIX = "wontfix"
    DUPLICATE = "duplicate"
    FLAKY = "flaky"

    @property
    def is_open(self) -> bool:
        """Whether somebody should still mend it."""
        return self in (BugState.NEW, BugState.FILED, BugState.CONFIRMED, BugState.FLAKY)


class ScriptResult(_Word):
    """The result of a bug's script. OTHERWISE: it fails for another reason than the bug."""

    REPRODUCES = "reproduces"
    RIGHT = "right"
    OTHERWISE = "fails otherwise"
    CANNOT_RUN = "cannot run here"


@dataclass(frozen=True)
class Bug:
    """The fields of bug.toml, in its order.

    system: name of the backend. kind: of the failure (mismatch, exception, crash, ...). passes: of
    the compiler, which are accused. model,
    found_by: the smallest model in words, and the command, where people want to read them. package:
    whose releases count, and what else the script needs; "" for the backend's own package.
    first_bad_release, last_bad_release: the oldest and the newest in which it is known to fail.
    right_release: the first one behind these that is right. first_seen: a day such as 2026-11-23.
    upstream: address of the issue. duplicate_of: name of the bug that it is one with. signatures,
    keys: of its findings, by which it is recognised (nnfuzz.triage). releases: what the script
    showed in each.
    """

    title: str
    system: str
    kind: str = ""
    state: BugState = BugState.NEW
    operators: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()
    model: str = ""
    found_by: str = ""
    first_bad_release: str = ""
    last_bad_release: str = ""
    right_release: str = ""
    first_seen: str = ""
    upstream: str = ""
    duplicate_of: str = ""
    package: str = ""
    needs: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    releases: Mapping[str, ScriptResult] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises: ValueError for a field that makes no sense, with the fix."""
        for name in ("title", "system"):
            if not getattr(self, name).strip():
                raise ValueError(f"{name} is empty")
        for release in (*map(self.__getattribute__, _RELEASES), *self.releases):
            if release and version_of(release) is None:
                raise ValueError(f"{release!r} is no release such as 1.31.1")
        if self.upstream and not _ADDRESS.fullmatch(self.upstream):
            raise ValueError(f"upstream {self.upstream!r} is no address such as https://...")
        if self.first_seen and not _DAY.fullmatch(self.first_seen):
            raise ValueError(f"first_seen {self.first_seen!r} is no day such as 2026-11-23")
        if (self.state is BugState.DUPLICATE) != bool(self.duplicate_of):
            raise ValueError("state duplicate and duplicate_of go together")
        self.known()

    def known(self) -> KnownFailures:
        """The known failures by which this bug is recognised. Raises: KnownError."""
        known = KnownFailures.parse(self.signatures, "signatures")
        return replace(known, keys=(self._keys(),) if self.keys else ())

    @property
    def failure_kinds(self) -> set[str]:
        """The kinds of failures that it has shown; none of a bug whose kind nobody wrote down."""
        return failure_kinds(self._keys())

    def _keys(self) -> frozenset[Key]:
        """The keys, with the kind that bug.toml names if its findings name none."""
        keys = Key.parse_all(self.keys)
        if self.kind and not failure_kinds(keys):
            keys |= {Key(KeyKind.FAILURE, self.kind)}
        return keys

    def match(self, signatures: Iterable[str], keys: Collection[Key]) -> float:
        """How surely a finding with these signatures and keys has this bug as its cause: infinite
        for a common signature, else the weight of common keys; 0 where it has another cause.
        """
        if not set(self.signatures).isdisjoint(signatures):
            return math.inf
        own = Key.parse_all(self.keys)
        return shared_weight(keys, own) if own and is_known_cause(keys, own) else 0.0

    def recognised_as(self, other: Bug) -> Bug:
        """With what the other one is recognised by as well: of its keys, those that need no other
        key beside them, and the kinds of its failures.
        """
        theirs = {k for k in other._keys() if k.is_decisive or k.kind is KeyKind.FAILURE}
        keys = sorted(map(str, (self._keys() | theirs) - Key.parse_all(self.keys)))
        return replace(
            self,
            signatures=tuple(dict.fromkeys((*self.signatures, *other.signatures))),
            keys=(*self.keys, *keys),
        )

    def failing_in(self, release: str) -> Bug:
        """With a release in which it fails; as it is for ""."""
        if not release:
            return self
        first, last = self.first_bad_release or release, self.last_bad_release or release
        return replace(
            self,
            first_bad_release=release if newer(first, release) else first,
            last_bad_release=release if newer(release, last) else last,
            releases={**self.releases, release: ScriptResult.REPRODUCES},
        )

    @property
    def releases_line(self) -> str:
        """The releases in which it is, such as "1.30.0 to 1.31.1, right in 1.32.0"; or ""."""
        ends = dict.fromkeys(filter(None, (self.first_bad_release, self.last_bad_release)))
        right = f"right in {self.right_release}" if self.right_release else ""
        return ", ".join(filter(None, (" to ".join(ends), right)))

    def noted(self, text: str, today: date) -> Bug:
        """With a further note, which begins with the day; one that is there already stays alone."""
        note = f"{today.isoformat()} {' '.join(text.split())}"
        return replace(self, notes=tuple(dict.fromkeys((*self.notes, note))))


_RELEASES = ("first_bad_release", "last_bad_release", "right_release")
NAMES = tuple(f.name for f in fields(Bug))


def version_of(release: str) -> Version | None:
    """None for a text that is no release."""
    try:
        return Version(release)
    except InvalidVersion:
        return None


def newer(one: str, other: str) -> bool:
    """Whether one release is newer than another one; not if one of them is unknown ("")."""
    first, second = version_of(one), version_of(other)
    return first is not None and second is not None and first > second


def read_bug(file: Path) -> Bug:
    """Raises: BugError with one line that names the file and the fix, Unreadable."""
    try:
        data = tomllib.loads(read_text(file))
        schema = data.pop("schema", SCHEMA)
        if schema != SCHEMA:
            raise BugError(f"has the schema {schema!r}, this nnfuzz reads {SCHEMA}")
        if unknown := [name for name in data if name not in NAMES]:
            raise BugError(f"there is no field {unknown[0]!r}; {suggest(unknown[0], NAMES)}")
        if missing := [name for name in ("title", "system") if name not in data]:
            raise BugError(f"{missing[0]} is missing")
        return bug_of({name: _plain(value) for name, value in data.items()})
    except tomllib.TOMLDecodeError as error:
        raise BugError(f"{file} is no TOML: {error}") from error
    except BugError as error:
        raise BugError(f"{file}: {error}") from error


def bug_of(fields: Mapping[str, object]) -> Bug:
    """Raises: BugError that names the field."""
    try:
        return read(Bug, fields)
    except Unreadable as error:
        raise BugError(str(error).removeprefix("it: ").removeprefix(".")) from error


def _plain(value: object) -> object:
    """A day that is written without quotes, as its text."""
    return value.isoformat() if isinstance(value, date) else value


def bug_text(bug: Bug) -> str:
    """The content of bug.toml; empty fields are left out."""
    plain = {name: value for name, value in fields_as_json(bug).items() if name != "releases"}
    lines = [f"schema = {SCHEMA}"]
    lines += [f"{k} = {_toml(v)}" for k, v in plain.items() if v or k in ("title", "system")]
    lines += ["", "[releases]"] if bug.releases else []
    for release in sorted(bug.releases, key=Version):
        lines.append(f"{_toml(release)} = {_toml(bug.releases[release])}")
    return "\n".join(lines) + "\n"


def _toml(value: str | Sequence[str]) -> str:
    """A text or a list, whose items stand on lines of their own, so that git merges them.

    JSON's form of a text is TOML's for all that is visible.
    """
    if isinstance(value, str):
        return json.dumps(visible(value), ensure_ascii=False)
    items = list(map(_toml, value))
    lines = "".join(f"    {item},\n" for item in items)
    return f"[{items[0]}]" if len(items) == 1 else f"[\n{lines}]"

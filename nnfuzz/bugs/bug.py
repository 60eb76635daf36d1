"""One bug of a ledger, as bug.toml has it."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Any

import tomlkit
from packaging.version import InvalidVersion, Version

from nnfuzz.backend.contract import suggest
from nnfuzz.base.reading import Unreadable, read
from nnfuzz.base.text import one_line, visible
from nnfuzz.base.untrusted import making_sense, read_bytes
from nnfuzz.base.writing import fields_as_json
from nnfuzz.triage.keys import (
    Key,
    KeyKind,
    KnownFailures,
    fail_alike,
    is_known_cause,
    shared_weight,
)

FILE = "bug.toml"
SCHEMA = 1
MOST_BYTES = 1 << 18
"""The largest bug.toml; those of bugs with notes have some kilobytes."""
_ADDRESS = re.compile(r"https?://\S+")
_QUOTED = re.compile(
    r'"""[\s\S]*?"""|'
    r"'''[\s\S]*?'''|"
    r'"(?:\\.|[^"\\\n])*"|'
    r"'[^'\n]*'|#[^\n]*"
)
"""Texts and comments, which may have any number of dots."""
_WORD = re.compile(r"[^\w. \t-]+")
"""What stands between keys."""
MOST_PARTS = 8
"""Parts of a dotted key at most: parsers take time and memory by the square of that number."""


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
        if self.first_seen and not _is_day(self.first_seen):
            raise ValueError(f"first_seen {self.first_seen!r} is no day such as 2026-11-23")
        if (self.state is BugState.DUPLICATE) != bool(self.duplicate_of):
            raise ValueError("state duplicate and duplicate_of go together")
        self.known()

    def known(self) -> KnownFailures:
        """The known failures by which this bug is recognised. Raises: KnownError."""
        causes = {key.text for key in self._keys()}
        known = KnownFailures.parse([s for s in self.signatures if s not in causes], "signatures")
        return replace(known, keys=(self._keys(),) if self.keys else ())

    def _keys(self) -> frozenset[Key]:
        """The keys, with the kind that bug.toml names if its findings name none."""
        keys = Key.parse_all(self.keys)
        if self.kind and all(key.kind is not KeyKind.FAILURE for key in keys):
            keys |= {Key(KeyKind.FAILURE, self.kind)}
        return keys

    def match(self, signatures: Iterable[str], keys: Collection[Key]) -> float:
        """A measure of how surely a finding with these signatures and keys is this bug: infinite
        for a common signature, else the weight of common keys. It is 0 if the bug has never failed
        in the way of the finding. The signatures of a bug without keys hold hashes of causes too.
        """
        own = self._keys()
        hashes = {*signatures, *(() if self.keys else (key.text for key in keys))}
        if fail_alike(keys, own) and not hashes.isdisjoint(self.signatures):
            return math.inf
        return shared_weight(keys, own) if is_known_cause(keys, own) else 0.0

    def recognised_as(self, other: Bug) -> Bug:
        """With what the other one is recognised by as well: of its keys, those that need no other
        key beside them.
        """
        theirs = {key for key in Key.parse_all(other.keys) if key.is_decisive}
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


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


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
    """Raises: Unreadable with one line that names the file and the fix."""
    try:
        data = tomllib.loads(toml_text(file))
        schema = data.pop("schema", SCHEMA)
        if schema != SCHEMA:
            raise Unreadable(f"has the schema {schema!r}, this nnfuzz reads {SCHEMA}")
        if unknown := [name for name in data if name not in NAMES]:
            raise Unreadable(f"there is no field {unknown[0]!r}; {suggest(unknown[0], NAMES)}")
        if missing := [name for name in ("title", "system") if name not in data]:
            raise Unreadable(f"{missing[0]} is missing")
        return bug_of({name: _plain(value) for name, value in data.items()})
    except Unreadable as error:
        raise Unreadable(f"{file}: {error}") from error
    except (ValueError, RecursionError) as error:  # a number too long, lists too deep
        raise Unreadable(f"{file} is no TOML: {one_line(error)}") from error


def toml_text(file: Path) -> str:
    """The text of bug.toml, short enough for every parser. Raises: Unreadable."""
    if file.is_symlink():
        raise Unreadable("is a link, which is not followed: put the file itself there")
    with making_sense(file):
        text = read_bytes(file, MOST_BYTES).decode()
    if any(word.count(".") >= MOST_PARTS for word in _WORD.split(_QUOTED.sub("", text))):
        raise Unreadable(f"a key has more than {MOST_PARTS} parts")
    return text


def bug_of(fields: Mapping[str, object]) -> Bug:
    """Raises: Unreadable that names the field."""
    try:
        return read(Bug, fields)
    except Unreadable as error:
        raise Unreadable(str(error).removeprefix("it: ").removeprefix(".")) from error


def _plain(value: object) -> object:
    """A day that is written without quotes, as its text."""
    return value.isoformat() if isinstance(value, date) else value


def bug_text(bug: Bug, before: str = "") -> str:
    """The content of bug.toml; empty fields are left out.

    before: the present content, whose comments and order stay. Lists of several items have a line
    for each, so that git merges them.
    """
    document = tomlkit.parse(before)
    written = {"schema": SCHEMA, **fields_as_json(bug)}
    for name, value in written.items():
        value = _visible(value)
        if not value and name not in ("title", "system"):
            document.pop(name, None)
        elif name not in document or document[name].unwrap() != value:
            document[name] = _item(document.get(name), value)
    return tomlkit.dumps(document)


def _visible(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {name: visible(value[name]) for name in sorted(value, key=Version)}
    return list(map(visible, value)) if isinstance(value, list | tuple) else value


def _item(old: Any, value: Any) -> Any:
    """A value as TOML; a table or a list that has grown keeps what people have written in it."""
    if isinstance(value, list):
        if old is None or value[: len(old)] != old.unwrap() or len(old) < 2:
            made = tomlkit.array()
            made.extend(value)
            return made.multiline(len(value) > 1)
        old.extend(value[len(old) :])
    elif isinstance(value, dict) and old is not None:
        for name in [name for name in old if name not in value]:
            del old[name]
        old.update(value)
    else:
        return value
    return old

"""What a failure is known by: one record for each kind of failure.

The written form of a record is the object "parts" of a signature in finding.json; the hash of a
signature is computed from it. A field that is None is not part of an identity.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TypeGuard

from nnfuzz.backend.deviation import Deviation
from nnfuzz.backend.outcome import OutcomeKind, Stage
from nnfuzz.base.reading import Json, JsonObject, Unreadable, read
from nnfuzz.base.writing import as_json
from nnfuzz.triage.frames import is_native

HASH_DIGITS = 12
_MISUSED = re.compile(
    r"^(?:malloc|free|realloc|calloc|munmap_chunk|malloc_consolidate|sysmalloc)\b.*:"
    r"|double free|^corrupted |stack smashing|Fatal Python error: (?:Segmentation fault|Bus error)"
)
"""The messages of the C library about an overwritten heap, and of Python about a bad address."""
_MISUSE = ("SIGSEGV", "SIGBUS")
OPTIMISED, EVERYWHERE = "optimised", "everywhere"
OTHERS, SWITCHES, HABITS = "others", "switches", "habits"
"""Fields of identities that reduction takes out of their written form or looks for in it."""


@dataclass(frozen=True, kw_only=True)
class _Identity:
    """levels: OPTIMISED or EVERYWHERE, where nothing else distinguishes faults of the optimiser."""

    backend: str | None = None
    kind: OutcomeKind | None = None
    levels: str | None = None

    def to_json(self) -> JsonObject:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: as_json(value) for name, value in values.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class ErrorIdentity(_Identity):
    """An exception or the death of a process.

    error: the class of an exception. signal: of a death; "" if it only exited. message: normalised.
    others: further complaints of the message and their places; they are not in the hash. about, at,
    location: see nnfuzz.backend.complaint. frames: outermost first, at most three. operators: the
    one at which a process dies without a word (nnfuzz.experiment.beginnings).
    """

    message: str
    stage: Stage | None = None
    error: str = ""
    frames: tuple[str, ...] = ()
    signal: str | None = None
    others: tuple[tuple[str, str], ...] | None = None
    about: str | None = None
    at: tuple[str, ...] | None = None
    location: str | None = None
    operators: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class HabitIdentity(_Identity):
    """Wrong values that a compiler's habits explain; findings of older versions have several."""

    habits: tuple[Deviation, ...]
    stage: Stage | None = None

    def to_json(self) -> JsonObject:
        return super().to_json() | {"habits": list(map(str, self.habits))}


@dataclass(frozen=True, kw_only=True)
class MismatchIdentity(_Identity):
    """A wrong output. wrong: in which way. operators: the one that computes it, then those before
    it. switches: its attributes that are switched on.
    """

    wrong: str
    operators: tuple[str, ...] = ()
    stage: Stage | None = None
    switches: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class HangIdentity(_Identity):
    """A stage that does not end."""

    stage: Stage


@dataclass(frozen=True, kw_only=True)
class RefusalIdentity(_Identity):
    """An invalid model that is not refused with a clean error. fault: the kind of its fault, where
    neither frames nor a message tell more.
    """

    error: str | None = None
    signal: str | None = None
    frames: tuple[str, ...] | None = None
    message: str | None = None
    fault: str | None = None


@dataclass(frozen=True)
class CauseIdentity:
    """The cause of a reduced failure (nnfuzz.triage.refine), or the text of another version."""

    parts: Mapping[str, Json] = field(hash=False)

    def to_json(self) -> JsonObject:
        return dict(self.parts)


Observed = HabitIdentity | MismatchIdentity | HangIdentity | RefusalIdentity | ErrorIdentity
Identity = Observed | CauseIdentity


def identity_of(parts: Mapping[str, object]) -> Identity:
    """Reads the written form."""
    try:
        return read(Observed, parts)  # type: ignore[arg-type]
    except Unreadable:
        return CauseIdentity(parts)


def digest_of(parts: Mapping[str, object]) -> str:
    """The hash of a signature with this written form."""
    text = json.dumps({k: v for k, v in parts.items() if k != "others"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]


def wrong_of(identity: Identity) -> str:
    """In which way an output is wrong; "" for other failures."""
    return identity.wrong if isinstance(identity, MismatchIdentity) else ""


def message_of(identity: Identity) -> str:
    """The normalised message of an error; "" for other failures."""
    message = isinstance(identity, ErrorIdentity | RefusalIdentity) and identity.message
    return message or ""


def habits_of(identity: Identity) -> tuple[Deviation, ...]:
    """The habits that explain wrong values; () for other failures."""
    return identity.habits if isinstance(identity, HabitIdentity) else ()


def operators_of(identity: Identity) -> tuple[str, ...]:
    """The operator of a wrong output, then those before it; () for other failures."""
    return identity.operators if isinstance(identity, MismatchIdentity) else ()


def corrupted(identity: Identity) -> bool:
    """Whether a death tells of memory that was misused, and of no place where.

    Such a process dies when it next needs that memory: by which signal, with which last words of
    the C library, and at which levels, is chance.
    """
    if not _died(identity):
        return False
    message = message_of(identity)
    return bool(_MISUSED.search(message)) or (not message and identity.signal in _MISUSE)


def wordless(identity: Identity) -> bool:
    """Whether a death says neither why nor where: Python's crash handler only names the signal."""
    message = message_of(identity)
    speaks = bool(message) and not message.startswith("Fatal Python error: ")
    return _died(identity) and not (speaks and not corrupted(identity))


def same_silent_death(one: Identity, other: Identity) -> bool:
    """Whether two deaths say neither why nor where, and differ at most in that one has a place."""
    if not (isinstance(one, ErrorIdentity) and isinstance(other, ErrorIdentity)):
        return False
    places = {one.operators, other.operators}
    same = replace(one, operators=None) == replace(other, operators=None)
    return wordless(one) and same and (len(places) == 1 or None in places)


def _died(identity: Identity) -> TypeGuard[ErrorIdentity | RefusalIdentity]:
    """Whether it is the death of a process without any native frame."""
    if not isinstance(identity, ErrorIdentity | RefusalIdentity):
        return False
    return bool(identity.signal) and not any(map(is_native, identity.frames or ()))

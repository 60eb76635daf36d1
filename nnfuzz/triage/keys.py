"""Keys of a cause, by which findings of one compiler are merged, and known failures.

A key is a property that findings with one cause tend to share. One that names the cause weighs 1
and merges alone. What a message says last needs the same line of source or the same operators
beside it. A source file has many causes, and the check of a type is the same for all operators: a
file alone merges nothing.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, StrEnum
from pathlib import Path
from typing import TypeVar

from nnfuzz.backend.numeric import NO_NAN, SATURATES, TF32, Deviation
from nnfuzz.backend.outcome import Stage
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.untrusted import read_text
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.view import GraphView
from nnfuzz.triage.headline import is_native
from nnfuzz.triage.pattern import RESULT, general_message, sources
from nnfuzz.triage.signature import HASH_DIGITS, OTHERS, Failure


class Claim(Enum):
    """What a hypothesis claims. The value is its written form, which must never change."""

    ALL_CONSTANTS = "is right without constants"
    FOLLOWS = "follows from {detail}"
    SATURATES = "{subject} saturates where it should wrap around"
    TF32 = "{subject} is computed in tf32 (sums of products)"
    COMPUTED_IN = "{subject} is computed in {detail}"
    WRONG_FOR_READERS = "{subject} {detail} is wrong for whatever reads it"
    NO_CONSTANT = "{subject} is right where no operand is constant"
    FEWER_OPERANDS = "{subject} is right with one operand less"
    WITHOUT = "{subject} is right without {detail}"
    MANY_OPERANDS = "{subject} of more than two operands"
    IGNORES = "{subject} ignores {detail}"
    RETURNS = "{subject} returns {detail}"
    OFF = "{subject} is {detail}"
    SIGN = "{subject} has the opposite sign"
    AXES = "{subject} {detail} axes of size 1"
    OTHER = "{detail}"


NAN = "NaN"
UNBOUND = (Claim.ALL_CONSTANTS, Claim.SATURATES, Claim.TF32, Claim.COMPUTED_IN)
"""Claims that name no operator."""


@dataclass(frozen=True)
class Hypothesis:
    """One way in which a result may come about.

    subject: the operator, class or dtype that the claim is about; "" where any has it. detail: what
    is ignored, returned, ... `str` gives the text, `parse` reads it.
    """

    claim: Claim
    subject: str = ""
    detail: str = ""

    def __str__(self) -> str:
        return self.claim.value.format(subject=self.subject, detail=self.detail).strip()

    @classmethod
    def parse(cls, text: str) -> Hypothesis:
        """Reads a text. Texts of other versions become the claim OTHER."""
        for claim, pattern in _PATTERNS.items():
            if match := pattern.fullmatch(text):
                return cls(claim, **match.groupdict(default=""))
        return cls(Claim.OTHER, detail=text)

    @classmethod
    def of_habit(cls, habit: Deviation) -> Hypothesis:
        """That a compiler's habit explains the result."""
        if habit.to == NO_NAN:
            return cls(Claim.IGNORES, habit.dtype, NAN)
        if habit.to in (SATURATES, TF32):
            return cls(Claim.TF32 if habit.to == TF32 else Claim.SATURATES, habit.dtype)
        return cls(Claim.COMPUTED_IN, habit.dtype, habit.to)

    def said_of(self, names: Collection[str]) -> str:
        """The sentence for a title that names the operators already. names: of the only operator;
        none of several.
        """
        return str(replace(self, subject="") if self.subject in names else self)


def _pattern(form: str) -> re.Pattern[str]:
    text = re.escape(form).replace(r"\{detail\}", "(?P<detail>.+)")
    text = text.replace(r"\{subject\}\ \(", r"(?P<subject>\S+)\ \(")
    return re.compile(text.replace(r"\{subject\}\ ", r"(?:(?P<subject>\S+) )?"))


_PATTERNS = {claim: _pattern(claim.value) for claim in Claim}


CLAUSE_WORDS = 4
"""Words that make a clause telling: shorter ones are a value or a name."""
_PLACEHOLDER = re.compile(r"<(?:dtype|shape|address|name)>")
_PHRASE = re.compile(r"[A-Za-z_][\w.:']*\w")
_WORD = re.compile(r"[A-Za-z]{2,}")
_TRUTH = ("true", "false", "True", "False")
EVERY_DTYPE = tuple(dtype.value for dtype in DType)
_CLAUSES = re.compile(r"(?<=[\w)\]>'\"]): |; |(?<=\w)\. ")


class KeyKind(StrEnum):
    """What a key is about, with its weight."""

    CAUSE = "cause"  # the hash of the cause, or of one that was found to be the same
    HABIT = "habit"  # what operators do alike: one finding with all of them, each known by itself
    FRAME = "frame"  # innermost function of the compiler in a crash
    CALLER = "caller"  # what called it; says nothing unless the frame is no place
    CLAUSE = "clause"  # what a message says last
    LOCATION = "location"  # a file of the compiler's source; merges nothing, but tells causes apart
    LINE = "line"  # of the compiler's source, innermost
    SAID = "said"  # the message with placeholders for dtypes and operators
    OPERATORS = "operators"  # those of the reduced model
    FAILURE = "failure"  # what kind it is; only known failures have it, and it merges nothing

    @property
    def weight(self) -> float:
        return _WEIGHTS.get(self.value, 1.0)


_EPSILON = 1e-9
HINTS = (KeyKind.CLAUSE, KeyKind.LOCATION, KeyKind.LINE, KeyKind.SAID)
_UNREAD = ("dtype", "shape", "use")
FEWEST_COMMON = 4
"""Findings that a text must have before it may be boilerplate: of fewer, most prove nothing."""
_WEIGHTS = {
    "caller": 0.0,
    "failure": 0.0,
    "location": 0.0,
    "clause": 0.6,
    "operators": 0.4,
    "line": 0.6,
    "said": 0.4,
}


@dataclass(frozen=True, order=True)
class Key:
    """Equal for two findings that share the property."""

    kind: KeyKind
    text: str

    @property
    def is_decisive(self) -> bool:
        """Whether findings that share this key alone have one cause."""
        return self.kind.weight >= 1.0 - _EPSILON

    def __str__(self) -> str:
        return f"{self.kind}:{self.text}"

    @classmethod
    def parse(cls, text: str) -> Key:
        kind, _, rest = text.partition(":")
        return cls(KeyKind(kind), rest)

    @classmethod
    def parse_all(cls, texts: Iterable[str]) -> frozenset[Key]:
        """Those of kinds that there are: other rules may have had others."""
        kinds = {kind.value for kind in KeyKind}
        return frozenset(cls.parse(t) for t in texts if t.partition(":")[0] in kinds)


def error_keys(
    failure: Failure, parts: Mapping[str, object], operators: Iterable[str], line: str = ""
) -> set[Key]:
    """The keys of an error: its last clause, its place, its operators, the frame of a crash, and
    what it says where, dtypes and operators aside.

    parts: of the cause. operators: by their ONNX names. line: of the compiler's source that raised,
    if it is known. Operators stay in the clause: a compiler that lacks two has two gaps.
    """
    own = failure.signature.parts
    keys = {Key(KeyKind.OPERATORS, ",".join(sorted({*operators})))}
    first = (own.get("message", ""), own.get("location", ""))
    for message, location in (first, *own.get(OTHERS, ())):
        if clause := last_clause(message):
            plain = general_message(clause, EVERY_DTYPE, ())
            keys.add(Key(KeyKind.CLAUSE, wording(plain)))
        if location:
            keys.add(Key(KeyKind.LOCATION, location))
    if line:
        keys |= {Key(KeyKind.LINE, line), Key(KeyKind.SAID, str(parts.get("message", "")))}
    if signal := own.get("signal"):
        frames = [frame for frame in own.get("frames", ()) if is_native(frame)]
        places = zip((KeyKind.FRAME, KeyKind.CALLER), frames[::-1], strict=False)
        keys |= {Key(kind, f"{signal} in {frame}") for kind, frame in places}
    return {Key(key.kind, f"{failure.compiler} {key.text}") for key in keys}


def unread_keys(failure: Failure, parts: Mapping[str, object], written: GraphView) -> set[Key]:
    """The key of an importer's error about what other operators made: the first of these.

    An importer that knows nothing of a result complains of its dtype, its rank or its sizes, as the
    operator reads them that it gets to, and behind others that hand on as little.
    parts: as in `error_keys`. written: the graph with the operators of ONNX.
    """
    first = sources(written)
    if failure.stage is not Stage.IMPORT or not first or parts.get(RESULT) not in _UNREAD:
        return set()
    return {Key(KeyKind.CAUSE, f"{failure.compiler} cannot import what reads {', '.join(first)}")}


def last_clause(message: str) -> str:
    """The last part of a normalised message that is a statement of its own; "" if none is."""
    clauses = [clause.strip() for clause in _CLAUSES.split(message)]
    telling = [c for c in clauses if len(_WORD.findall(_PLACEHOLDER.sub(" ", c))) >= CLAUSE_WORDS]
    return telling[-1] if telling else ""


def wording(clause: str) -> str:
    """The words of a clause without numbers, numbered names, truth values, placeholders and
    symbols, which change with shapes, models and values; the clause itself if it has hardly any
    words.
    """
    phrases = _PHRASE.findall(_PLACEHOLDER.sub(" ", clause))
    words = [w for w in phrases if w not in _TRUTH and not w.endswith("_N")]
    return " ".join(words) if len(words) >= CLAUSE_WORDS else clause


def have_one_cause(one: Collection[Key], other: Collection[Key]) -> bool:
    """Whether two findings share enough to be one."""
    return shared_weight(one, other) >= 1.0 - _EPSILON


def shared_weight(one: Collection[Key], other: Collection[Key]) -> float:
    """The sum of the weights of common keys. The keys SAID and CLAUSE of a message count once,
    since they hold the same words.
    """
    kinds = [key.kind for key in {*one} & {*other}]
    if KeyKind.CLAUSE in kinds:
        kinds = [kind for kind in kinds if kind is not KeyKind.SAID]
    return sum(kind.weight for kind in kinds)


def is_known_cause(one: Collection[Key], known: Collection[Key]) -> bool:
    """Whether a finding has the cause of a known one.

    Stricter than `have_one_cause`, since what is wrongly known is lost, and since no other
    findings show which hints every error of the compiler has: where both name places in its source
    and none is in both, other hints do not count. Habits and failures of another kind never do.
    """
    one = [key for key in one if key.kind is not KeyKind.HABIT]
    own, theirs = ({k for k in keys if k.kind is KeyKind.LOCATION} for keys in (one, known))
    if own and theirs and own.isdisjoint(theirs):
        one = [key for key in one if key.is_decisive]
    return fail_alike(one, known) and have_one_cause(one, known)


def boilerplate(findings: Iterable[Collection[Key]]) -> set[Key]:
    """Keys that most findings of a compiler share and that therefore say nothing about a cause.

    These are hints that most of the findings with any hint have, and such frames as are called from
    many places: they belong to the compiler's own runtime.
    """
    findings = list(findings)
    counts: Counter[Key] = Counter(key for keys in findings for key in keys)
    totals: Counter[tuple[KeyKind, str]] = Counter(
        kind for keys in findings for kind in {(key.kind, _backend(key)) for key in keys}
    )
    common = {
        key
        for key, count in counts.items()
        if count >= FEWEST_COMMON and 2 * count > totals[key.kind, _backend(key)]
    }
    return {key for key in common if key.kind in HINTS or _is_of_runtime(key, findings)}


def _is_of_runtime(key: Key, findings: Iterable[Collection[Key]]) -> bool:
    """Whether a frame has no caller that stands for half of its findings."""
    if key.kind is not KeyKind.FRAME:
        return False
    mine = [keys for keys in findings if key in keys]
    callers = Counter(k for keys in mine for k in keys if k.kind is KeyKind.CALLER)
    return bool(callers) and 2 * max(callers.values()) < len(mine)


def _telling(keys: Collection[Key], common: Collection[Key]) -> frozenset[Key]:
    """The keys without what is common; a caller takes the place of a frame of a runtime."""
    runtime = any(key.kind is KeyKind.FRAME for key in {*keys} & {*common})
    callers = {Key(KeyKind.FRAME, key.text) for key in keys if key.kind is KeyKind.CALLER}
    return frozenset((*(key for key in keys if key not in common), *(callers if runtime else ())))


def _backend(key: Key) -> str:
    return key.text.partition(" ")[0]


Id = TypeVar("Id", bound=Hashable)


def grouped(findings: Mapping[Id, Iterable[Key]]) -> dict[Id, Id]:
    """Each finding with the first one of its group; groups are closed under `have_one_cause`.

    Findings that share hints only merge with any member that they share enough of them with.
    """
    keys = {name: frozenset(own) for name, own in findings.items()}
    common = boilerplate(keys.values())
    keys = {name: _telling(own, common) for name, own in keys.items()}
    leader = {name: name for name in keys}

    def root(name: Id) -> Id:
        while leader[name] != name:
            name = leader[name]
        return name

    order = {name: i for i, name in enumerate(keys)}
    by_key: dict[Key, list[Id]] = {}
    for name, own in keys.items():
        for key in sorted(own):
            for other in by_key.setdefault(key, []):
                a, b = root(name), root(other)
                if a != b and (key.is_decisive or have_one_cause(own, keys[other])):
                    first, second = sorted((a, b), key=order.__getitem__)
                    leader[second] = first
            by_key[key].append(name)
    return {name: root(name) for name in keys}


_HASH = re.compile(rf"[0-9a-f]{{{HASH_DIGITS}}}")


class KnownError(Unreadable):
    """A file of known failures that cannot be read; the message names the line and the fix."""


@dataclass(frozen=True)
class KnownFailures:
    """Failures that a campaign counts but does not report.

    hashes: of signatures, of raw failures or reduced ones. keys: of reduced findings. A file has
    the hash of a signature in each line; text behind it, and what follows a #, is a comment:

        a258b5a34ce8 wrong shape of Range   # the next release has it

    A line of keys is a list in JSON: those of a reduced finding, and the kinds of its failures,
    since a known cause that fails in another way is news.
    """

    hashes: frozenset[str] = frozenset()
    keys: tuple[frozenset[Key], ...] = ()

    @classmethod
    def parse(cls, lines: Iterable[str], source: str = "known failures") -> KnownFailures:
        """Raises: KnownError naming the first line that is neither a hash nor keys."""
        hashes, keys = set(), []
        for number, line in enumerate(lines, 1):
            if line.startswith("["):
                keys.append(_keys(line, f"{source}, line {number}"))
                continue
            words = line.partition("#")[0].split()
            if words and not _HASH.fullmatch(words[0]):
                raise KnownError(
                    f"{source}, line {number}: {words[0]!r} is no signature of {HASH_DIGITS} "
                    "hexadecimal digits, such as the report of a finding shows"
                )
            hashes.update(words[:1])
        return cls(frozenset(hashes), tuple(keys))

    @classmethod
    def load(cls, path: Path) -> KnownFailures:
        """Raises: KnownError, Unreadable."""
        return cls.parse(read_text(path).splitlines(), str(path))

    @classmethod
    def merged(cls, parts: Iterable[KnownFailures]) -> KnownFailures:
        """All that some of the parts know."""
        parts = list(parts)
        return cls(
            frozenset(own for part in parts for own in part.hashes),
            tuple(dict.fromkeys(own for part in parts for own in part.keys)),
        )

    def lines(self) -> tuple[str, ...]:
        """As a file would have them, sorted."""
        keys = (json.dumps(sorted(map(str, own))) for own in self.keys)
        return (*sorted(self.hashes), *sorted(keys))

    def has(self, keys: Collection[Key], kind: str = "") -> bool:
        """Whether the keys of a reduced finding make it one with a known one that failed in this
        way before. kind: of the failure (OutcomeKind); "" and known keys without any are of all.
        """
        keys = {*keys, *([Key(KeyKind.FAILURE, kind)] if kind else [])}
        return any(is_known_cause(keys, known) for known in self.keys)


def fail_alike(one: Collection[Key], other: Collection[Key]) -> bool:
    """Whether two findings have a kind of failure in common, as far as that is known."""
    kinds = [{key.text for key in keys if key.kind is KeyKind.FAILURE} for keys in (one, other)]
    return not all(kinds) or not kinds[0].isdisjoint(kinds[1])


def _keys(line: str, where: str) -> frozenset[Key]:
    try:
        return Key.parse_all(map(str, json.loads(line)))
    except ValueError as error:
        raise KnownError(f"{where}: {line!r} is no list of keys in JSON ({error})") from error

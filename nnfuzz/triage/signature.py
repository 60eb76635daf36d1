"""Signatures: what makes two failures the same finding.

A signature is made of the backend, kind and stage, and of the normalised error with the frames it
came from, or of the operators around the first wrong output. Whether the least optimised level
fails too is part of it where nothing else tells the optimiser's faults from others: for mismatches,
timeouts and deaths without words. An error text with its frames is one finding at whatever levels
it occurs. Parts that only inform (levels by name, dtypes) are in the title and not in the hash.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TypeGuard

from nnfuzz.backend.backtrace import normalise
from nnfuzz.backend.causes import slip
from nnfuzz.backend.complaint import CompilerError, ComplaintKind, read_complaint
from nnfuzz.backend.numeric import Deviation
from nnfuzz.backend.outcome import COSTS, Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Pipeline, Target, levels_of
from nnfuzz.base.reading import Json, JsonObject, Unreadable, read
from nnfuzz.base.text import one_line
from nnfuzz.base.writing import as_json
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.view import NO_GRAPH, GraphView
from nnfuzz.sandbox.events import shortened
from nnfuzz.triage.headline import (
    from_compiler,
    headline,
    is_native,
    native_frames,
    only_at,
    python_frames,
    sentence,
)
from nnfuzz.triage.mismatch import WrongOutput, wrong_outputs
from nnfuzz.triage.pattern import names_of, operands, switches
from nnfuzz.vary.faults.fault import Fault

FAILURES = (OutcomeKind.EXCEPTION, OutcomeKind.CRASH, OutcomeKind.TIMEOUT, *COSTS)
_DTYPES = frozenset(dtype.value for dtype in DType)
_LEVEL_CHARACTERS = 50  # that a pipeline may take of a title
HASH_DIGITS = 12
_MISUSED = re.compile(
    r"^(?:malloc|free|realloc|calloc|munmap_chunk|malloc_consolidate|sysmalloc)\b.*:"
    r"|double free|^corrupted |stack smashing|Fatal Python error: (?:Segmentation fault|Bus error)"
)
"""The messages of the C library about an overwritten heap, and of Python about a bad address."""
_MISUSE = ("SIGSEGV", "SIGBUS")
OPTIMISED, EVERYWHERE = "optimised", "everywhere"
SEVERAL = "several"
OTHERS, SWITCHES, HABITS, DTYPE = "others", "switches", "habits", "dtype"
"""Entries of parts that reduction takes out of their written form or looks for in it."""


@dataclass(frozen=True, kw_only=True)
class _Details:
    """levels: OPTIMISED or EVERYWHERE, where nothing else distinguishes faults of the optimiser."""

    backend: str | None = None
    kind: OutcomeKind | None = None
    levels: str | None = None

    def to_json(self) -> JsonObject:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: as_json(value) for name, value in values.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class ErrorDetails(_Details):
    """An exception or the death of a process.

    error: the class of an exception. signal: of a death; "" if it only exited. message: normalised.
    others: further complaints of the message and their places; they are not in the hash. about, at,
    location, varies: see nnfuzz.backend.complaint. frames: outermost first, at most three.
    operators: the one at which a process dies without a word (nnfuzz.experiment.confirm).
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
    varies: bool | None = None


@dataclass(frozen=True, kw_only=True)
class HabitDetails(_Details):
    """Wrong values that a compiler's habits explain; findings of older versions have several."""

    habits: tuple[Deviation, ...]
    stage: Stage | None = None

    def to_json(self) -> JsonObject:
        return super().to_json() | {"habits": list(map(str, self.habits))}


@dataclass(frozen=True, kw_only=True)
class MismatchDetails(_Details):
    """A wrong output. wrong: in which way. operators: the one that computes it, then those before
    it. switches: its attributes that are switched on. calls: SEVERAL if the output is
    right when the program is called once. dtype: of the output, unless it is float32.
    """

    wrong: str
    operators: tuple[str, ...] = ()
    stage: Stage | None = None
    switches: tuple[str, ...] | None = None
    calls: str | None = None
    dtype: str | None = None


@dataclass(frozen=True, kw_only=True)
class HangDetails(_Details):
    """A stage that does not end, or a program that takes too much time or memory."""

    stage: Stage


@dataclass(frozen=True, kw_only=True)
class RefusalDetails(_Details):
    """An invalid model that is not refused with a clean error. fault: the kind of its fault, where
    neither frames nor a message tell more.
    """

    error: str | None = None
    signal: str | None = None
    frames: tuple[str, ...] | None = None
    message: str | None = None
    fault: str | None = None


@dataclass(frozen=True)
class UnknownDetails:
    """The written form by another version, or by a file that anybody has made."""

    parts: Mapping[str, Json] = field(hash=False)

    def to_json(self) -> JsonObject:
        return dict(self.parts)


KnownDetails = HabitDetails | MismatchDetails | HangDetails | RefusalDetails | ErrorDetails
Details = KnownDetails | UnknownDetails


def details_of(parts: Mapping[str, object]) -> Details:
    """Reads the written form."""
    try:
        return read(KnownDetails, parts)  # type: ignore[arg-type]
    except Unreadable:
        return UnknownDetails(parts)


def digest_of(parts: Mapping[str, object]) -> str:
    """The hash of a signature with this written form."""
    text = json.dumps({k: v for k, v in parts.items() if k != "others"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]


def wrong_of(details: Details) -> str:
    """In which way an output is wrong; "" for other failures."""
    return details.wrong if isinstance(details, MismatchDetails) else ""


def message_of(details: Details) -> str:
    """The normalised message of an error; "" for other failures."""
    message = isinstance(details, ErrorDetails | RefusalDetails) and details.message
    return message or ""


def habits_of(details: Details) -> tuple[Deviation, ...]:
    """The habits that explain wrong values; () for other failures."""
    return details.habits if isinstance(details, HabitDetails) else ()


def operators_of(details: Details) -> tuple[str, ...]:
    """The operator of a wrong output, then those before it; () for other failures."""
    return details.operators if isinstance(details, MismatchDetails) else ()


def corrupted(details: Details) -> bool:
    """Whether a death tells of memory that was misused, and of no place where.

    Such a process dies when it next needs that memory: by which signal, with which last words of
    the C library, and at which levels, is chance.
    """
    if not _died(details):
        return False
    message = message_of(details)
    return bool(_MISUSED.search(message)) or (not message and details.signal in _MISUSE)


def wordless(details: Details) -> bool:
    """Whether a death says neither why nor where: Python's crash handler only names the signal."""
    message = message_of(details)
    speaks = bool(message) and not message.startswith("Fatal Python error: ")
    return _died(details) and not (speaks and not corrupted(details))


def same_silent_death(one: Details, other: Details) -> bool:
    """Whether two deaths say neither why nor where, and differ at most in that one has a place."""
    if not (isinstance(one, ErrorDetails) and isinstance(other, ErrorDetails)):
        return False
    places = {one.operators, other.operators}
    same = replace(one, operators=None) == replace(other, operators=None)
    return wordless(one) and same and (len(places) == 1 or None in places)


def _died(details: Details) -> TypeGuard[ErrorDetails | RefusalDetails]:
    """Whether it is the death of a process without any native frame."""
    if not isinstance(details, ErrorDetails | RefusalDetails):
        return False
    return bool(details.signal) and not any(map(is_native, details.frames or ()))


@dataclass(frozen=True)
class Signature:
    """hash: HASH_DIGITS hexadecimal digits over `parts`; title: one line for people. parts: the
    written form of the details.
    """

    hash: str
    title: str
    parts: Mapping[str, Json] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        # It may come from a folder that anybody has written.
        object.__setattr__(self, "title", one_line(self.title))

    @cached_property
    def details(self) -> Details:
        return details_of(self.parts)

    def __str__(self) -> str:
        return f"{self.hash} {self.title}"


@dataclass(frozen=True)
class Failure:
    """One way in which one backend failed on a test case, on one or more of its targets.

    label: of the backend, where it is not the compiler's name.
    """

    signature: Signature
    kind: OutcomeKind
    stage: Stage
    targets: tuple[Target, ...]
    label: str = ""

    def __str__(self) -> str:
        return str(self.signature)

    @property
    def backend(self) -> str:
        return self.label or self.targets[0].compiler

    @property
    def steady_words(self) -> frozenset[str]:
        """The words of the message that stay when the failure is repeated; none if no word is known
        to change.
        """
        parts = self.signature.parts
        return frozenset(parts.get("message", "").split() if parts.get("varies") else ())

    def with_words(self, words: Collection[str]) -> Failure:
        """The failure with only these words in its message, and none of the others in its title;
        unchanged if no words are given.
        """
        parts = self.signature.parts
        if not words or not parts.get("message"):
            return self
        message = parts["message"].split()
        gone = {*message} - {*words}
        kept = " ".join(word for word in message if word in words)
        parts = {**parts, "message": kept, "varies": True}
        shown = (word for word in self.signature.title.split() if normalise(word) not in gone)
        return replace(self, signature=Signature(digest_of(parts), " ".join(shown), parts))

    @property
    def folder_name(self) -> str:
        """A name for the folder of a finding: backend, kind and the signature's hash."""
        name = f"{self.backend}-{self.kind}-{self.signature.hash}"  # any text, if it was read
        return re.sub(r"[^\w.-]+", "-", name)

    @property
    def compiler(self) -> str:
        """What a cause belongs to, whatever its options and device are."""
        return self.targets[0].compiler

    @property
    def levels(self) -> tuple[str, ...]:
        return levels_of(self.targets)

    @property
    def kinds_of_levels(self) -> str:
        """The levels with commas between; "drawn" for any pipeline with steps."""
        drawn = (bool(Pipeline.parse(level).steps) for level in self.levels)
        names = ("drawn" if mark else level for level, mark in zip(self.levels, drawn))
        return ",".join(dict.fromkeys(names))


def failures(
    outcomes: Sequence[Outcome],
    verdict: Verdict | None = None,
    graph: GraphView = NO_GRAPH,
    fault: Fault | None = None,
    model: bytes = b"",
) -> list[Failure]:
    """Every distinct failure among the outcomes of a test case, by backend in order.

    verdict: on the outcomes that are ok; graph: it names the operators. Failures of one backend at
    several levels are one if their errors are. fault: for which the model must be refused.
    model: in ONNX; its names are no words of an error.
    """
    if fault is not None:
        return wrong_answers(outcomes, fault, words_of(graph))
    distinct = []
    for backend in dict.fromkeys(o.backend for o in outcomes):
        ran = [o for o in outcomes if o.backend == backend]
        targets = {o.target for o in ran if o.kind is not OutcomeKind.UNSUPPORTED}
        explained = {t: habits for t, habits in _explained(verdict).items() if t in targets}
        wrong = [m for m in wrong_outputs(verdict) if m.target in targets - explained.keys()]
        distinct += [
            *_errors(ran, graph, model),
            *_habitual(ran, explained),
            *_mismatches(ran, wrong, graph, verdict.calls if verdict else {}),
        ]
    return distinct


def export_failure(exporter: str, error_type: str, message: str, traceback: str = "") -> Failure:
    """An exporter that failed on a valid model: a finding about the exporter."""
    texts = error_type, shortened(message), shortened(traceback)
    outcome = Outcome(OutcomeKind.EXCEPTION, Stage.EXPORT, Target(exporter), *texts)
    return failures([outcome])[0]


def wrong_answers(
    outcomes: Sequence[Outcome], fault: Fault, names: Collection[str]
) -> list[Failure]:
    """Every failure to refuse a model with a clean error.

    A death or an internal error is known by its place, or else by what it says, whatever the fault
    was that led there, and the operator. That a model is accepted, or takes time or memory without
    end, is known by the kind of fault: one finding for all operators.
    """
    distinct = []
    for backend in dict.fromkeys(o.backend for o in outcomes):
        ran = [o for o in outcomes if o.backend == backend]
        groups: dict[KnownDetails, list[Outcome]] = {}
        for outcome in ran:
            if outcome.kind in (*FAILURES, OutcomeKind.ACCEPTED):
                groups.setdefault(_refusal(outcome, fault, names), []).append(outcome)
        for details, group in groups.items():
            title = sentence(fault.kind, _error_title(details, group[0], names))
            distinct.append(_error(group, ran, details, title))
    return distinct


def _refusal(outcome: Outcome, fault: Fault, names: Collection[str]) -> RefusalDetails:
    """The details of an answer to an invalid model that is no clean error."""
    kind, by_fault = outcome.kind, RefusalDetails(kind=outcome.kind, fault=fault.kind)
    if kind in (OutcomeKind.ACCEPTED, OutcomeKind.TIMEOUT) or outcome.over_memory_limit:
        return by_fault
    error = error_details(outcome, (*names, *fault.words()))
    died = kind is OutcomeKind.CRASH
    by_error = RefusalDetails(kind=kind, error=error.error or None, signal=error.signal or None)
    native = native_frames(outcome.captured) if died else slip(outcome.error_type)
    if native and error.frames:  # else they end where native code is called
        return replace(by_error, frames=error.frames[-1:])
    message = _unnamed(error.message, fault)
    if died:  # last words are often those of any death
        return replace(by_error, message=message, fault=fault.kind)
    return replace(by_error, message=message) if message else replace(by_error, fault=fault.kind)


def _unnamed(message: str, fault: Fault) -> str:
    """A normalised message without the operator that the fault is in, and its node's name."""
    if not fault.operator:
        return message
    return re.sub(rf"\b{re.escape(fault.operator)}(?:_N)?\b", "<operator>", message)


def level_pattern(failing: Collection[str], ran: Sequence[str]) -> str:
    """Whether it takes optimisation to fail, independent of how many levels were run.

    ran: that gave an answer, the least optimised first. "optimised" if that one does well,
    else "everywhere": code that optimisation happens to remove is not the optimiser's fault.
    """
    optimised = len(set(ran)) > 1 and ran[0] not in failing
    return OPTIMISED if optimised else EVERYWHERE


def answering(ran: Iterable[Outcome]) -> tuple[str, ...]:
    """The levels that have something to say of a model, in order: not those that do not take it."""
    return levels_of(o.target for o in ran if o.kind is not OutcomeKind.UNSUPPORTED)


def level_names(levels: Iterable[str]) -> str:
    """Levels for a title, long pipelines without their steps."""
    pairs = ((level, Pipeline.parse(level).brief) for level in levels)
    return ", ".join(text if len(text) <= _LEVEL_CHARACTERS else brief for text, brief in pairs)


def error_details(outcome: Outcome, names: Collection[str] = ()) -> ErrorDetails:
    """The details of an exception or a death, which has its complaint and frames.

    names: of the model's values, which do not count.
    """
    died = outcome.kind is OutcomeKind.CRASH and not outcome.over_memory_limit
    complaint = outcome.complaint or read_complaint(text_of(outcome))
    subject = complaint.subject
    native = native_frames(outcome.captured if died else outcome.message)
    if subject and not _MISUSED.search(subject):
        native = from_compiler(native)
    frames = python_frames(outcome.captured if died else outcome.traceback) + native[::-1]
    if died and not subject and outcome.message.startswith("exited"):
        subject = outcome.message
    others = tuple((normalise(text, names), place) for text, place in complaint.others)
    return ErrorDetails(
        kind=outcome.kind,
        stage=outcome.stage,
        error=outcome.error_type.rsplit(".", 1)[-1],
        signal=outcome.signal if died else None,
        message=normalise(subject, names),
        others=others or None,
        about=complaint.kind.value if complaint.kind is not ComplaintKind.ERROR else None,
        at=complaint.operators or None,
        location=complaint.location or None,
        varies=complaint.varies or None,
        frames=(*frames[:1], *frames[1:][-2:]),
    )


def text_of(outcome: Outcome) -> CompilerError:
    """The words of an outcome, to be read by `Backend.complaint`."""
    if outcome.kind is OutcomeKind.CRASH and not outcome.error_type:
        return CompilerError(outcome.stage, captured=outcome.captured)
    return CompilerError(outcome.stage, outcome.error_type, outcome.message, outcome.traceback)


def _errors(ran: Sequence[Outcome], graph: GraphView, model: bytes) -> Iterable[Failure]:
    failing = [outcome for outcome in ran if outcome.kind in FAILURES]
    names = words_of(graph) + names_of(model) if failing else []
    groups: dict[KnownDetails, list[Outcome]] = {}
    for outcome in failing:
        groups.setdefault(_details_of(outcome, graph, names), []).append(outcome)
    for details, group in groups.items():
        yield _error(group, ran, details, _error_title(details, group[0], names))


def _error(
    group: Sequence[Outcome], ran: Sequence[Outcome], details: KnownDetails, title: str
) -> Failure:
    """The failure of all outcomes of one details."""
    targets = tuple(outcome.target for outcome in group)
    return _failure(group[0].kind, group[0].stage, targets, ran, details, title)


def _details_of(
    outcome: Outcome, graph: GraphView, names: Collection[str]
) -> ErrorDetails | HangDetails:
    if outcome.kind in (OutcomeKind.TIMEOUT, *COSTS):
        return HangDetails(kind=outcome.kind, stage=outcome.stage)
    details = error_details(outcome, names)
    place = place_of_death(outcome, graph)
    if place and wordless(details):  # all that tells one wordless death from another
        return replace(details, operators=(place,))
    return details


def place_of_death(outcome: Outcome, graph: GraphView) -> str:
    """The operator at which a process has died: the only one of a graph, or what beginnings of the
    model have shown; "" if neither is known.
    """
    if outcome.kind is not OutcomeKind.CRASH:
        return ""
    return graph.operators[0] if len(graph.operators) == 1 else outcome.dies_at


def words_of(graph: GraphView) -> list[str]:
    """Names of values and texts in attributes: what of a message is the model's, not the cause."""
    names = [value.name for value in graph.values]
    for node in graph.nodes:
        for value in node.attributes.values():
            texts = value if isinstance(value, list) else [value]
            names += [text for text in texts if isinstance(text, str) and len(text) > 3]
    return [name for name in names if name not in _DTYPES]


def _explained(verdict: Verdict | None) -> Mapping[Target, tuple[Deviation, ...]]:
    return verdict.explained if verdict else {}


def _habitual(
    ran: Sequence[Outcome], explained: Mapping[Target, tuple[Deviation, ...]]
) -> Iterable[Failure]:
    """One failure for each habit that it takes to account for all that is wrong, with its targets:
    each is a cause of its own.
    """
    for habit in sorted({habit for habits in explained.values() for habit in habits}, key=str):
        targets = tuple(t for t, habits in explained.items() if habit in habits)
        details = HabitDetails(habits=(habit,))
        yield _difference(OutcomeKind.MISMATCH, targets, ran, details, str(habit))


def _mismatches(
    ran: Sequence[Outcome],
    wrong: Sequence[WrongOutput],
    graph: GraphView,
    calls: Mapping[Target, int],
) -> Iterable[Failure]:
    """One failure for the first wrong output of the graph; later ones are taken to follow it."""
    if not wrong:
        return
    order = _output_order(graph)
    first = min(wrong, key=lambda m: order.get(m.output, len(order)))
    same = [m for m in wrong if m.output == first.output and m.kind == first.kind]
    targets = tuple(dict.fromkeys(m.target for m in same))
    operators = neighbourhood(graph, first.output)
    switches_on = _switched(graph, first.output) or None
    title = f"wrong {first.kind}" + (f" at {_pattern(operators)}" if operators else "")
    call = calls.get(first.target)
    several = None if call is None else SEVERAL
    dtype = graph.dtypes.get(first.output)
    details = MismatchDetails(
        wrong=first.kind,
        operators=operators,
        switches=switches_on,
        calls=several,
        dtype=None if dtype == "float32" else dtype,
    )
    yield _difference(OutcomeKind.MISMATCH, targets, ran, details, title + only_at(call))


def _switched(graph: GraphView, output: str) -> tuple[str, ...]:
    """The attributes that are switched on, and whether there are more than two operands, where a
    value is computed: what two causes in one operator mostly differ in.
    """
    if output not in graph.makers:
        return ()
    node = graph.makers[output]
    alone = replace(graph, nodes=(node,))
    names = [text.partition("=")[0] for text in switches(alone, node.op)]
    return (*names, *(["operands"] if operands(alone, node.op) > 2 else []))


def neighbourhood(graph: GraphView, output: str) -> tuple[str, ...]:
    """The operator that computes a value, then those that compute its inputs, sorted."""
    producer = graph.makers
    if output not in producer:
        return ()
    node = producer[output]
    before = {producer[name].op for name in node.inputs if name in producer}
    return (node.op, *sorted(before))


def _difference(
    kind: OutcomeKind,
    targets: tuple[Target, ...],
    ran: Sequence[Outcome],
    details: HabitDetails | MismatchDetails,
    title: str,
) -> Failure:
    """A failure of the stage compare."""
    details = replace(details, kind=kind, stage=Stage.COMPARE)
    return _failure(kind, Stage.COMPARE, targets, ran, details, title)


def _failure(
    kind: OutcomeKind,
    stage: Stage,
    targets: tuple[Target, ...],
    ran: Sequence[Outcome],
    details: KnownDetails,
    title: str,
) -> Failure:
    backend = ran[0].backend
    levels, all_levels = levels_of(targets), answering(ran)
    details = replace(details, backend=backend)
    parts = details.to_json()
    if not any(parts.get(name) for name in ("message", "frames", HABITS, "fault")):
        parts["levels"] = level_pattern(levels, all_levels)
    where = "all levels" if len(levels) == len(all_levels) else f"{level_names(levels)} only"
    several = len(all_levels) > 1 and stage is not Stage.EXPORT
    how = "" if kind is OutcomeKind.MISMATCH else _way(kind, stage, details)
    places = ", ".join(text for text in (how if title else "", where if several else "") if text)
    signature = Signature(digest_of(parts), sentence(backend, title or how, places), parts)
    return Failure(signature, kind, stage, targets, ran[0].label)


def _way(kind: OutcomeKind, stage: Stage, details: KnownDetails) -> str:
    """How it failed and at which stage: "SIGSEGV in execute"; of an error that has words the stage
    says enough.
    """
    if isinstance(details, ErrorDetails | RefusalDetails):
        how = details.signal or ("" if details.message else details.error or kind)
        return f"{how} in {stage}" if how else str(stage)
    return f"{kind} in {stage}"


def _error_title(details: KnownDetails, outcome: Outcome, names: Collection[str]) -> str:
    """The statement of an error, with the function that made it if it says little; the innermost
    frame of an error that says nothing.

    A death without a word is named after the only operator of the model. names: of the model's
    values.
    """
    made = headline(_subject(outcome) if message_of(details) else "", names)
    text = made.statement
    frames: tuple[str, ...] = ()
    if isinstance(details, ErrorDetails | RefusalDetails):
        frames = details.frames or ()
    if isinstance(details, ErrorDetails) and details.operators:
        return f"{text or 'dies'} at {details.operators[0]}"
    if len(text.split()) == 1 and slip(outcome.error_type):
        text = f"{outcome.error_type.rpartition('.')[2]}: {text}"
    # Python's frames of other errors end where native code is called.
    raised = not text or slip(outcome.error_type) or slip(text)
    named = (frame for frame in reversed(frames) if raised or is_native(frame))
    place = next(named, made.place) if made.is_brief else ""
    return " in ".join(part for part in (text, place) if part) if text else place and f"in {place}"


def _subject(outcome: Outcome) -> str:
    """The complaint of an error in its own words."""
    complaint = outcome.complaint or read_complaint(text_of(outcome))
    return complaint.subject or outcome.message


def _pattern(operators: Sequence[str]) -> str:
    return operators[0] + (f" after {', '.join(operators[1:])}" if operators[1:] else "")


def _output_order(graph: GraphView) -> dict[str, int]:
    nodes = graph.nodes
    return {name: i for i, name in enumerate(n for node in nodes for n in node.outputs)}

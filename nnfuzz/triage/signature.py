"""Signatures: what makes two failures the same finding.

A signature is made of the backend, kind and stage, and of the normalised error with the frames it
came from, or of the operators around the first wrong output. Whether the least optimised level
fails too is part of it where nothing else tells the optimiser's faults from others: for mismatches,
timeouts and deaths without words. An error text with its frames is one finding at whatever levels
it occurs. Parts that only inform (levels by name, dtypes) are in the title and not in the hash.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from nnfuzz.backend.complaint import CompilerError, ComplaintKind, read_complaint
from nnfuzz.backend.deviation import Deviation
from nnfuzz.backend.normalise import normalise
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.slips import slip
from nnfuzz.backend.target import Pipeline, Target, levels_of
from nnfuzz.base.reading import Json
from nnfuzz.base.text import one_line
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.view import NO_GRAPH, GraphView
from nnfuzz.sandbox.exceptions import shortened
from nnfuzz.triage.frames import is_native, native_frames, python_frames
from nnfuzz.triage.general import operands, switches
from nnfuzz.triage.headline import headline
from nnfuzz.triage.identity import (
    EVERYWHERE,
    HABITS,
    OPTIMISED,
    ErrorIdentity,
    HabitIdentity,
    HangIdentity,
    Identity,
    MismatchIdentity,
    Observed,
    RefusalIdentity,
    digest_of,
    identity_of,
    message_of,
    wordless,
)
from nnfuzz.triage.mismatch import WrongOutput, wrong_outputs
from nnfuzz.triage.title import sentence
from nnfuzz.vary.faults.fault import Fault

FAILURES = (OutcomeKind.EXCEPTION, OutcomeKind.CRASH, OutcomeKind.TIMEOUT)
_DTYPES = frozenset(dtype.value for dtype in DType)
_LEVEL_CHARACTERS = 50  # that a pipeline may take of a title


@dataclass(frozen=True)
class Signature:
    """hash: HASH_DIGITS hexadecimal digits over `parts`; title: one line for people. parts: the
    written form of the identity.
    """

    hash: str
    title: str
    parts: Mapping[str, Json] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        # It may come from a folder that anybody has written.
        object.__setattr__(self, "title", one_line(self.title))

    @cached_property
    def identity(self) -> Identity:
        return identity_of(self.parts)

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
) -> list[Failure]:
    """Every distinct failure among the outcomes of a test case, by backend in order.

    verdict: on the outcomes that are ok; graph: it names
    the operators. Failures of one backend at several levels are one if their errors are.
    fault: for which the model must be refused.
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
            *_errors(ran, graph),
            *_habitual(ran, explained),
            *_mismatches(ran, wrong, graph),
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
        groups: dict[Observed, list[Outcome]] = {}
        for outcome in ran:
            if outcome.kind in (*FAILURES, OutcomeKind.ACCEPTED):
                groups.setdefault(_refusal(outcome, fault, names), []).append(outcome)
        for identity, group in groups.items():
            title = sentence(fault.kind, _error_title(identity, group[0], names))
            distinct.append(_error(group, ran, identity, title))
    return distinct


def _refusal(outcome: Outcome, fault: Fault, names: Collection[str]) -> RefusalIdentity:
    """The identity of an answer to an invalid model that is no clean error."""
    kind, by_fault = outcome.kind, RefusalIdentity(kind=outcome.kind, fault=fault.kind)
    if kind in (OutcomeKind.ACCEPTED, OutcomeKind.TIMEOUT) or outcome.over_memory_limit:
        return by_fault
    error = error_identity(outcome, (*names, *fault.words()))
    died = kind is OutcomeKind.CRASH
    by_error = RefusalIdentity(kind=kind, error=error.error or None, signal=error.signal or None)
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


def error_identity(outcome: Outcome, names: Collection[str] = ()) -> ErrorIdentity:
    """The identity of an exception or a death, which has its complaint and frames.

    names: of the model's values, which do not count.
    """
    died = outcome.kind is OutcomeKind.CRASH and not outcome.over_memory_limit
    if died:
        frames = python_frames(outcome.captured) + native_frames(outcome.captured)[::-1]
    else:
        frames = python_frames(outcome.traceback) + native_frames(outcome.message)[::-1]
    complaint = outcome.complaint or read_complaint(text_of(outcome))
    subject = complaint.subject
    if died and not subject and outcome.message.startswith("exited"):
        subject = outcome.message
    others = tuple((normalise(text, names), place) for text, place in complaint.others)
    return ErrorIdentity(
        kind=outcome.kind,
        stage=outcome.stage,
        error=outcome.error_type.rsplit(".", 1)[-1],
        signal=outcome.signal if died else None,
        message=normalise(subject, names),
        others=others or None,
        about=complaint.kind.value if complaint.kind is not ComplaintKind.ERROR else None,
        at=complaint.operators or None,
        location=complaint.location or None,
        frames=(*frames[:1], *frames[1:][-2:]),
    )


def text_of(outcome: Outcome) -> CompilerError:
    """The words of an outcome, to be read by `Backend.complaint`."""
    if outcome.kind is OutcomeKind.CRASH and not outcome.error_type:
        return CompilerError(outcome.stage, captured=outcome.captured)
    return CompilerError(outcome.stage, outcome.error_type, outcome.message, outcome.traceback)


def _errors(ran: Sequence[Outcome], graph: GraphView) -> Iterable[Failure]:
    names = words_of(graph)
    groups: dict[Observed, list[Outcome]] = {}
    for outcome in ran:
        if outcome.kind in FAILURES:
            groups.setdefault(_identity(outcome, graph, names), []).append(outcome)
    for identity, group in groups.items():
        yield _error(group, ran, identity, _error_title(identity, group[0], names))


def _error(
    group: Sequence[Outcome], ran: Sequence[Outcome], identity: Observed, title: str
) -> Failure:
    """The failure of all outcomes of one identity."""
    targets = tuple(outcome.target for outcome in group)
    return _failure(group[0].kind, group[0].stage, targets, ran, identity, title)


def _identity(
    outcome: Outcome, graph: GraphView, names: Collection[str]
) -> ErrorIdentity | HangIdentity:
    if outcome.kind is OutcomeKind.TIMEOUT:
        return HangIdentity(kind=outcome.kind, stage=outcome.stage)
    identity = error_identity(outcome, names)
    place = place_of_death(outcome, graph)
    if place and wordless(identity):  # all that tells one wordless death from another
        return replace(identity, operators=(place,))
    return identity


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
        identity = HabitIdentity(habits=(habit,))
        yield _difference(OutcomeKind.MISMATCH, targets, ran, identity, str(habit))


def _mismatches(
    ran: Sequence[Outcome],
    wrong: Sequence[WrongOutput],
    graph: GraphView,
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
    identity = MismatchIdentity(wrong=first.kind, operators=operators, switches=switches_on)
    title = f"wrong {first.kind}" + (f" at {_pattern(operators)}" if operators else "")
    yield _difference(OutcomeKind.MISMATCH, targets, ran, identity, title)


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
    identity: HabitIdentity | MismatchIdentity,
    title: str,
) -> Failure:
    """A failure of the stage compare."""
    identity = replace(identity, kind=kind, stage=Stage.COMPARE)
    return _failure(kind, Stage.COMPARE, targets, ran, identity, title)


def _failure(
    kind: OutcomeKind,
    stage: Stage,
    targets: tuple[Target, ...],
    ran: Sequence[Outcome],
    identity: Observed,
    title: str,
) -> Failure:
    backend = ran[0].backend
    levels, all_levels = levels_of(targets), answering(ran)
    identity = replace(identity, backend=backend)
    parts = identity.to_json()
    if not any(parts.get(name) for name in ("message", "frames", HABITS, "fault")):
        parts["levels"] = level_pattern(levels, all_levels)
    where = "all levels" if len(levels) == len(all_levels) else f"{level_names(levels)} only"
    several = len(all_levels) > 1 and stage is not Stage.EXPORT
    how = "" if kind is OutcomeKind.MISMATCH else _way(kind, stage, identity)
    places = ", ".join(text for text in (how if title else "", where if several else "") if text)
    signature = Signature(digest_of(parts), sentence(backend, title or how, places), parts)
    return Failure(signature, kind, stage, targets, ran[0].label)


def _way(kind: OutcomeKind, stage: Stage, identity: Observed) -> str:
    """How it failed and at which stage: "SIGSEGV in execute"; of an error that has words the stage
    says enough.
    """
    if isinstance(identity, ErrorIdentity | RefusalIdentity):
        how = identity.signal or ("" if identity.message else identity.error or kind)
        return f"{how} in {stage}" if how else str(stage)
    return f"{kind} in {stage}"


def _error_title(identity: Observed, outcome: Outcome, names: Collection[str]) -> str:
    """The statement of an error, with the function that made it if it says little; the innermost
    frame of an error that says nothing.

    A death without a word is named after the only operator of the model. names: of the model's
    values.
    """
    made = headline(_subject(outcome) if message_of(identity) else "", names)
    text = made.statement
    frames: tuple[str, ...] = ()
    if isinstance(identity, ErrorIdentity | RefusalIdentity):
        frames = identity.frames or ()
    if isinstance(identity, ErrorIdentity) and identity.operators:
        return f"{text or 'dies'} at {identity.operators[0]}"
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

"""Which operator signatures the backends support: learnt from probes and tests.

A signature such as "Add(float16)->float16" is `ok` for a backend once a test or probe with it ran
at every level; `unsupported` once every probe of it (INSTANCES of them) met the backend's own
statement that it is not implemented; `failing` once every probe failed and one in another way.

Only what is unsupported is refused for generation. What fails is a finding, whether it is a wrong
result, an exception or a crash: generation keeps away from it as from other findings that keep
occurring (nnfuzz.feedback.throttle), in all but the tests that are made without restraint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nnfuzz.backend.outcome import Outcome, OutcomeKind
from nnfuzz.ir.view import GraphView

INSTANCES = 3
OK, UNSUPPORTED, FAILING = "ok", "unsupported", "failing"
NOTHING = "nothing"


@dataclass(frozen=True)
class Answer:
    """What one probe showed. kind: OK, UNSUPPORTED, FAILING; NOTHING if there was nothing to run.

    message: one line on the failure.
    """

    kind: str
    message: str = ""

    @property
    def lasting(self) -> bool:
        """Whether later campaigns may rely on it: what fails has to be reported by each anew."""
        return self.kind in (OK, UNSUPPORTED)


def answer_of(outcome: Outcome) -> Answer:
    """What an outcome of a probe says."""
    if outcome.ok or outcome.kind is OutcomeKind.NOT_COMPARED:
        return Answer(OK)
    unsupported = outcome.kind is OutcomeKind.UNSUPPORTED
    return Answer(UNSUPPORTED if unsupported else FAILING, describe(outcome))


def worst(answers: Iterable[Answer]) -> Answer:
    """Of the answers at several levels, what counts: a failure first, then what is unsupported."""
    by_kind = {answer.kind: answer for answer in reversed(list(answers))}
    return next(by_kind[k] for k in (FAILING, UNSUPPORTED, OK, NOTHING) if k in by_kind)


@dataclass
class Entry:
    """What is known of one signature on one backend. message: of the last failure."""

    status: str = ""
    message: str = ""
    tries: int = 0
    failures: int = 0

    @property
    def refused(self) -> bool:
        return self.status == UNSUPPORTED

    @property
    def bad(self) -> bool:
        """Whether no probe of it ran."""
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

    def answered(self, key: str, answer: Answer, enough: int = INSTANCES) -> bool:
        """Notes the answer of a probe; returns whether another one is needed for a decision.

        enough: how many must meet the backend's own statement that it lacks the signature.
        """
        entry = self.entries.setdefault(key, Entry())
        if entry.status or answer.kind == NOTHING:
            return False
        if answer.kind == OK:
            self.entries[key] = Entry(OK)
            return False
        entry.tries += 1
        entry.failures += answer.kind == FAILING
        entry.message = answer.message
        if entry.tries >= (INSTANCES if entry.failures else enough):
            entry.status = FAILING if entry.failures else UNSUPPORTED
        return not entry.status

    def refused(self) -> dict[str, str]:
        """Refused signature -> why."""
        return {k: e.message for k, e in self.entries.items() if e.refused}

    def failing(self) -> dict[str, str]:
        """Signature of which every probe failed, not all of them as unsupported -> why."""
        return {k: e.message for k, e in self.entries.items() if e.status == FAILING}


class Answers:
    """The answers of probes, by backend, signature and instance, for every level that was run.

    They are a memo: a probe with a known answer is not run again, and counts where it is asked.
    """

    ANY = ""
    """The level of an answer that holds for all of them: no model could be made."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, int], dict[str, Answer]] = {}

    def get(self, backend: str, key: str, instance: int, levels: Sequence[str]) -> Answer | None:
        """What is known of a probe at some levels; None unless all of it is."""
        found = self.levels(backend, key, instance)
        if self.ANY in found:
            return found[self.ANY]
        known = [found[level] for level in levels if level in found]
        return worst(known) if known and len(known) == len(levels) else None

    def levels(self, backend: str, key: str, instance: int) -> Mapping[str, Answer]:
        return self._found.get((backend, key, instance), {})

    def add(self, backend: str, key: str, instance: int, answers: Mapping[str, Answer]) -> None:
        self._found.setdefault((backend, key, instance), {}).update(answers)

    def of(self, backend: str) -> dict[tuple[str, int], dict[str, Answer]]:
        """(signature, instance) -> level -> answer."""
        return {place[1:]: levels for place, levels in self._found.items() if place[0] == backend}


def describe(outcome: Outcome) -> str:
    """One line on a failure."""
    lines = outcome.message.strip().splitlines() or [outcome.signal]
    return f"{outcome.kind} in {outcome.stage} at {outcome.level}: {lines[0][:200]}"


def signature_keys(graph: GraphView, variables: Mapping[str, Sequence[int]]) -> set[str]:
    """The signatures in a graph.

    variables: per operator, the first input that each of its type variables binds, in the order
    in which a signature names them (the producer service tells).
    """
    dtypes = graph.dtypes
    keys = set()
    for node in graph.nodes:
        inputs = node.inputs
        bound = [dtypes[inputs[i]] for i in variables.get(node.op, ()) if i < len(inputs)]
        keys.add(f"{node.op}({','.join(bound)})->{dtypes[node.outputs[0]]}")
    return keys

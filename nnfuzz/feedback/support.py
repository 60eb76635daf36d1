"""Which operator signatures the backends support, learnt from probes and tests.

A signature such as "Add(float16)->float16" is `ok` for a backend once a test or probe with it ran
at every level; `unsupported` once every probe of it (INSTANCES of them) met the backend's own
statement that it is not implemented; `failing` once every probe failed and at least one of them
failed in another way.

Only unsupported signatures are refused for generation. A failing signature is a finding, be it a
wrong result, an exception or a crash: generation keeps away from it once it keeps occurring in
tests (nnfuzz.feedback.throttle), except in those that are made without restraint.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from nnfuzz.backend.backtrace import normalise
from nnfuzz.backend.causes import refusing_lines
from nnfuzz.backend.outcome import Outcome, OutcomeKind
from nnfuzz.base.writing import as_list
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.ir.view import GraphView
from nnfuzz.materialize.opsets import exporter_of, opset_of, writer
from nnfuzz.triage.keys import EVERY_DTYPE
from nnfuzz.triage.pattern import OPERATOR, general_message

INSTANCES = 3
OK, UNSUPPORTED, FAILING = "ok", "unsupported", "failing"
NOTHING = "nothing"
REASON = 80  # last characters of a reason in a table that travels with an adapter


@as_list
@dataclass(frozen=True)
class ProbeAnswer:
    """The result of one probe.

    kind: OK, UNSUPPORTED, FAILING, or NOTHING if there was no model to run. message: one line on
    the failure.
    """

    kind: str
    message: str = ""


def answer_of(outcome: Outcome) -> ProbeAnswer:
    """The answer that the outcome of a probe gives."""
    if outcome.ok or outcome.kind is OutcomeKind.NOT_COMPARED:
        return ProbeAnswer(OK)
    unsupported = outcome.kind is OutcomeKind.UNSUPPORTED
    line = telling_line(outcome.message) or outcome.signal
    message = f"{outcome.kind} in {outcome.stage} at {outcome.level}: {line}"
    return ProbeAnswer(UNSUPPORTED if unsupported else FAILING, message)


def telling_line(message: str) -> str:
    """The first line of a message that calls something unsupported; if none does, the first."""
    lines = message.strip().splitlines()
    return next(iter(refusing_lines(lines) or lines), "")[:200]


class Phrases:
    """The words in which a compiler refuses whole signatures, whatever the instance.

    Such words name the operator. Two operators had signatures that were refused in them at every
    instance, and none was that runs otherwise. One more refusal in these words decides a signature.
    """

    def __init__(self) -> None:
        self._operators: dict[str, set[str]] = {}
        self._partial: set[str] = set()

    def add(self, key: SupportKey, message: str, ran: bool = False) -> None:
        """Records the words of a refusal. ran: whether another instance of the signature runs."""
        words = _words(key, message)
        self._operators.setdefault(words, set()).add(key.operator)
        self._partial.update([words] if ran else [])

    def whole(self, key: SupportKey, message: str) -> bool:
        """Whether a refusal concerns all instances of a signature."""
        words = _words(key, message)
        enough = OPERATOR in words and len(self._operators.get(words, ())) > 1
        return enough and words not in self._partial


@lru_cache(10_000)
def _words(key: SupportKey, message: str) -> str:
    """The words of a refusal without its operator, dtypes, numbers and names."""
    asked = message.startswith(f"{UNSUPPORTED} in ")
    line = telling_line(message.partition(": ")[2] if asked else message)
    return general_message(normalise(line), EVERY_DTYPE, (key.operator.rpartition(".")[2],))


def worst(answers: Iterable[ProbeAnswer]) -> ProbeAnswer:
    """The answer that counts among those of several levels: failures first, then refusals."""
    by_kind = {answer.kind: answer for answer in reversed(list(answers))}
    return next(by_kind[k] for k in (FAILING, UNSUPPORTED, OK, NOTHING) if k in by_kind)


@as_list
@dataclass
class SupportEntry:
    """The support of one signature by one backend. message: of the last failure."""

    status: str = ""
    message: str = ""
    tries: int = 0
    failures: int = 0

    @property
    def refused(self) -> bool:
        return self.status == UNSUPPORTED

    @property
    def bad(self) -> bool:
        """Whether no probe of the signature ran."""
        return self.status in (UNSUPPORTED, FAILING)


@dataclass
class Support:
    """The support table of one backend."""

    backend: str
    entries: dict[SupportKey, SupportEntry] = field(default_factory=dict)

    def undecided(self, keys: Iterable[SupportKey]) -> list[SupportKey]:
        """The signatures without a status."""
        return [k for k in keys if k not in self.entries or not self.entries[k].status]

    def decided(self) -> set[SupportKey]:
        """The signatures with a status."""
        return {key for key, entry in self.entries.items() if entry.status}

    def add_run(self, keys: Iterable[SupportKey]) -> None:
        """Records that a model with these signatures ran at every level."""
        for key in self.undecided(keys):
            self.entries[key] = SupportEntry(OK, self.entries.get(key, SupportEntry()).message)

    def add_answer(self, key: SupportKey, answer: ProbeAnswer, enough: int = INSTANCES) -> bool:
        """Records the answer of a probe; returns whether a decision needs another probe.

        enough: how many refusals decide that the signature is unsupported.
        """
        entry = self.entries.setdefault(key, SupportEntry())
        if entry.status or answer.kind == NOTHING:
            return False
        if answer.kind == OK:
            self.entries[key] = SupportEntry(OK, entry.message)
            return False
        entry.tries += 1
        entry.failures += answer.kind == FAILING
        entry.message = answer.message
        if entry.tries >= (INSTANCES if entry.failures else enough):
            entry.status = FAILING if entry.failures else UNSUPPORTED
        return not entry.status

    @property
    def phrases(self) -> Phrases:
        """The words of the refusals so far, except those of signatures that they have decided."""
        phrases = Phrases()
        for key, entry in self.entries.items():
            if entry.message and (entry.status == OK or entry.tries >= INSTANCES):
                phrases.add(key, entry.message, ran=entry.status == OK)
        return phrases

    def with_status(self, status: str) -> dict[SupportKey, str]:
        """The signatures of a status, with the messages."""
        return {key: entry.message for key, entry in self.entries.items() if entry.status == status}

    def refused(self) -> dict[SupportKey, str]:
        """The unsupported signatures, with the reasons."""
        return self.with_status(UNSUPPORTED)

    def failing(self) -> dict[SupportKey, str]:
        """The failing signatures, with the messages."""
        return self.with_status(FAILING)


def wider(key: SupportKey) -> Iterator[SupportKey]:
    """The keys that stand for a key and for others, the most general first, itself last: without
    an exporter, without the opset of a writer; for all dtypes, but not at a single opset.
    """
    exporter = exporter_of(key.exporter)
    yield SupportKey("", key.operator, "")
    yield SupportKey(exporter, key.operator, "")
    yield from (key.signature, key.with_exporter(exporter), key)


def generalised(entries: Mapping[SupportKey, SupportEntry]) -> dict[SupportKey, SupportEntry]:
    """The unsupported signatures as few keys: each by the most general one that stands for no
    signature that runs or fails.

    entries: of every signature with every writer. A signature without a status follows the others.
    """
    taken = {
        w for key, entry in entries.items() if entry.status in (OK, FAILING) for w in wider(key)
    }
    refused: dict[SupportKey, SupportEntry] = {}
    for key in sorted(entries, key=lambda key: (-opset_of(key.exporter), key)):
        if entries[key].refused:
            general = next(w for w in wider(key) if w not in taken)
            reason = entries[key].message.partition(": ")[2] or entries[key].message
            refused.setdefault(general, SupportEntry(UNSUPPORTED, reason[-REASON:]))
    return dict(sorted(refused.items()))


class ProbeAnswers:
    """The known answers of probes by backend, signature, instance and level.

    A probe with a known answer is not run again, and the answer counts when the probe is due.
    """

    ANY = ""
    """The level of an answer that holds for every level since no model could be made."""

    def __init__(self) -> None:
        self._levels: dict[tuple[str, SupportKey, int], dict[str, ProbeAnswer]] = {}

    def get(
        self, backend: str, key: SupportKey, instance: int, levels: Sequence[str]
    ) -> ProbeAnswer | None:
        """The answer of a probe at some levels; None unless it is known for all of them."""
        answers = self.levels(backend, key, instance)
        if self.ANY in answers:
            return answers[self.ANY]
        known = [answers[level] for level in levels if level in answers]
        return worst(known) if known and len(known) == len(levels) else None

    def levels(self, backend: str, key: SupportKey, instance: int) -> Mapping[str, ProbeAnswer]:
        return self._levels.get((backend, key, instance), {})

    def add(
        self, backend: str, key: SupportKey, instance: int, answers: Mapping[str, ProbeAnswer]
    ) -> None:
        self._levels.setdefault((backend, key, instance), {}).update(answers)


def signature_keys(graph: GraphView, variables: Mapping[str, Sequence[int]]) -> set[str]:
    """The written signatures in a graph.

    variables: for each operator, the first input that each of its type variables binds, in the
    order in which a signature names them.
    """
    dtypes = graph.dtypes
    keys = set()
    for node in graph.nodes:
        inputs = node.inputs
        bound = [dtypes[inputs[i]] for i in variables.get(node.op, ()) if i < len(inputs)]
        keys.add(str(SupportKey.of_signature(node.op, bound, dtypes[node.outputs[0]])))
    return keys


class VersionedKeys:
    """The keys of a campaign by exporter, operator and version."""

    def __init__(self, keys: Iterable[SupportKey]) -> None:
        self._keys = frozenset(keys)
        opsets_of: dict[tuple[str, str], set[int]] = {}
        for key in self._keys:
            place = exporter_of(key.exporter), key.operator
            opsets_of.setdefault(place, set()).add(opset_of(key.exporter))
        self._opsets = {place: sorted(opsets) for place, opsets in opsets_of.items()}
        self._known: dict[tuple[str, str], SupportKey | None] = {}

    def of_test(self, items: Iterable[str], made_by: str) -> list[SupportKey]:
        """The keys of a test's signatures. made_by: the exporter or writer of its model.

        Items that are no signatures of the campaign are left out, as those of seed models may be.
        """
        keys = (self._of_item(item, made_by) for item in items)
        return [key for key in keys if key is not None]

    def _of_item(self, item: str, made_by: str) -> SupportKey | None:
        parsed = SupportKey.parse(item)
        if not parsed.is_signature:
            return None
        if (item, made_by) not in self._known:
            key = self._versioned(parsed, made_by)
            self._known[item, made_by] = key if key in self._keys else None
        return self._known[item, made_by]

    def _versioned(self, key: SupportKey, made_by: str) -> SupportKey:
        exporter, opset = exporter_of(made_by), opset_of(made_by)
        opsets = self._opsets.get((exporter, key.operator), [])
        later = opsets[bisect_left(opsets, opset) :] if opset else []
        return key.with_exporter(writer(exporter, later[0]) if later else made_by)

    def newest(self, keys: Iterable[SupportKey]) -> list[SupportKey]:
        """For each exporter, the key of the newest version. keys: all of one signature.

        The result follows the order in which the exporters first occur.
        """
        by_exporter: dict[str, SupportKey] = {}
        for key in keys:
            known = by_exporter.setdefault(exporter_of(key.exporter), key)
            if opset_of(key.exporter) > opset_of(known.exporter):
                by_exporter[exporter_of(key.exporter)] = key
        return list(by_exporter.values())

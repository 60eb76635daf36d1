"""Which single-operator models to run next, and what the answers refuse.

Full probing takes minutes on a slow compiler. A campaign therefore learns while it fuzzes: a test
that ran vouches for its signatures, and one that met `unsupported` has those of its signatures
probed that nothing has vouched for yet; only those whose operator the backend's message names, if
there are any, and where it can mean only one of them, the test counts as a probe of it. With what
is left of the probes that a campaign may make (`CampaignConfig.probes_before`), one signature of
every operator is probed, then the second ones. What is asked follows from the tests of earlier
epochs (nnfuzz.campaign.epochs), and an answer that is known already is not asked for again: so the
answers come to count at the same index however long they take.

Exporters write operators in different ways, so what a backend takes is known per exporter: keys are
"EXPORTER:SIGNATURE" here (`nnfuzz.testcase.case.refusal`). The keys of one signature are probed one
after the other: another exporter is asked for where a backend refuses what the first one makes, and
then one refusal says enough.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from nnfuzz.backend.outcome import DIFFERENCES, Outcome, OutcomeKind
from nnfuzz.feedback.statements import Statements
from nnfuzz.feedback.support import (
    FAILING,
    INSTANCES,
    NOTHING,
    OK,
    UNSUPPORTED,
    Answer,
    Answers,
    Support,
    answer_of,
)
from nnfuzz.records.rows import Observed
from nnfuzz.records.schedule import PLACE_BITS, place_of
from nnfuzz.testcase.case import NotProduced, refusal
from nnfuzz.testcase.identity import Probe

Keep = Callable[[str, str, int, int, Mapping[str, Answer]], None]
"""Takes backend, signature, instance, the index before which it was asked, and answers by level."""
_STRIDE = 64  # places per signature: more than there are instances with all exporters


@dataclass
class _Chain:
    """The probes of one signature, one after the other. keys: still to be probed."""

    place: int
    keys: deque[str] = field(default_factory=deque)


class Prober:
    """The queue of probes and the support tables that they fill."""

    def __init__(
        self,
        levels: Mapping[str, Sequence[str]],
        keys: Sequence[str],
        variables: Mapping[str, Sequence[int]],
        answers: Answers | None = None,
        keep: Keep = lambda *told: None,
    ) -> None:
        """levels: that probes run at, by backend. keys: every signature of the campaign with every
        exporter that writes it, by exporters in the order in which they are to be asked; variables:
        see `signature_keys`. answers: those that are known already. keep: is told every answer
        that counts. `spent`: how many probes were answered, by a compiler or from memory.
        """
        self.spent = 0
        self.levels = levels
        self.tables = {name: Support(name) for name in levels}
        self._statements = {name: Statements() for name in levels}
        self.keys = keys
        self.variables = variables
        self.answers = answers or Answers()
        self._keep = keep
        self._known = frozenset(keys)
        self._exporters = list(dict.fromkeys(key.partition(":")[0] for key in keys))
        self._alike: dict[str, list[str]] = {}
        for key in keys:
            self._alike.setdefault(signature_of(key), []).append(key)
        self._queue: deque[Probe] = deque()
        self._chains: dict[str, _Chain] = {}
        self._asked: set[str] = set()

    @property
    def idle(self) -> bool:
        """Whether every probe that was asked for has been answered."""
        return not self._chains

    def ask(self, keys: Iterable[str], before: int = 0) -> None:
        """Has the signatures probed that some backend knows nothing of, and none refuses.

        before: the index from which on the answers count.
        """
        place = place_of(before - 1) + 1
        for key in keys:
            if key in self._asked or not self._undecided(key) or self._bad(key):
                continue
            self._asked.add(key)
            chain = self._chains.get(signature_of(key))
            if chain:
                chain.keys.append(key)
                continue
            self._chains[signature_of(key)] = _Chain(place)
            self._queue_up(Probe(key, 0, place))
            place += _STRIDE

    def ask_known(self, before: int = 0) -> None:
        """Asks for every signature whose first probe has an answer already."""
        first = (Probe(key, 0) for key in self.keys)
        self.ask([probe.key for probe in first if not self.backends(probe)], before)

    def ask_all(self, most: int | None = None, before: int = 0) -> None:
        """Asks for every signature with one exporter, or for that many that were not asked for."""
        promising = map(self._promising, self._alike)
        self.ask(self._new(by_turns([key for key in promising if key is not None]))[:most], before)

    def lacks_answers(self) -> bool:
        """Whether a signature would have to be probed that has no answer yet."""
        return any(self.backends(Probe(key, 0)) for key in self.keys)

    def forget_waiting(self) -> None:
        """Empties the queue but for signatures that were begun; the rest may be asked again."""
        first = {name: chain.place for name, chain in self._chains.items()}
        waiting = [p for p in self._queue if p.place == first[signature_of(p.key)]]
        for probe in waiting:
            self._queue.remove(probe)
            for key in (probe.key, *self._chains.pop(signature_of(probe.key)).keys):
                self._asked.discard(key)

    def next(self) -> Probe | None:
        """The next probe; those that finish a signature go first."""
        return self._queue.popleft() if self._queue else None

    def __len__(self) -> int:
        return len(self._queue)

    def backends(self, probe: Probe) -> list[str]:
        """The backends that a probe is run on."""
        return [name for name in self._undecided(probe.key) if self._answer(name, probe) is None]

    def finished(self, probe: Probe, outcomes: Mapping[str, Sequence[Outcome]]) -> None:
        """Takes the outcomes of a probe by backend; none where nnfuzz itself failed."""
        for name in self.backends(probe):
            ran = outcomes.get(name, ())
            found = {o.level: answer_of(o) for o in ran} or {Answers.ANY: Answer(NOTHING)}
            self.answers.add(name, probe.key, probe.instance, found)
        self._go_on(probe)

    def not_produced(self, probe: Probe, failed: NotProduced) -> None:
        """Takes a probe that has no model: what its exporter says counts for every backend."""
        kind = NOTHING
        if failed.stage == "export":
            kind = UNSUPPORTED if failed.unsupported else FAILING
        first = failed.message.splitlines()[0] if failed.message else ""
        for name in self.backends(probe):
            found = {Answers.ANY: Answer(kind, f"{failed.stage}: {first}")}
            self.answers.add(name, probe.key, probe.instance, found)
        self._go_on(probe)

    def _answer(self, name: str, probe: Probe) -> Answer | None:
        return self.answers.get(name, probe.key, probe.instance, self.levels[name])

    def _undecided(self, key: str) -> list[str]:
        return [name for name, table in self.tables.items() if table.unknown([key])]

    def _queue_up(self, probe: Probe) -> None:
        """Has a probe run unless it is answered already; then goes on."""
        if self.backends(probe):
            first = probe.place == self._chains[signature_of(probe.key)].place
            add = self._queue.append if first else self._queue.appendleft
            add(probe)
        else:
            self._go_on(probe)

    def _go_on(self, probe: Probe) -> None:
        """Applies the answers; has the next instance probed, or the next key of the signature."""
        self.spent += 1
        undecided = False
        for name in self._undecided(probe.key):
            answer = self._answer(name, probe) or Answer(NOTHING)
            levels = self.answers.levels(name, probe.key, probe.instance)
            self._keep(name, probe.key, probe.instance, probe.place >> PLACE_BITS, levels)
            undecided |= self._take(name, probe.key, answer)
        if undecided:
            self._queue_up(Probe(probe.key, probe.instance + 1, probe.place + 1))
            return
        signature = signature_of(probe.key)
        chain = self._chains[signature]
        other = self._promising(signature) if self._bad(probe.key) else None
        if other is not None and other not in self._asked:
            self._asked.add(other)
            chain.keys.append(other)
        if chain.keys:
            self._queue_up(Probe(chain.keys.popleft(), 0, probe.place + 1))
        else:
            del self._chains[signature]

    def _take(self, name: str, key: str, answer: Answer) -> bool:
        """Notes what a model of a signature has shown; returns whether another one is needed."""
        said, table = self._statements[name], self.tables[name]
        enough = INSTANCES
        if self._lacked_elsewhere(name, key) or said.general(key, answer.message):
            enough = 1
        if answer.kind == UNSUPPORTED:
            said.met(key, answer.message)
        undecided = table.answered(key, answer, enough)
        if key in table.refused():
            said.refused(key)
        elif answer.kind == OK:
            said.ran(key)
        return undecided

    def _promising(self, signature: str) -> str | None:
        """The signature with the first exporter for which no backend has failed."""
        return next((key for key in self._alike[signature] if not self._bad(key)), None)

    def _lacked_elsewhere(self, backend: str, key: str) -> bool:
        """Whether a backend lacks the signature with some other exporter."""
        entries, signature = self.tables[backend].entries, signature_of(key)
        others = (entries.get(refusal(name, signature)) for name in self._exporters)
        return any(entry is not None and entry.refused for entry in others)

    def _bad(self, key: str) -> bool:
        found = (table.entries.get(key) for table in self.tables.values())
        return any(entry is not None and entry.bad for entry in found)

    def learn(self, tests: Sequence[Observed], before: int, most: int | None = None) -> int:
        """Takes what tests of the campaign have shown, and asks for at most so many signatures:
        those that tests give reason to, then others of the operators that are known to be lacking
        with some dtypes. Returns for how many.

        before: see `ask`.
        """
        wanted: dict[str, None] = {}
        for said in self._statements.values():
            said.settle()
        for test in tests:
            for table, levels in self._shown_by(test):
                if levels and all(kind in _RAN for kind, _ in levels):
                    table.ran(self._keys_in(test))
        for test in tests:
            keys = self._keys_in(test)
            for backend, levels in test.outcomes.items():
                refusals = [message for kind, message in levels if kind == OutcomeKind.UNSUPPORTED]
                if refusals:
                    names = [backend] if backend in self.tables else list(self.tables)
                    wanted.update(dict.fromkeys(self._suspects(keys, refusals, names)))
        asked = self._new(dict.fromkeys((*wanted, *self._likely())))[:most]
        self.ask(asked, before)
        return len(asked)

    def _new(self, keys: Iterable[str]) -> list[str]:
        """Those that are not decided yet and were not asked for."""
        return [key for key in keys if key not in self._asked and self._undecided(key)]

    def _suspects(
        self, keys: Sequence[str], refusals: Sequence[str], names: Sequence[str]
    ) -> list[str]:
        """The signatures of a refused test that may be the reason, since they never ran.

        A refusal that names the operator of only one of the test's signatures is an answer on it.
        """
        meant = named(sorted(keys), refusals)
        for name in names if len(meant) == 1 else ():
            first = refusals[0].strip().partition("\n")[0]
            message = f"unsupported in a test: {first[:200]}"
            if self.tables[name].unknown(meant):
                self._take(name, meant[0], Answer(UNSUPPORTED, message))
            elif meant[0] not in self.tables[name].refused():
                self._statements[name].met(meant[0], message)
                self._statements[name].ran(meant[0])
        unknown = sorted({key for name in names for key in self.tables[name].unknown(keys)})
        return named(unknown, refusals) or unknown

    def _likely(self) -> list[str]:
        """Signatures of operators of which another one is refused with the same exporter."""
        lacking = {_operator(key) for table in self.tables.values() for key in table.refused()}
        return by_turns([key for key in self.keys if _operator(key) in lacking])

    def _shown_by(self, test: Observed) -> list[tuple[Support, Sequence[tuple[str, str]]]]:
        found = test.outcomes.items()
        return [(self.tables[name], levels) for name, levels in found if name in self.tables]

    def _keys_in(self, test: Observed) -> list[str]:
        keys = (refusal(test.exporter, item) for item in test.items)
        return [key for key in keys if key in self._known]  # operators of seed models may not be

    def refused(self) -> dict[str, str]:
        """Signatures that some backend refuses, with "backend: why"."""
        return {
            key: f"{name}: {why}"
            for name, table in self.tables.items()
            for key, why in table.refused().items()
        }

    def failing(self) -> dict[str, str]:
        """Signatures of which every probe failed on some backend, with "backend: why"."""
        return {
            key: f"{name}: {why}"
            for name, table in self.tables.items()
            for key, why in table.failing().items()
        }

    def left(self, refused: Collection[str]) -> set[str]:
        """The signatures, without exporters, that some exporter is left for."""
        return {
            signature
            for signature, keys in self._alike.items()
            if signature not in refused and not all(key in refused for key in keys)
        }

    def decided(self) -> int:
        """How many signatures are known to be supported or not on every backend."""
        unknown = {key for table in self.tables.values() for key in table.unknown(self.keys)}
        return len(self.keys) - len(unknown)


_RAN = (OK, *DIFFERENCES, OutcomeKind.NOT_COMPARED.value)


def _operator(key: str) -> str:
    """The operator of a signature, with its exporter."""
    return key.partition("(")[0]


def signature_of(key: str) -> str:
    """Without its exporter."""
    return key.rpartition(":")[2]


def named(keys: Sequence[str], messages: Iterable[str]) -> list[str]:
    """Those whose operator is mentioned."""
    words = {word for message in messages for word in re.findall(r"\w+", message)}
    return [key for key in keys if signature_of(key).partition("(")[0] in words]


def by_turns(keys: Sequence[str]) -> list[str]:
    """The first signature of every operator, then the second ones, and so on."""
    groups: dict[str, list[str]] = {}
    for key in keys:
        groups.setdefault(key.partition("(")[0], []).append(key)
    return [key for turn in zip_longest(*groups.values()) for key in turn if key is not None]

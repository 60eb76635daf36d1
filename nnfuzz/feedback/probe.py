"""Which single-operator models to run next, and which signatures their answers refuse.

A campaign begins with what its adapter's table refuses, or with what the compiler refuses if asked
for many operators at once (nnfuzz.feedback.lacking): these claims hold until one of the signatures
that they stand for ran or failed. Then it learns while it fuzzes. A test that ran shows that its
signatures are supported. A test that met `unsupported` has those of its signatures probed that
never ran; if the message names some of the operators, only theirs. A refusal in words that always
meant a whole signature in earlier epochs decides alone. The questions follow from the tests of
earlier epochs (nnfuzz.campaign.epochs), and a probe with a known answer is not run again: so the
answers come to count at the same index, however long they take. There are at most
`CampaignConfig.probes_before` of them.

Exporters write operators in different ways, so keys name the exporter here. Where a backend refuses
the models of one exporter, one refusal of another's is enough. Where the opset is drawn, keys name
a version of the operator as well (nnfuzz.feedback.support).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice, zip_longest
from types import MappingProxyType

from nnfuzz.backend.outcome import Outcome, OutcomeKind
from nnfuzz.feedback.support import (
    FAILING,
    INSTANCES,
    NOTHING,
    OK,
    UNSUPPORTED,
    Phrases,
    ProbeAnswer,
    ProbeAnswers,
    Support,
    VersionedKeys,
    answer_of,
    telling_line,
    wider,
)
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.records.rows import TestRow
from nnfuzz.records.schedule import PLACE_BITS, place_of
from nnfuzz.testcase.case import NotProduced
from nnfuzz.testcase.identity import Probe

Keep = Callable[[str, SupportKey, int, int, Mapping[str, ProbeAnswer]], None]
"""Receives backend, signature, instance, the index before which it was asked, and the answers by
level."""
_STRIDE = 64  # places per signature: more than there are instances with all exporters
_RAN = (OK, OutcomeKind.MISMATCH, OutcomeKind.NOT_COMPARED.value)


class Prober:
    """The queue of probes, and the support tables that they fill."""

    def __init__(
        self,
        levels: Mapping[str, Sequence[str]],
        keys: Sequence[SupportKey],
        answers: ProbeAnswers | None = None,
        keep: Keep = lambda *answer: None,
        claims: Mapping[str, Mapping[SupportKey, str]] = MappingProxyType({}),
    ) -> None:
        """levels: of each backend, those that probes run at. keys: every signature of the campaign
        with every exporter that writes it, in the order in which exporters are to be asked.
        answers: the known ones. keep: receives every answer that counts. claims: by backend, keys
        that its adapter calls unsupported (see `generalised`), with the reasons. `spent`: the
        number of answered probes, including those with a known answer.
        """
        self.spent = 0
        self.levels = levels
        self.tables = {name: Support(name) for name in levels}
        self.keys = keys
        self.answers = answers or ProbeAnswers()
        self._phrases = {name: Phrases() for name in levels}
        self._keep = keep
        self._known = frozenset(keys)
        self._versions = VersionedKeys(keys)
        self._by_signature: dict[SupportKey, list[SupportKey]] = {}
        self._of_operator: dict[str, list[SupportKey]] = {}
        for key in keys:
            self._by_signature.setdefault(key.signature, []).append(key)
            self._of_operator.setdefault(key.operator, []).append(key)
        self._claims = claims
        self._claimed: dict[SupportKey, set[SupportKey]] = {}
        """Claim of some backend -> the keys that it stands for."""
        named = dict.fromkeys(claim.operator for own in claims.values() for claim in own)
        every = frozenset(claim for own in claims.values() for claim in own)
        for key in (key for operator in named for key in self._of_operator.get(operator, ())):
            for claim in every.intersection(wider(key)):
                self._claimed.setdefault(claim, set()).add(key)
        self._queue: deque[Probe] = deque()
        self._open: set[SupportKey] = set()
        """Keys with a probe that is not answered yet."""
        self._asked: set[SupportKey] = set()

    # -- the queue ----------------------------------------------------------------------------

    @property
    def newest(self) -> list[SupportKey]:
        """Of every signature the newest version with each exporter."""
        return [k for keys in self._by_signature.values() for k in self._versions.newest(keys)]

    @property
    def idle(self) -> bool:
        """Whether every requested probe has been answered."""
        return not self._open

    def __len__(self) -> int:
        return len(self._queue)

    def next(self) -> Probe | None:
        """The next probe; the probes that finish a signature come first."""
        return self._queue.popleft() if self._queue else None

    def ask(self, keys: Iterable[SupportKey], before: int = 0) -> None:
        """Requests probes of the signatures that some backend has not decided and none refuses.

        before: the index from which on the answers count.
        """
        place = place_of(before - 1) + 1
        for key in keys:
            if key not in self._asked and self._undecided(key) and not self._bad(key):
                self._asked.add(key)
                self._open.add(key)
                self._queue_up(Probe(key, 0, place))
                place += _STRIDE

    def backends(self, probe: Probe) -> list[str]:
        """The backends that a probe is to be run on."""
        return [name for name in self._undecided(probe.key) if self._answer(name, probe) is None]

    # -- answers ------------------------------------------------------------------------------

    def levels_of(self, probe: Probe) -> dict[str, tuple[str, ...]]:
        """The levels at which a probe runs, by backend whose answer is wanted."""
        return {name: tuple(self.levels[name]) for name in self.backends(probe)}

    def finished(self, probe: Probe, outcomes: Mapping[str, Sequence[Outcome]]) -> None:
        """Records the outcomes of a probe by backend; without any, nnfuzz itself has failed."""
        for name in self.backends(probe):
            answers = {outcome.level: answer_of(outcome) for outcome in outcomes.get(name, ())}
            self.answers.add(
                name, probe.key, probe.instance, answers or {ProbeAnswers.ANY: ProbeAnswer(NOTHING)}
            )
        self._go_on(probe)

    def not_produced(self, probe: Probe, failed: NotProduced) -> None:
        """Records a probe without a model: the exporter's answer counts for every backend."""
        kind = NOTHING
        if failed.stage == "export":
            kind = UNSUPPORTED if failed.unsupported else FAILING
        first = failed.message.splitlines()[0] if failed.message else ""
        for name in self.backends(probe):
            answer = ProbeAnswer(kind, f"{failed.stage}: {first}")
            self.answers.add(name, probe.key, probe.instance, {ProbeAnswers.ANY: answer})
        self._go_on(probe)

    def _answer(self, name: str, probe: Probe) -> ProbeAnswer | None:
        return self.answers.get(name, probe.key, probe.instance, self.levels[name])

    def _undecided(self, key: SupportKey) -> list[str]:
        return [name for name, table in self.tables.items() if table.undecided([key])]

    def _queue_up(self, probe: Probe) -> None:
        """Queues a probe if it has no answer; else applies the answer."""
        if not self.backends(probe):
            self._go_on(probe)
        elif probe.instance:
            self._queue.appendleft(probe)
        else:
            self._queue.append(probe)

    def _go_on(self, probe: Probe) -> None:
        """Applies the answers; queues the next instance where it is needed."""
        self.spent += 1
        key, undecided = probe.key, False
        for name in self._undecided(key):
            answer = self._answer(name, probe) or ProbeAnswer(NOTHING)
            levels = self.answers.levels(name, key, probe.instance)
            self._keep(name, key, probe.instance, probe.place >> PLACE_BITS, levels)
            undecided |= self._apply(name, key, answer)
        if undecided:
            self._queue_up(Probe(key, probe.instance + 1, probe.place + 1))
            return
        self._open.remove(key)

    def _apply(self, name: str, key: SupportKey, answer: ProbeAnswer) -> bool:
        """Records a backend's answer; returns whether a decision needs another probe."""
        table = self.tables[name]
        others = (table.entries.get(other) for other in self._by_signature.get(key.signature, ()))
        general = any(entry is not None and entry.refused for entry in others)
        general = general or self._phrases[name].whole(key, answer.message)
        return table.add_answer(key, answer, 1 if general else INSTANCES)

    def _bad(self, key: SupportKey) -> bool:
        entries = (table.entries.get(key) for table in self.tables.values())
        return any(entry is not None and entry.bad for entry in entries)

    # -- tests of the campaign ----------------------------------------------------------------

    def learn(self, tests: Sequence[TestRow], before: int, most: int | None = None) -> int:
        """Records the outcomes of tests, and requests at most that many signatures that they give
        reason to. Returns how many. before: see `ask`.
        """
        wanted: dict[SupportKey, None] = {}
        self._phrases = {name: table.phrases for name, table in self.tables.items()}
        for name, claims in self._claims.items():
            for claim, why in claims.items():
                self._phrases[name].add(claim, why)
        keyed = [(test, self._versions.of_test(test.items, test.exporter)) for test in tests]
        for test, keys in keyed:
            for name, levels in test.outcomes.items():
                kinds = {outcome.kind for outcome in levels.values()}
                if kinds and name in self.tables and kinds.issubset(_RAN):
                    self.tables[name].add_run(keys)
        for test, keys in keyed:
            for name, levels in test.outcomes.items():
                refusals = [o.message for o in levels.values() if o.kind == OutcomeKind.UNSUPPORTED]
                if refusals:
                    names = [name] if name in self.tables else list(self.tables)
                    wanted.update(dict.fromkeys(self._suspects(keys, refusals, names)))
        new = (key for key in wanted if key not in self._asked and self._undecided(key))
        self.ask(asked := list(islice(new, most)), before)
        return len(asked)

    def _suspects(
        self, keys: Sequence[SupportKey], refusals: Sequence[str], names: Sequence[str]
    ) -> list[SupportKey]:
        """The signatures of a refused test that may be the reason, since they never ran. If the
        refusal names a signature that ran before, its words are recorded as not about a whole one.
        """
        if len(meant := named_in(sorted(keys), refusals)) == 1:
            for entry in filter(None, (self.tables[name].entries.get(meant[0]) for name in names)):
                entry.message = entry.message or telling_line(refusals[0])
        unknown = sorted({key for name in names for key in self.tables[name].undecided(keys)})
        return named_in(unknown, refusals) or unknown

    # -- the tables for generation ------------------------------------------------------------

    def refused(self) -> dict[SupportKey, str]:
        """Signatures that some backend refuses, with "backend: why"."""
        reasons = {
            key: f"{name}: {why}"
            for name, table in self.tables.items()
            for key, why in table.refused().items()
        }
        for name, claims in self._claims.items():
            entries = self.tables[name].entries
            tried = {key for key, entry in entries.items() if entry.status in (OK, FAILING)}
            for claim, why in claims.items():
                if tried.isdisjoint(self._claimed.get(claim, ())):
                    reasons[claim] = f"{name}: {why}"
        return reasons

    def expanded(self, refused: Iterable[SupportKey]) -> set[SupportKey]:
        """Refused keys, and the signatures that claims among them stand for."""
        refused = {*refused}
        return refused.union(*(self._claimed[key] for key in refused & self._claimed.keys()))

    def left(self, refused: Collection[SupportKey]) -> set[SupportKey]:
        """The signatures, without exporters, that some exporter is left for."""
        refused = self.expanded(refused)
        gone = {
            signature
            for signature in {key.signature for key in refused}
            if signature in refused or refused.issuperset(self._by_signature.get(signature, ()))
        }
        return set(self._by_signature) - gone

    def decided(self) -> int:
        """How many signatures are known to be supported or not on every backend."""
        by_backend = (table.decided() for table in self.tables.values())
        return len(self._known.intersection(*by_backend))


def named_in(keys: Sequence[SupportKey], messages: Iterable[str]) -> list[SupportKey]:
    """The keys whose operator some message mentions, with its domain or without."""
    words = {word for message in messages for word in re.findall(r"\w+", message)}
    return [key for key in keys if key.operator.rpartition(".")[2] in words]


def by_turns(keys: Sequence[SupportKey]) -> list[SupportKey]:
    """The first signature of every operator, then the second ones, and so on."""
    groups: dict[SupportKey, list[SupportKey]] = {}
    for key in keys:
        groups.setdefault(key.any_dtypes, []).append(key)
    return [key for turn in zip_longest(*groups.values()) for key in turn if key is not None]

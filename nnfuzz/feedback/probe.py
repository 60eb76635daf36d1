"""Which single-operator models to run next, and which signatures their answers refuse.

Probing every signature takes minutes on a slow compiler, so a campaign learns while it fuzzes. A
test that ran shows that its signatures are supported. A test that met `unsupported` has those of
its signatures probed that never ran; if the message names some of the operators, only theirs; and
if it can mean only one signature, the test counts as a probe of that one. With the rest of the
probes that a campaign may make (`CampaignConfig.probes_before`), one signature of every operator is
probed, then the second ones. The questions follow from the tests of earlier epochs
(nnfuzz.campaign.epochs), and a probe with a known answer is not run again: so the answers come to
count at the same index, however long they take.

What the table of an adapter claims not to be supported is refused from the first test on, until one
of the signatures that a claim stands for ran or failed. Now and then one of them is probed.

Exporters write operators in different ways, so keys name the exporter here. The keys of one
signature are probed one after the other: another exporter is asked for where a backend refuses the
models of the first one, and then one refusal is enough. Where the opset is drawn, keys name a
version of the operator as well (nnfuzz.feedback.support): the newest one is probed, older ones only
where tests give reason to.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, zip_longest
from types import MappingProxyType

from nnfuzz.backend.outcome import Outcome, OutcomeKind
from nnfuzz.feedback.support import (
    FAILING,
    INSTANCES,
    NOTHING,
    OK,
    UNSUPPORTED,
    OpsetTally,
    ProbeAnswer,
    ProbeAnswers,
    Statements,
    Support,
    SupportClaims,
    SupportEntry,
    VersionedKeys,
    answer_of,
    telling_line,
    wider,
)
from nnfuzz.ir.dtypes import DType
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


@dataclass
class _Chain:
    """The probes of one signature, one after the other. keys: still to be probed."""

    place: int
    keys: deque[SupportKey] = field(default_factory=deque)


class Prober:
    """The queue of probes, and the support tables that they fill."""

    def __init__(
        self,
        levels: Mapping[str, Sequence[str]],
        keys: Sequence[SupportKey],
        variables: Mapping[str, Sequence[int]],
        answers: ProbeAnswers | None = None,
        keep: Keep = lambda *answer: None,
        claims: Mapping[str, SupportClaims] = MappingProxyType({}),
    ) -> None:
        """levels: of each backend, those that probes run at. keys: every signature of the campaign
        with every exporter that writes it, in the order in which exporters are to be asked.
        variables: see `signature_keys`. answers: the known ones. keep: receives every answer that
        counts. claims: by backend. `spent`: the number of answered probes, including those with a
        known answer.
        """
        self.spent = 0
        self.levels = levels
        self.tables = {name: Support(name) for name in levels}
        self._statements = {name: Statements() for name in levels}
        self.keys = keys
        self.variables = variables
        self.answers = answers or ProbeAnswers()
        self._keep = keep
        self._known = frozenset(keys)
        self._versions = VersionedKeys(keys)
        self._tallies = {name: OpsetTally() for name in levels}
        self._by_signature: dict[SupportKey, list[SupportKey]] = {}
        for key in keys:
            self._by_signature.setdefault(key.signature, []).append(key)
        self._by_operator: dict[SupportKey, list[SupportKey]] = {}
        for key in keys:
            self._by_operator.setdefault(key.any_dtypes, []).append(key)
        self._of_operator: dict[str, list[SupportKey]] = {}
        for key in keys:
            self._of_operator.setdefault(key.operator, []).append(key)
        self._claims = claims
        self._claimed = {
            name: {key: [w for w in wider(key) if w in own.reasons] for key in self._naming(own)}
            for name, own in claims.items()
        }
        self._queue: deque[Probe] = deque()
        self._chains: dict[SupportKey, _Chain] = {}
        self._asked: set[SupportKey] = set()

    def _naming(self, claims: SupportClaims) -> Iterator[SupportKey]:
        """The keys of the operators that some claim names."""
        for operator in dict.fromkeys(claim.operator for claim in claims.reasons):
            yield from self._of_operator.get(operator, ())

    # -- the queue ----------------------------------------------------------------------------

    @property
    def newest(self) -> list[SupportKey]:
        """Of every signature the newest version with each exporter."""
        return [key for keys in self._newest.values() for key in keys]

    @cached_property
    def _newest(self) -> dict[SupportKey, list[SupportKey]]:
        """By signature, the keys of the newest version with each exporter."""
        return {sig: self._versions.newest(keys) for sig, keys in self._by_signature.items()}

    @property
    def idle(self) -> bool:
        """Whether every requested probe has been answered."""
        return not self._chains

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
            if key in self._asked or not self._undecided(key) or self._bad(key):
                continue
            self._asked.add(key)
            if chain := self._chains.get(key.signature):
                chain.keys.append(key)
                continue
            self._chains[key.signature] = _Chain(place)
            self._queue_up(Probe(key, 0, place))
            place += _STRIDE

    def ask_known(self, before: int = 0) -> None:
        """Requests every signature whose first probe has a known answer."""
        self.ask([key for key in self.keys if not self.backends(Probe(key, 0))], before)

    def ask_all(self, most: int | None = None, before: int = 0) -> None:
        """Requests every signature with one exporter, or at most that many new ones."""
        tables = self.tables.values()
        bad = {key for table in tables for key, entry in table.entries.items() if entry.bad}
        left = ([key for key in keys if key not in bad] for keys in self._newest.values())
        turns = by_turns([keys[0] for keys in left if keys])
        self.ask(self._new(self._claimed_seldom(turns), most), before)

    def _claimed_seldom(self, keys: Sequence[SupportKey]) -> list[SupportKey]:
        """The keys in another order: one claimed key after each `spacing` others, then the rest."""
        claimed = {key for own in self._claimed.values() for key, claims in own.items() if claims}
        rest = iter([key for key in keys if key not in claimed])
        spacing = min((own.spacing for own in self._claims.values()), default=0)
        mixed: list[SupportKey] = []
        for key in keys:
            if key in claimed:
                mixed += [*islice(rest, spacing), key]
        return [*mixed, *rest]

    def ask_older(self) -> None:
        """Requests older versions of the operators of which some backend refuses a version whole:
        only there no answer follows from that of a newer version.
        """
        for statements in self._statements.values():
            statements.settle()
        lacking = (
            key
            for table in self.tables.values()
            for key in table.refused()
            if not any(self._runs(table, key))
        )
        self.ask([older for key in lacking for older in self._versions.older(key)])

    def lacks_answers(self) -> bool:
        """Whether a signature would have to be probed whose first answer is not known."""
        return any(self.backends(Probe(key, 0)) for key in self.newest)

    def forget_waiting(self) -> None:
        """Drops the signatures without a started probe; they may be requested again."""
        waiting = [p for p in self._queue if p.place == self._chains[p.key.signature].place]
        for probe in waiting:
            self._queue.remove(probe)
            self._asked -= {probe.key, *self._chains.pop(probe.key.signature).keys}

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
            self._add(name, probe, answers or {ProbeAnswers.ANY: ProbeAnswer(NOTHING)})
        self._go_on(probe)

    def not_produced(self, probe: Probe, failed: NotProduced) -> None:
        """Records a probe without a model: the exporter's answer counts for every backend."""
        kind = NOTHING
        if failed.stage == "export":
            kind = UNSUPPORTED if failed.unsupported else FAILING
        first = failed.message.splitlines()[0] if failed.message else ""
        for name in self.backends(probe):
            answer = ProbeAnswer(kind, f"{failed.stage}: {first}")
            self._add(name, probe, {ProbeAnswers.ANY: answer})
        self._go_on(probe)

    def _add(self, name: str, probe: Probe, answers: Mapping[str, ProbeAnswer]) -> None:
        self.answers.add(name, probe.key, probe.instance, answers)

    def _answer(self, name: str, probe: Probe) -> ProbeAnswer | None:
        return self.answers.get(name, probe.key, probe.instance, self.levels[name])

    def _undecided(self, key: SupportKey) -> list[str]:
        return [name for name, table in self.tables.items() if table.undecided([key])]

    def _queue_up(self, probe: Probe) -> None:
        """Queues a probe if it has no answer; else applies the answer."""
        if self.backends(probe):
            first = probe.place == self._chains[probe.key.signature].place
            add = self._queue.append if first else self._queue.appendleft
            add(probe)
        else:
            self._go_on(probe)

    def _go_on(self, probe: Probe) -> None:
        """Applies the answers; queues the next instance, or the next key of the signature."""
        self.spent += 1
        undecided = False
        for name in self._undecided(probe.key):
            answer = self._answer(name, probe) or ProbeAnswer(NOTHING)
            levels = self.answers.levels(name, probe.key, probe.instance)
            self._keep(name, probe.key, probe.instance, probe.place >> PLACE_BITS, levels)
            undecided |= self._apply(name, probe.key, answer)
        if undecided:
            self._queue_up(Probe(probe.key, probe.instance + 1, probe.place + 1))
            return
        chain = self._chains[probe.key.signature]
        other = self._promising(probe.key.signature) if self._bad(probe.key) else None
        if other is not None and other not in self._asked:
            self._asked.add(other)
            chain.keys.append(other)
        if chain.keys:
            self._queue_up(Probe(chain.keys.popleft(), 0, probe.place + 1))
        else:
            del self._chains[probe.key.signature]

    def _apply(self, name: str, key: SupportKey, answer: ProbeAnswer) -> bool:
        """Records a backend's answer; returns whether a decision needs another probe."""
        statements, table = self._statements[name], self.tables[name]
        general = self._lacked_elsewhere(table, key) or statements.general(key, answer.message)
        if answer.kind == UNSUPPORTED:
            statements.add(key, answer.message)
        undecided = table.add_answer(key, answer, 1 if general else INSTANCES)
        if table.entries[key].refused:
            statements.confirm(key)
        elif answer.kind == OK:
            statements.disprove(key)
        return undecided

    def _promising(self, signature: SupportKey) -> SupportKey | None:
        """The signature with the first exporter for which no backend has failed."""
        return next((key for key in self._newest[signature] if not self._bad(key)), None)

    def _lacked_elsewhere(self, table: Support, key: SupportKey) -> bool:
        """Whether a backend lacks the signature with some exporter."""
        others = (table.entries.get(other) for other in self._by_signature.get(key.signature, ()))
        return any(entry is not None and entry.refused for entry in others)

    def _bad(self, key: SupportKey) -> bool:
        entries = (table.entries.get(key) for table in self.tables.values())
        return any(entry is not None and entry.bad for entry in entries)

    # -- tests of the campaign ----------------------------------------------------------------

    def learn(self, tests: Sequence[TestRow], before: int, most: int | None = None) -> int:
        """Records the outcomes of tests, and requests at most that many signatures: those that
        tests give reason to, then others of the operators that lack some signature. Returns how
        many.

        before: see `ask`.
        """
        wanted: dict[SupportKey, None] = {}
        for statements in self._statements.values():
            statements.settle()
        keyed = [(test, self._versions.of_test(test.items, test.exporter)) for test in tests]
        self._count(tests)
        for test, keys in keyed:
            for name, levels in test.outcomes.items():
                ran = [outcome.kind in _RAN for outcome in levels.values()]
                if name in self.tables and ran and all(ran):
                    self.tables[name].add_run(keys)
        for test, keys in keyed:
            for name, levels in test.outcomes.items():
                refusals = [o.message for o in levels.values() if o.kind == OutcomeKind.UNSUPPORTED]
                if refusals:
                    names = [name] if name in self.tables else list(self.tables)
                    wanted.update(dict.fromkeys(self._suspects(keys, refusals, names)))
        asked = self._new(dict.fromkeys((*wanted, *self._likely())), most)
        self.ask(asked, before)
        return len(asked)

    def _new(self, keys: Iterable[SupportKey], most: int | None) -> list[SupportKey]:
        """The signatures that are neither decided nor requested, or at most that many of them."""
        new = (key for key in keys if key not in self._asked and self._undecided(key))
        return list(islice(new, most))

    def _suspects(
        self, keys: Sequence[SupportKey], refusals: Sequence[str], names: Sequence[str]
    ) -> list[SupportKey]:
        """The signatures of a refused test that may be the reason, since they never ran.

        A refusal that names the operator of only one of the test's signatures is an answer on it.
        """
        meant = named_in(sorted(keys), refusals)
        if len(meant) == 1:
            self._apply_refusal(meant[0], refusals[0], names)
        unknown = sorted({key for name in names for key in self.tables[name].undecided(keys)})
        return named_in(unknown, refusals) or unknown

    def _apply_refusal(self, key: SupportKey, refusal: str, names: Sequence[str]) -> None:
        """Records the refusal of a test whose only reason can be a signature."""
        message = f"unsupported in a test: {telling_line(refusal)}"
        for name in names:
            if self.tables[name].undecided([key]):
                self._apply(name, key, ProbeAnswer(UNSUPPORTED, message))
            elif not self.tables[name].entries[key].refused:
                self._statements[name].add(key, message)
                self._statements[name].disprove(key)

    def _likely(self) -> list[SupportKey]:
        """Signatures whose operator has another one that is refused from the same exporter."""
        lacking = {key.any_dtypes for table in self.tables.values() for key in table.refused()}
        return by_turns([key for key in self.keys if key.any_dtypes in lacking])

    def _count(self, tests: Iterable[TestRow]) -> None:
        """Counts which opsets the backends take."""
        for test in tests:
            for name, levels in test.outcomes.items():
                if levels and name in self._tallies:
                    kinds = {outcome.kind for outcome in levels.values()}
                    refused = kinds == {OutcomeKind.UNSUPPORTED}
                    self._tallies[name].add(test.exporter, refused)

    # -- the tables for generation ------------------------------------------------------------

    def refused(self) -> dict[SupportKey, str]:
        """Signatures and opsets that some backend refuses, with "backend: why"."""
        reasons = {
            key: f"{name}: {why}"
            for name, table in self.with_inferred().items()
            for key, why in table.refused().items()
        }
        for name, claims in self._standing().items():
            reasons |= {key: f"{name}: {why}" for key, why in claims.items()}
        for name, tally in self._tallies.items():
            for made_by, why in tally.refused().items():
                reasons[SupportKey(made_by, "", "")] = f"{name}: {why}"
        return reasons

    def _standing(self) -> dict[str, dict[SupportKey, str]]:
        """The claims by backend, without those that stand for a signature that ran or failed."""
        standing = {}
        for name, claims in self._claims.items():
            entries = self.tables[name].entries
            wrong = {
                claim
                for key, own in self._claimed[name].items()
                if own and key in entries and entries[key].status in (OK, FAILING)
                for claim in own
            }
            standing[name] = {k: why for k, why in claims.reasons.items() if k not in wrong}
        return standing

    def expanded(self, refused: Collection[SupportKey]) -> set[SupportKey]:
        """Refused keys, and the signatures that claims among them stand for."""
        by_claim = (item for own in self._claimed.values() for item in own.items())
        return {*refused, *(key for key, own in by_claim if any(c in refused for c in own))}

    def with_inferred(self) -> dict[str, Support]:
        """The tables by backend, with what follows for older versions of operators, and for all
        signatures of operators that a compiler says it lacks.
        """
        tables = {}
        for name, table in self.tables.items():
            lacking = [key for key in table.refused() if any(self._runs(table, key))]
            older = (k for key in lacking for k in table.undecided(self._versions.older(key)))
            inferred = {key: SupportEntry(UNSUPPORTED, "as at a newer version") for key in older}
            for operator, why in self._lacked(name, table).items():
                keys = table.undecided(self._of_operator[operator])
                inferred |= {key: SupportEntry(UNSUPPORTED, why) for key in keys}
            tables[name] = Support(name, {**table.entries, **inferred})
        return tables

    def _lacked(self, name: str, table: Support) -> dict[str, str]:
        """The operators that a backend lacks as a whole, with its words: it refuses float32, or two
        signatures or more, in words about the operator alone, and no signature of it has run.
        """
        words = {
            key: why
            for key, why in table.refused().items()
            if self._statements[name].about_operator(key, why)
        }
        dtypes: dict[str, set[str]] = {}
        for key in words:
            dtypes.setdefault(key.operator, set()).add(key.dtypes)
        ran = {key.operator for key, entry in table.entries.items() if entry.status == OK}
        usual = DType.FLOAT32.value
        lacking = {
            operator
            for operator, refused in dtypes.items()
            if len(refused) > 1 or any(usual in own for own in refused)
        }
        return {key.operator: why for key, why in words.items() if key.operator in lacking - ran}

    def _runs(self, table: Support, key: SupportKey) -> Iterator[bool]:
        """Whether a version of an operator ran with some dtypes."""
        for other in self._by_operator[key.any_dtypes]:
            yield other in table.entries and table.entries[other].status == OK

    def failing(self) -> dict[SupportKey, str]:
        """Signatures whose probes all failed on some backend, with "backend: why"."""
        return self._with_status(FAILING)

    def _with_status(self, status: str) -> dict[SupportKey, str]:
        return {
            key: f"{name}: {why}"
            for name, table in self.tables.items()
            for key, why in table.with_status(status).items()
        }

    def left(self, refused: Collection[SupportKey]) -> set[SupportKey]:
        """The signatures, without exporters, that some exporter is left for."""
        refused = self.expanded(refused)
        lacking = {key.signature for key in refused}
        gone = {s for s in lacking if s in refused or self._refused_everywhere(s, refused)}
        return set(self._by_signature) - gone

    def _refused_everywhere(self, signature: SupportKey, refused: Collection[SupportKey]) -> bool:
        return all(key in refused for key in self._by_signature.get(signature, ()))

    def decided(self) -> int:
        """How many signatures are known to be supported or not on every backend."""
        by_backend = (table.decided() for table in self.tables.values())
        return len(self._known.intersection(*by_backend))


def named_in(keys: Sequence[SupportKey], messages: Iterable[str]) -> list[SupportKey]:
    """The keys whose operator some message mentions."""
    words = {word for message in messages for word in re.findall(r"\w+", message)}
    return [key for key in keys if key.operator in words]


def by_turns(keys: Sequence[SupportKey]) -> list[SupportKey]:
    """The first signature of every operator, then the second ones, and so on."""
    groups: dict[SupportKey, list[SupportKey]] = {}
    for key in keys:
        groups.setdefault(key.any_dtypes, []).append(key)
    return [key for turn in zip_longest(*groups.values()) for key in turn if key is not None]

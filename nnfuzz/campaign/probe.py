"""Which single-operator models to run next, and what the answers refuse.

Full probing takes minutes on a slow compiler. A campaign therefore (1) takes what the cache knows,
(2) spends a few seconds on probes before it starts, one signature of every operator first, and
(3) learns while it fuzzes: a test that ran vouches for its signatures, and one that met
`unsupported` has those of its signatures probed that nothing has vouched for yet; only those whose
operator the backend's message names, if there are any.

Exporters write operators in different ways, so what a backend takes is known per exporter: keys are
"EXPORTER:SIGNATURE" here (`nnfuzz.testcase.case.refusal`). Probing in advance does with one of them
at a time: another exporter is asked for where a backend refuses what the first one makes, and then
one refusal says enough.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from nnfuzz.campaign.support import INSTANCES, UNSUPPORTED, Support, signature_keys
from nnfuzz.execute.outcome import Outcome, OutcomeKind
from nnfuzz.testcase.case import NotProduced, TestCase, refusal


@dataclass(frozen=True)
class Probe:
    """One single-operator model: the `instance`-th of a signature with an exporter."""

    key: str
    instance: int

    def __str__(self) -> str:
        return f"probe {self.key} {self.instance}"

    def job(self) -> dict[str, Any]:
        """What the producer is asked for."""
        exporter, _, signature = self.key.partition(":")
        number = {"instance": self.instance}
        return {"do": "probe", "exporter": exporter, "signature": signature, **number}


class Prober:
    """The queue of probes and the support tables that they fill."""

    def __init__(
        self,
        tables: Mapping[str, Support],
        keys: Sequence[str],
        variables: Mapping[str, Sequence[int]],
    ) -> None:
        """keys: every signature of the campaign with every exporter that writes it, by exporters in
        the order in which they are to be asked; variables: see `signature_keys`.
        """
        self.tables = tables
        self.keys = keys
        self.variables = variables
        self._known = frozenset(keys)
        self._exporters = {key.partition(":")[0] for key in keys}
        self._alike: dict[str, list[str]] = {}
        for key in keys:
            self._alike.setdefault(signature_of(key), []).append(key)
        self._queue: deque[Probe] = deque()
        self._asked: set[str] = set()

    def ask(self, keys: Iterable[str]) -> None:
        """Queues first probes of the signatures that some backend knows nothing of."""
        for key in keys:
            if key not in self._asked and any(t.unknown([key]) for t in self.tables.values()):
                self._asked.add(key)
                self._queue.append(Probe(key, 0))

    def ask_all(self) -> None:
        """Asks for every signature with one exporter."""
        promising = map(self._promising, self._alike)
        self.ask(by_turns([key for key in promising if key is not None]))

    def forget_waiting(self) -> None:
        """Empties the queue; what was in it may be asked again."""
        self._asked -= {probe.key for probe in self._queue if not probe.instance}
        self._queue = deque(probe for probe in self._queue if probe.instance)

    def next(self) -> Probe | None:
        """The next probe; those that finish a signature go first."""
        return self._queue.popleft() if self._queue else None

    def __len__(self) -> int:
        return len(self._queue)

    def backends(self, probe: Probe) -> list[str]:
        """The backends that a probe is run on."""
        return [name for name, table in self.tables.items() if table.unknown([probe.key])]

    def finished(self, probe: Probe, outcomes: Mapping[str, Sequence[Outcome]]) -> None:
        """Takes the outcomes of a probe by backend."""
        answers = []
        for name, ran in outcomes.items():
            enough = 1 if self._lacked_elsewhere(name, probe.key) else INSTANCES
            answers.append(self.tables[name].probed(probe.key, ran, enough))
        self._go_on(probe, any(answers))

    def not_produced(self, probe: Probe, failed: NotProduced) -> None:
        """Takes a probe that has no model: an exporter's failure counts against the signature."""
        if failed.stage != "export":
            return
        message = f"export: {failed.message.splitlines()[0] if failed.message else ''}"
        answers = [table.failed(probe.key, False, message) for table in self.tables.values()]
        self._go_on(probe, any(answers))

    def _go_on(self, probe: Probe, undecided: bool) -> None:
        """Has the next instance probed, or where the signature is refused the next exporter."""
        if undecided:
            self._queue.appendleft(Probe(probe.key, probe.instance + 1))
        elif self._refuses(probe.key):
            other = self._promising(signature_of(probe.key))
            if other is not None and other not in self._asked:
                self._asked.add(other)
                self._queue.appendleft(Probe(other, 0))

    def _promising(self, signature: str) -> str | None:
        """The signature with the first exporter that no backend refuses."""
        return next((key for key in self._alike[signature] if not self._refuses(key)), None)

    def _lacked_elsewhere(self, backend: str, key: str) -> bool:
        """Whether a backend lacks the signature with some other exporter."""
        entries, signature = self.tables[backend].entries, signature_of(key)
        others = (entries.get(refusal(name, signature)) for name in self._exporters)
        return any(entry is not None and entry.status == UNSUPPORTED for entry in others)

    def _refuses(self, key: str) -> bool:
        found = (table.entries.get(key) for table in self.tables.values())
        return any(entry is not None and entry.refused for entry in found)

    def learn(self, case: TestCase, outcomes: Mapping[str, Sequence[Outcome]]) -> None:
        """Takes the outcomes of a campaign's test by backend."""
        keys = self._keys_in(case)
        for name, ran in outcomes.items():
            table = self.tables[name]
            if ran and all(o.kind in (OutcomeKind.OK, OutcomeKind.MISMATCH) for o in ran):
                table.ran(keys)
            else:
                told = [o.message for o in ran if o.kind is OutcomeKind.UNSUPPORTED]
                self.ask(named(sorted(table.unknown(keys)), told) if told else ())

    def learn_export(self, failed: NotProduced) -> None:
        """Takes a test that its exporter could not write."""
        if failed.unsupported and failed.graph:
            self.ask(sorted(self._keys_in(failed)))

    def _keys_in(self, case: TestCase | NotProduced) -> list[str]:
        found = signature_keys(case.graph or {}, self.variables)
        keys = (refusal(case.generated_for, key) for key in found)
        return [key for key in keys if key in self._known]  # operators of seed models may not be

    def refused(self) -> dict[str, str]:
        """Signatures that some backend refuses, with "backend: why"."""
        return {
            key: f"{name}: {why}"
            for name, table in self.tables.items()
            for key, why in table.refused().items()
        }

    def left(self, refused: Collection[str]) -> set[str]:
        """The signatures, without exporters, that some exporter is left for."""
        return {
            signature
            for signature, keys in self._alike.items()
            if signature not in refused and not all(key in refused for key in keys)
        }

    def decided(self) -> int:
        """How many signatures are known to be supported or refused on every backend."""
        unknown = {key for table in self.tables.values() for key in table.unknown(self.keys)}
        return len(self.keys) - len(unknown)


def signature_of(key: str) -> str:
    """Without its exporter."""
    return key.rpartition(":")[2]


def named(keys: Sequence[str], messages: Iterable[str]) -> list[str]:
    """Those whose operator is mentioned; all if none is."""
    words = {word for message in messages for word in re.findall(r"\w+", message)}
    found = [key for key in keys if signature_of(key).partition("(")[0] in words]
    return found or list(keys)


def by_turns(keys: Sequence[str]) -> list[str]:
    """The first signature of every operator, then the second ones, and so on."""
    groups: dict[str, list[str]] = {}
    for key in keys:
        groups.setdefault(key.partition("(")[0], []).append(key)
    return [key for turn in zip_longest(*groups.values()) for key in turn if key is not None]

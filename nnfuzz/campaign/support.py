"""Which operator signatures the backends support: learnt from probes and tests, cached on disk.

A signature such as "Add(float16)->float16" is `ok` for a backend once a test or probe with it ran
at every level; `unsupported` once every probe of it (INSTANCES of them) met the backend's own
statement that it is not implemented; `failing` once every probe failed and one for another
reason. The last two are refused for generation. `failing` is reported as a finding and is not
taken from the cache, so that every campaign reports it anew.

Test cases stay a function of (seed, index, configuration): the refusals are part of the
configuration (`CaseConfig.refused`), a change of them starts a new epoch, and each test names the
epoch that it was made under. The store keeps the refusals of every epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from nnfuzz.execute.outcome import Outcome, OutcomeKind

INSTANCES = 3
OK, UNSUPPORTED, FAILING = "ok", "unsupported", "failing"
_WHY = {UNSUPPORTED: "", FAILING: "always fails: "}


@dataclass
class Entry:
    """What is known of one signature on one backend. message: of the last failure."""

    status: str = ""
    message: str = ""
    tries: int = 0
    failures: int = 0

    @property
    def refused(self) -> bool:
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

    def probed(self, key: str, outcomes: Sequence[Outcome], enough: int = INSTANCES) -> bool:
        """Notes a probe's outcomes; returns whether another probe is needed for a decision.

        enough: how many must meet the backend's own statement that it lacks the signature.
        """
        bad = [o for o in outcomes if not o.ok]
        if not bad:
            self.entries[key] = Entry(OK)
            return False
        worst = next((o for o in bad if o.kind is not OutcomeKind.UNSUPPORTED), bad[0])
        return self.failed(key, worst.kind is OutcomeKind.UNSUPPORTED, describe(worst), enough)

    def failed(self, key: str, unsupported: bool, message: str, enough: int = INSTANCES) -> bool:
        """As `probed`, for a probe that failed."""
        entry = self.entries.setdefault(key, Entry())
        if entry.status:
            return False
        entry.tries += 1
        entry.failures += not unsupported
        entry.message = message
        if entry.tries >= (INSTANCES if entry.failures else enough):
            entry.status = FAILING if entry.failures else UNSUPPORTED
        return not entry.status

    def refused(self) -> dict[str, str]:
        """Refused signature -> why."""
        return {k: f"{_WHY[e.status]}{e.message}" for k, e in self.entries.items() if e.refused}

    def to_json(self) -> dict[str, Any]:
        return {key: asdict(entry) for key, entry in self.entries.items() if entry.status}


def describe(outcome: Outcome) -> str:
    """One line on a failure."""
    lines = outcome.message.strip().splitlines() or [outcome.signal]
    return f"{outcome.kind} in {outcome.stage} at {outcome.level}: {lines[0][:200]}"


def signature_keys(graph: Mapping[str, Any], variables: Mapping[str, Sequence[int]]) -> set[str]:
    """The signatures in a graph's JSON form.

    variables: per operator, the first input that each of its type variables binds, in the order
    in which a signature names them (the producer service tells).
    """
    dtypes = {name: dtype for name, dtype, _ in graph["values"]}
    keys = set()
    for node in graph["nodes"]:
        inputs = node["inputs"]
        bound = [dtypes[inputs[i]] for i in variables.get(node["op"], ()) if i < len(inputs)]
        keys.add(f"{node['op']}({','.join(bound)})->{dtypes[node['outputs'][0]]}")
    return keys

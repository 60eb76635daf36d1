"""The turns of `nnfuzz watch`, as a ledger keeps them: one small file, written in one step."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from nnfuzz.base.files import write_atomically
from nnfuzz.base.reading import Unreadable, read
from nnfuzz.base.untrusted import read_json
from nnfuzz.base.writing import as_json
from nnfuzz.bugs.bug import BugError
from nnfuzz.bugs.ledger import Ledger

FILE = "watch.json"
SCHEMA = 1
MOST_TURNS = 1000
"""Turns that are kept: of one an hour six weeks, for the trends of a dashboard."""
MOST_TIMES = 3
"""A turn that was killed is begun again, up to so many times in all."""


@dataclass(frozen=True)
class Turn:
    """One turn of a system. day: on which it ended. tests, findings: of its campaign. new: bugs
    that it added. operators, passes: how many the tests so far have reached. error: what went
    wrong, in a line; "" if nothing did.
    """

    number: int
    system: str
    day: str
    release: str = ""
    tests: int = 0
    findings: int = 0
    new: int = 0
    operators: int = 0
    passes: int = 0
    error: str = ""


@dataclass(frozen=True)
class WatchState:
    """The memory of a watch beside its ledger.

    turns: the last ones. checked: the releases of each system on which the ledger was checked, or
    which cannot be installed. under_way: the release of a system's turn that has not ended, and how
    often that turn was begun. announced: identities of the events that were reported as new; None
    before the first turn, which announces no earlier event. outbox: those among them that
    the command of announce has not accepted yet.
    """

    schema: int = SCHEMA
    number: int = 0
    checked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    under_way: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    announced: tuple[str, ...] | None = None
    outbox: tuple[str, ...] = ()
    turns: tuple[Turn, ...] = ()

    def announcing(self, events: Iterable[str], has_command: bool) -> WatchState:
        """With events, by their identities, that are reported from now on."""
        new = tuple(events)
        outbox = (*self.outbox, *new) if has_command else ()
        return replace(self, announced=(*(self.announced or ()), *new), outbox=outbox)

    def after(self, turn: Turn) -> WatchState:
        """With one more turn, which has ended."""
        turns = (*self.turns, turn)[-MOST_TURNS:]
        rest = {name: begun for name, begun in self.under_way.items() if name != turn.system}
        return replace(self, number=turn.number, turns=turns, under_way=rest)

    def beginning(self, system: str, release: str) -> WatchState:
        """With a turn of a system under way."""
        before, times = self.under_way.get(system, ("", 0))
        begun = (release, times + 1 if release == before else 1)
        return replace(self, under_way={**self.under_way, system: begun})

    def interrupted(self, system: str) -> str:
        """The release of a turn that was killed, unless it was begun too often; or ""."""
        release, times = self.under_way.get(system, ("", 0))
        return release if times < MOST_TIMES else ""

    def having_checked(self, system: str, release: str) -> WatchState:
        own = dict.fromkeys((*self.checked.get(system, ()), release))
        return replace(self, checked={**self.checked, system: tuple(own)})


def read_state(ledger: Ledger) -> WatchState:
    """The state beside a ledger; an empty one if there is none. Raises: BugError."""
    file = ledger.folder / FILE
    if not file.is_file():
        return WatchState()
    try:
        state = read(WatchState, read_json(file))
        if state.schema != SCHEMA:
            raise Unreadable(f"has the schema {state.schema!r}, this nnfuzz reads {SCHEMA}")
        return state
    except Unreadable as error:
        raise BugError(f"{file}: {error}; delete it to check all releases anew") from error


def write_state(ledger: Ledger, state: WatchState) -> None:
    """Raises: OSError."""
    ledger.folder.mkdir(parents=True, exist_ok=True)
    write_atomically(ledger.folder / FILE, json.dumps(as_json(state), indent=1).encode() + b"\n")

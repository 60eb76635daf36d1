"""The interfaces by which campaigns and other long work report to a terminal or a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from nnfuzz.records.rows import FindingRow

Note = Callable[[str], None]
"""Shows a line to people."""
Advance = Callable[[str], None]
"""Counts one step; the text says how things stand."""
Steps = Callable[[str, int], AbstractContextManager[Advance]]
"""Opens a display of a number of steps, under a label."""


def ignore(line: str) -> None:
    """A `Note` that nobody reads."""


@dataclass(frozen=True)
class CampaignSnapshot:
    """The state of a running campaign, for people.

    left: seconds until the limit, if known. flaky: failures that did not repeat. suspects: hangs
    that are not confirmed yet. unreduced: findings.
    """

    phase: str
    seconds: float
    left: float | None
    tests: int
    rate: float
    outcomes: Mapping[str, int]
    findings: int
    occurrences: int
    faults: int
    sut_share: float
    flaky: int = 0
    unreduced: int = 0
    suspects: int = 0


def counted(count: int, noun: str) -> str:
    """ "1 finding", "2 findings"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class Observer(Protocol):
    """Receives the state, the findings and the notes of a campaign."""

    def update(self, snapshot: CampaignSnapshot) -> None: ...
    def finding(self, row: FindingRow) -> None: ...
    def note(self, text: str) -> None: ...

"""Whether the issue of a finding may be filed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nnfuzz.bugs.bug import Bug, BugState
from nnfuzz.records.finding import Finding

FILED = (BugState.FILED, BugState.CONFIRMED)
DECIDED = (*FILED, BugState.WONTFIX, BugState.DUPLICATE)
"""States of bugs that the maintainers know of."""


def system_of(finding: Finding) -> str:
    """The backend that a finding is about."""
    return finding.backend.name if finding.backend else finding.failure.backend


def refusal(bugs: Mapping[str, Bug], own: Iterable[str], system: str, most: int) -> str:
    """Why a finding is not filed a second time, or not now; "" if it may be filed.

    own: names of the bugs that it is one of. most: issues of the system that may be open at once; 0
    for any number.
    """
    for name in own:
        if bugs[name].upstream or bugs[name].state in DECIDED:
            return f"{name} is {bugs[name].state} already {bugs[name].upstream}".rstrip()
    waiting = sum(bug.system == system and bug.state in FILED for bug in bugs.values())
    if most and waiting >= most:
        return f"{waiting} issues of {system} are open, and --max-open is {most}"
    return ""

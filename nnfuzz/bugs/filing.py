"""Which bugs a finding is one of, and whether its issue may be filed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.bugs.bug import Bug, BugState
from nnfuzz.bugs.ledger import bugs_of
from nnfuzz.findings.keyed import known_by
from nnfuzz.records.finding import Finding
from nnfuzz.triage.known import KnownFailures

FILED = (BugState.FILED, BugState.CONFIRMED)
DECIDED = (*FILED, BugState.WONTFIX, BugState.DUPLICATE)
"""States of bugs that the maintainers know of."""


def system_of(finding: Finding) -> str:
    """The backend that a finding is about."""
    return finding.backend.name if finding.backend else finding.failure.backend


def bugs_of_finding(
    bugs: Mapping[str, Bug], finding: Finding, folders: Iterable[Path], registry: BackendRegistry
) -> list[str]:
    """Names of the bugs that a finding is one of, open ones first.

    folders: of the finding, as it was found and as it was reduced.
    """
    known = KnownFailures.merged(known_by(place, registry) for place in folders)
    keys = {key for own in known.keys for key in own}
    return bugs_of(bugs, known.hashes, keys, system_of(finding))


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

"""From the findings of a campaign to the bugs of a ledger: new bugs, and bugs that came back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path

from nnfuzz.backend.registry import BackendRegistry, RegistryError
from nnfuzz.base.reading import Unreadable
from nnfuzz.bugs.bug import Bug, BugState, newer
from nnfuzz.bugs.ledger import SCRIPT, Ledger, bugs_of, recognised_by
from nnfuzz.findings.folder import (
    FindingError,
    Trust,
    copy_finding,
    finding_script,
    is_finding,
    nobody,
    read_finding,
    smallest,
)
from nnfuzz.findings.reduced import repro_program
from nnfuzz.findings.replay import release_in
from nnfuzz.records.finding import Finding
from nnfuzz.triage.keys import Key, KeyKind

MOST_OPERATORS = 3
"""In the name of a bug."""
CAMPAIGN = "campaign.sqlite"
"""The file of a campaign, as nnfuzz.store.store names it, which is a room above this one."""


class AdditionKind(StrEnum):
    """The relation of a finding to a ledger. BACK: of a bug that a release had fixed."""

    NEW = "new"
    KNOWN = "known"
    BACK = "back"


@dataclass(frozen=True)
class Addition:
    """The bug that a finding belongs to, and how. message: more about it; may be empty."""

    name: str
    kind: AdditionKind
    message: str = ""


def findings_below(place: Path) -> list[Path]:
    """The folders of findings: the place itself, or those of a campaign, which may have none.

    Raises: Unreadable for a place that is neither.
    """
    if is_finding(place):
        return [place]
    within = place / "findings" if (place / "findings").is_dir() else place
    folders = sorted(path for path in within.glob("*") if is_finding(path))
    if not folders and within == place and not (place / CAMPAIGN).is_file():
        raise Unreadable(f"{place} is neither a campaign nor a finding: there is no finding in it")
    return folders


@dataclass(frozen=True)
class Adder:
    """Adds findings to a ledger, which is locked meanwhile.

    trusted: which plug-ins that the finding in a folder names may go to the ledger, and be in the
    script that this nnfuzz makes.
    """

    ledger: Ledger
    registry: BackendRegistry
    today: date
    trusted: Callable[[Path], Trust] = lambda folder: nobody

    def add_all(self, place: Path) -> Iterator[Addition]:
        """Adds a finding, or the findings of a campaign one after the other.

        Raises: Unreadable, FindingError, OSError.
        """
        bugs = self.ledger.bugs()
        for folder in findings_below(place):
            done = self._add(folder, bugs)
            bugs[done.name] = self.ledger.bug(done.name)
            yield done

    def _add(self, folder: Path, bugs: dict[str, Bug]) -> Addition:
        source = smallest(folder)
        finding = read_finding(source)
        signatures, keys = recognised_by({folder, source}, self.registry)
        keys |= {Key(KeyKind.FAILURE, finding.failure.kind.value)}
        made = _bug(finding, folder, signatures, keys)
        for name in bugs_of(bugs, signatures, keys, made.system):
            return self._occurred(name, bugs[name], made, folder)
        return self._new(_free(_name(finding), bugs), made, source)

    def _new(self, name: str, made: Bug, source: Path) -> Addition:
        """Adds a bug with the files of its finding."""
        missing = ""

        def fill(draft: Path) -> None:
            nonlocal missing
            trusted = self.trusted(source)
            copy_finding(source, draft, trusted)
            missing = _write_script(draft, self.registry, trusted)

        self.ledger.add(name, made, fill)
        return Addition(name, AdditionKind.NEW, missing and f"no script: {missing}")

    def _occurred(self, name: str, bug: Bug, made: Bug, folder: Path) -> Addition:
        """Records that a bug occurred in the finding's release, and by which signatures and keys it
        is recognised from now on.
        """
        release, kind, message = made.last_bad_release, AdditionKind.KNOWN, ""
        back = bug.state is BugState.FIXED and not newer(bug.right_release, release)
        changed = bug.recognised_as(made).failing_in(release)
        if back:
            kind, message = AdditionKind.BACK, f"fixed in {bug.right_release or '?'}"
            changed = replace(changed, state=BugState.CONFIRMED, right_release="")
            changed = changed.noted(f"{kind} in {release or '?'} ({message}): {folder}", self.today)
        if changed != bug:
            self.ledger.put(name, changed)
        return Addition(name, kind, message)


def _write_script(folder: Path, registry: BackendRegistry, trusted: Trust) -> str:
    """Writes repro.py for the finding in a folder; returns why there is none, or "".

    trusted: says which plug-ins that the finding names may run. Raises: OSError.
    """
    refused: list[str] = []

    def asked(plugin: str) -> str:
        allowed = trusted(plugin)
        refused.extend([] if allowed else [plugin])
        return allowed

    try:
        finding = read_finding(folder, asked)
        if refused:
            return f"needs the plug-in {refused[0]}: name it with --plugin"
        if not finding.case.model:
            return "has no model"
        script = finding_script(finding, repro_program(finding, registry))
    except (FindingError, RegistryError) as error:
        return str(error)
    (folder / SCRIPT).write_text(script, encoding="utf-8")
    return ""


def _bug(finding: Finding, folder: Path, signatures: frozenset[str], keys: frozenset[Key]) -> Bug:
    """The bug that a finding shows, in state new."""
    failure, graph = finding.failure, finding.case.graph
    made = datetime.fromtimestamp((folder / "finding.json").stat().st_mtime, UTC)
    system = finding.system
    bug = Bug(
        failure.signature.title.removeprefix(f"{failure.backend}: "),
        system,
        failure.kind.value,
        operators=tuple(sorted({*graph.operators})),
        dtypes=tuple(sorted({*graph.dtypes.values()})),
        passes=tuple(map(str, (finding.localisation or {}).get("passes", ()))),
        first_seen=made.date().isoformat(),
        signatures=tuple(sorted(signatures)),
        keys=tuple(sorted(map(str, keys))),
    )
    bug = bug.failing_in(release_in(failure.targets[0].release))
    for release in (b.release for b in finding.origin.bisection if b.release):  # by nnfuzz bisect
        if newer(release, bug.last_bad_release):
            bug = replace(bug, right_release=release)
        else:
            bug = replace(bug, first_bad_release=release)
    return bug


def _name(finding: Finding) -> str:
    """SYSTEM/KIND-OPERATORS-SIGNATURE."""
    operators = dict.fromkeys(finding.case.graph.operators[:MOST_OPERATORS])
    kind, digest = finding.failure.kind.value, finding.failure.signature.hash[:6]
    plain = [
        re.sub(r"[^a-z0-9.]+", "-", part.lower()).strip("-")
        for part in (finding.system, kind, *operators, digest)
    ]
    return f"{plain[0]}/{'-'.join(plain[1:])}"


def _free(name: str, bugs: dict[str, Bug]) -> str:
    """The name, or with a number behind it if there is a bug of that name."""
    further = (f"{name}-{n}" for n in range(2, len(bugs) + 3))
    return next(n for n in (name, *further) if n not in bugs)

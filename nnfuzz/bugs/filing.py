"""Whether a finding may be filed: not if a ledger or a dump of the tracker has it already."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.reading import JsonObject, Unreadable, read
from nnfuzz.base.untrusted import read_json, read_text
from nnfuzz.bugs.bug import Bug, BugState, ScriptResult, newer
from nnfuzz.findings.keyed import known_by
from nnfuzz.records.finding import Finding
from nnfuzz.triage.keys import Key
from nnfuzz.triage.known import KnownFailures

FILED = (BugState.FILED, BugState.CONFIRMED)
DECIDED = (*FILED, BugState.WONTFIX, BugState.DUPLICATE)
"""States of bugs that the maintainers know of."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class TrackerIssue:
    """An issue of a dump. text: its title and body."""

    title: str
    url: str
    text: str

    def names(self, words: Iterable[str]) -> bool:
        """Whether all of these words are in it, as whole words of any case."""
        own = {word.lower() for word in _WORD.findall(self.text)}
        return {word.lower() for word in words} <= own


def read_dump(place: Path) -> list[TrackerIssue]:
    """The issues of a file of JSON, as `gh issue list --json title,url,body` writes it, or of a
    folder with a text file for each. Raises: Unreadable.
    """
    if place.is_dir():
        files = sorted(f for f in place.rglob("*") if f.is_file() and f.suffix in (".md", ".txt"))
        texts = ((file, read_text(file)) for file in files)
        return [TrackerIssue(t.strip().partition("\n")[0], str(f), t) for f, t in texts]
    try:
        rows = read(tuple[JsonObject, ...], read_json(place))
        return [_issue(row) for row in rows]
    except (Unreadable, KeyError) as error:
        raise Unreadable(
            f"{place} is no dump of a tracker ({error}): write it by gh issue list --state all "
            "--limit 10000 --json title,url,body"
        ) from error


def _issue(row: JsonObject) -> TrackerIssue:
    title, url, body = (str(row[name] or "") for name in ("title", "url", "body"))
    return TrackerIssue(title, url, f"{title}\n{body}")


@dataclass(frozen=True)
class Filing:
    """A finding that is to be filed. words: of a search for it."""

    system: str
    signatures: frozenset[str]
    keys: frozenset[Key]
    words: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        finding: Finding,
        folders: Iterable[Path],
        registry: BackendRegistry,
        words: Sequence[str] = (),
    ) -> Filing:
        """folders: of the finding, as it was found and reduced: what any of them is known by."""
        known = KnownFailures.merged(known_by(place, registry) for place in folders)
        keys = frozenset(key for own in known.keys for key in own)
        system = finding.backend.name if finding.backend else finding.failure.backend
        return cls(system, known.hashes, keys, words)

    def bug_in(self, bugs: Mapping[str, Bug]) -> str:
        """Name of the bug that the finding is one of; "" if it is new. A duplicate counts for its
        leader.
        """
        own = (n for n, b in bugs.items() if b.system == self.system)
        name = next((n for n in own if bugs[n].is_of(self.signatures, self.keys)), "")
        leader = bugs[name].duplicate_of if name else ""
        return leader if leader in bugs else name

    def refusal(self, bugs: Mapping[str, Bug], issues: Iterable[TrackerIssue], most: int) -> str:
        """Why it is not filed a second time, or not now; "" if it may be filed.

        most: issues of the system that may be open at once; 0 for any number.
        """
        name = self.bug_in(bugs)
        if name and (bugs[name].upstream or bugs[name].state in DECIDED):
            bug = bugs[name]
            return f"{name} is {bug.state} already {bug.upstream}".rstrip()
        for issue in issues:
            if any(signature in issue.text for signature in self.signatures):
                return f"an issue has its signature: {issue.url}"
        waiting = [n for n, b in bugs.items() if b.system == self.system and b.state in FILED]
        if most and len(waiting) >= most:
            return f"{len(waiting)} issues of {self.system} are open, and --max-open is {most}"
        return ""

    def similar(self, issues: Iterable[TrackerIssue]) -> list[TrackerIssue]:
        """The issues that have all words of a search for it."""
        return [issue for issue in issues if self.words and issue.names(self.words)]


def releases_sentence(bug: Bug) -> str:
    """The releases that have a bug, and the result of the newest one that was tried; ""
    if unknown.
    """
    parts = []
    bad = [bug.first_bad_release, bug.last_bad_release]
    right = [r for r, result in bug.releases.items() if result is ScriptResult.RIGHT]
    before = [r for r in right if newer(bug.first_bad_release, r)]
    if any(bad):
        parts.append(f"it fails in {' to '.join(dict.fromkeys(filter(None, bad)))}")
    if before:
        parts.append(f"it is right in {max(before, key=Version)}")
    if bug.right_release:
        parts.append(f"it is right again in {bug.right_release}")
    if bug.releases:
        newest = max(bug.releases, key=Version)
        parts.append(f"the newest that was tried is {newest} ({bug.releases[newest]})")
    return f"Releases: {'; '.join(parts)}." if parts else ""

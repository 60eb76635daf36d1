"""The page of the bugs found, made from their ledger docs/bugs (scripts/make/pages.py)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from packaging.version import Version

from nnfuzz.bugs.bug import Bug, BugState, ScriptResult
from nnfuzz.bugs.ledger import Ledger

DOCS = Path(__file__).parents[2] / "docs"
LEDGER = Ledger(DOCS / "bugs")
HEAD = """\
# Bugs found

Distinct true bugs that nnfuzz has found, by system. A script needs only the system, onnx and NumPy
(and onnxruntime for a model optimiser; nnfuzz, where one program runs several times). It exits
with 1, or crashes, as long as the bug exists.
`docs/bugs` is a [ledger](LEDGER.md), of which this page is made. These commands run every script in
a process of its own and list the bugs that remain:

    nnfuzz bugs check --ledger docs/bugs
    nnfuzz bugs check --ledger docs/bugs onnxruntime --release 1.20.1

The column of releases says where the scripts reproduce, and where they are right. In another
release, a script may fail for another reason than the bug, such as an opset that the release
refuses ("fails otherwise").
"""
_LOUD = re.compile(
    r"\b(wrong values|wrong dtype|wrong shape|SIGSEGV|SIGABRT|Segmentation fault|Hang)\b"
)


def page(bugs: Mapping[str, Bug]) -> str:
    """The text of the page for the bugs of a ledger: a table for each system."""
    parts = [HEAD]
    for system in sorted({bug.system for bug in bugs.values()}):
        own = {name: bug for name, bug in bugs.items() if bug.system == system}
        ways = sorted({f"`{bug.found_by}`" for bug in own.values() if bug.found_by})
        parts += [f"## {system}\n", *([f"By {', '.join(ways)}.\n"] if ways else [])]
        parts += ["| what | model | releases | |", "| --- | --- | --- | --- |"]
        for name, bug in own.items():
            parts.append(f"| {_what(bug)} | {bug.model} | {_releases(bug)} | {_links(name)} |")
        parts.append("")
    return "\n".join(parts)


def _what(bug: Bug) -> str:
    state = f" ({bug.state})" if bug.state in (BugState.FIXED, BugState.FLAKY) else ""
    return _LOUD.sub(r"**\1**", bug.title) + state


def _releases(bug: Bug) -> str:
    """The releases in which it was observed, and those without it."""
    shown = sorted(bug.releases, key=Version)
    bad = [r for r in shown if bug.releases[r] is ScriptResult.REPRODUCES]
    right = [r for r in shown if bug.releases[r] is ScriptResult.RIGHT]
    told = ", ".join(bad or [bug.last_bad_release])
    return told + (f"; right in {', '.join(right)}" if right else "")


def _links(name: str) -> str:
    place = LEDGER.place(name)
    files = (("repro", "repro.py"), ("report", "report.md"))
    return ", ".join(
        f"[{text}](bugs/{name}/{file})" for text, file in files if (place / file).is_file()
    )

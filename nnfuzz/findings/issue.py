"""A finding as an issue in the form of a tracker, and words by which to search for duplicates."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass

from nnfuzz.backend.issue_form import IssueForm
from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.target import CPU
from nnfuzz.findings import text
from nnfuzz.findings.report import platform_versions, symptom, tracker_report
from nnfuzz.findings.repro import failing_outcome
from nnfuzz.records.finding import Finding

MAX_BODY = 65_000
"""Characters: GitHub takes 65,536."""
MAX_SCRIPT = 30_000
"""Characters of the stand-alone script; a larger one is attached by hand."""
WORDS = 4
"""Words of a search: more of them find nothing."""
NO_ANSWER = "_No response_"


@dataclass(frozen=True)
class Issue:
    """search: words by which the same failure would be found. attachments: files to be added by
    hand.
    """

    repository: str
    title: str
    body: str
    search: str
    attachments: tuple[str, ...] = ()


def issue(finding: Finding, form: IssueForm, script: str, releases: str = "") -> Issue:
    """The issue for a finding.

    script: its repro.py, "" if there is none. releases: a sentence on those that have the bug.
    """
    parts = _parts(finding, script)
    if releases:
        parts["symptom"] += f"\n\n{text.inline(releases)}"
    sections = (
        f"### {heading}\n\n{content.format(**parts).strip() or NO_ANSWER}"
        for heading, content in form.sections
    )
    title = finding.signature.title.removeprefix(f"{finding.failure.backend}: ")
    attached = ("repro.py",) if len(script) > MAX_SCRIPT else ()
    body = text.trimmed("\n\n".join(sections) + "\n", MAX_BODY)
    return Issue(form.repository, f"{form.prefix}{title}", body, search_words(finding), attached)


def _parts(finding: Finding, script: str) -> dict[str, str]:
    outcome = failing_outcome(finding)
    stated = {**finding.versions, **platform_versions()}
    versions = {str(text.inline(n)): str(text.inline(v)) for n, v in stated.items()}
    named = ("platform", "processor")
    error = ""
    if outcome is not None and finding.failure.kind is not OutcomeKind.MISMATCH:
        reason = outcome.traceback or outcome.message
        error = text.fenced("\n".join(t for t in (reason, outcome.captured) if t))
    return {
        "symptom": symptom(finding, outcome),
        "report": _below_headings(tracker_report(finding)),
        "repro": _script(script),
        "error": error,
        "versions": "\n".join(f"- {k} {v}" for k, v in versions.items() if k not in named),
        "platform": ", ".join(versions[n] for n in named if n in versions) or platform.platform(),
        "expected": _expected(finding),
        "device": (outcome.target.device if outcome else CPU).upper(),
        "machine": platform.machine(),
    }


def _expected(finding: Finding) -> str:
    if finding.failure.kind is OutcomeKind.MISMATCH:
        return "Outputs inside of the accepted interval, which the report below explains."
    return "The model is valid ONNX: it compiles and runs, or an error says what is not supported."


def _below_headings(report: str) -> str:
    """The report without its title, its headings below those of the form."""
    body = re.sub(r"\A# .*\n+", "", report)
    return re.sub(r"^(#+) ", r"##\1 ", body, flags=re.MULTILINE).strip()


def _script(script: str) -> str:
    if not script:
        return ""
    if len(script) > MAX_SCRIPT:
        return "See the attached repro.py, whose first lines say what it needs."
    return f"This script shows it; its first lines say what it needs:\n\n{_fence(script)}"


def _fence(script: str) -> str:
    return text.fenced(script, "python", MAX_SCRIPT + 1)


def search_words(finding: Finding) -> str:
    """Operators of the model, then words of the complaint or of the kind of failure."""
    outcome = failing_outcome(finding)
    complaint = outcome.complaint.subject if outcome and outcome.complaint else ""
    words = [*finding.case.graph.operators[:2], *re.findall(r"[A-Za-z_]{4,}", complaint)]
    distinct = dict.fromkeys(words or [finding.failure.kind.value])
    return " ".join(list(distinct)[:WORDS])

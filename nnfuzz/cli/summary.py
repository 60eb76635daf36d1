"""The text on the terminal at the end of a campaign; templates have the words."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnfuzz.cli.values import spoken
from nnfuzz.feedback.throttle import by_operator
from nnfuzz.findings.text import environment
from nnfuzz.records.observer import counted

if TYPE_CHECKING:
    from nnfuzz.campaign.session import CampaignResult
    from nnfuzz.records.config import CampaignConfig
    from nnfuzz.records.rows import FindingRow
    from nnfuzz.store.summary import Summary

MOST_ROWS = 40
MOST_NAMED = 3
WHY = {
    "generate": " (no graph)",
    "inputs": " (no inputs that PyTorch computes with)",
    "export": " (the exporter failed)",
    "fault": " (faults of nnfuzz)",
}
COMPARED = ("ok", "mismatch")
"""The outcomes of runs whose outputs were compared."""


def summary_text(result: CampaignResult, config: CampaignConfig) -> str:
    """Outcomes, notes, findings, the places of files, and the next commands."""
    s = result.summary
    return _rendered(
        "summary.txt.jinja",
        result.folder,
        result.findings,
        s=s,
        config=config,
        why=WHY,
        compared_any=_any_compared(s),
        avoided=by_operator(s.avoided),
    )


def findings_text(folder: Path, findings: Sequence[FindingRow]) -> str:
    """Some lines for each finding, in the given order."""
    return _rendered("findings.txt.jinja", folder, findings)


def _rendered(template: str, folder: Path, findings: Sequence[FindingRow], **more: Any) -> str:
    return (
        environment()
        .get_template(template)
        .render(
            folder=folder,
            findings=findings,
            most=MOST_ROWS,
            counted=counted,
            spoken=spoken,
            few=_few,
            kinds=_kinds,
            named_counts=_named_counts,
            quote=lambda path: shlex.quote(str(path)),
            **more,
        )
    )


def _any_compared(summary: Summary) -> bool:
    """Whether some run gave outputs to compare, or none was to give any."""
    counts = summary.outcomes_by_backend.values()
    return summary.refusals is not None or any(c.get(kind) for c in counts for kind in COMPARED)


def _kinds(rows: Iterable[FindingRow]) -> str:
    counts = Counter(row.kind for row in rows)
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


def _named_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {count}" for kind, count in counts.items())


def _few(names: Iterable[str]) -> str:
    """The first of some names."""
    listed = list(names)
    return ", ".join([*listed[:MOST_NAMED], *(["..."] if listed[MOST_NAMED:] else [])])

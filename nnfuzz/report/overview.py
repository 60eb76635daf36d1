"""One Markdown page about the findings of a campaign, with links into their folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from nnfuzz.report.finding import Finding
from nnfuzz.report.finding_folder import FindingError, list_findings, read_finding
from nnfuzz.report.repro import environment

FINDINGS = "findings"
REDUCED = "reduced"


def campaign_overview(campaign: str | Path) -> str:
    """The findings below CAMPAIGN/findings by party, reduced ones where there are any.

    Folders that cannot be read are listed, not skipped. Links are relative to the campaign.
    """
    campaign = Path(campaign)
    rows: dict[str, list[dict[str, Any]]] = {}
    damaged: list[str] = []
    for folder in list_findings(campaign / FINDINGS):
        try:
            finding = read_finding(folder)
            rows.setdefault(finding.failure.backend, []).append(_row(finding, folder, campaign))
        except FindingError as error:
            damaged.append(str(error))
    return (
        environment()
        .get_template("campaign.md.jinja")
        .render(
            name=campaign.resolve().name,
            findings=[row for group in rows.values() for row in group],
            groups=[
                {"party": party, "rows": sorted(group, key=lambda row: row["title"])}
                for party, group in sorted(rows.items())
            ],
            tests=_tests(campaign),
            damaged=damaged,
        )
    )


def _row(finding: Finding, folder: Path, campaign: Path) -> dict[str, Any]:
    reduced = folder / REDUCED
    shown = reduced if (reduced / "finding.json").is_file() else folder
    graph = read_finding(shown).case.graph if shown is reduced else finding.case.graph
    return {
        "hash": finding.signature.hash,
        "title": finding.signature.title,
        "nodes": len((graph or {}).get("nodes", ())),
        "levels": ", ".join(finding.failure.levels),
        "link": quote((shown / "report.md").relative_to(campaign).as_posix()),
    }


def _tests(campaign: Path) -> int | None:
    """How many tests the campaign has run, where its summary says so."""
    try:
        return int(json.loads((campaign / "summary.json").read_text(encoding="utf-8"))["tests"])
    except (OSError, ValueError, KeyError, TypeError):
        return None

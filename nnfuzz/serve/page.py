"""One self-contained HTML page about a campaign: it loads nothing and works from disk.

Jinja escapes all text of compilers. If that should ever fail, the page's content security policy
still forbids all other scripts and every request.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

from markupsafe import Markup

from nnfuzz.base.reading import Json, JsonObject, Unreadable
from nnfuzz.base.text import visible
from nnfuzz.base.untrusted import MAX_TEXT_BYTES, below, read_bytes
from nnfuzz.findings.folder import read_finding, smallest
from nnfuzz.invalid.fault import WORST_FIRST
from nnfuzz.records.finding import Finding
from nnfuzz.report import text
from nnfuzz.report.draw import draw
from nnfuzz.report.numbers import summarised, whole_arrays
from nnfuzz.report.page_figures import CLASSES, MAX_POINTS, CampaignFigures, TestLine, failed_share
from nnfuzz.report.repro import failing_outcome
from nnfuzz.report.templating import environment
from nnfuzz.report.tracker import level_row, symptom

MAX_TEXT = 20_000
"""Characters of a file that the page shows."""
MAX_NODES = 80
"""A graph with more nodes is not drawn."""
FILTERS = ("backend", "kind", "stage", "level", "accused")
_MERGED = MappingProxyType(
    {"by_levels": {}, "refined": "", "pattern": "", "duplicates": (), "suspects": (), "alike": ()}
)
"""Entries of a row that is not reduced."""


@dataclass(frozen=True)
class CampaignPage:
    """The content of the page. findings: a dict for each, with signature, title, kind, stage,
    backend, level ("O0,O3"), party, folder (below the campaign's), occurrences, test and
    found_at (seconds); once reduced also by_levels, refined, pattern, duplicates, suspects and
    variants (see nnfuzz.records.rows.FindingRow). summary: as summary.json. unsupported: refused
    signature -> reason. events: kind -> number. missing: parts of the campaign that cannot be read;
    complete once the tests are read. began: time of the first session, for people; "" if unknown.
    """

    folder: Path
    summary: Mapping[str, Json]
    findings: Sequence[Mapping[str, Json]]
    tests: Iterable[TestLine]
    unsupported: Mapping[str, str]
    events: Mapping[str, int]
    missing: list[str] = field(default_factory=list)
    began: str = ""


def campaign_page(campaign: CampaignPage, out: Path) -> str:
    """The HTML of the page. out: the file it is written to; links are relative to it."""
    figures = CampaignFigures(campaign.summary["seconds"])
    for test in campaign.tests:
        figures.add(test)

    def link(folder: Path) -> str:
        return _link(folder, out)

    findings = [finding_row(row, campaign.folder, link) for row in campaign.findings]
    found_at = [float(row["found_at"]) for row in campaign.findings]
    filters = {key: sorted({row[key] for row in findings} - {""}) for key in FILTERS}
    if faults := sorted({row["fault"] for row in findings if row["fault"]}):
        filters["fault"] = faults
    script = page_script("page.js.jinja")
    return (
        environment(html=True)
        .get_template("page.html.jinja")
        .render(
            name=campaign.folder.resolve().name,
            began=campaign.began,
            summary=campaign.summary,
            config=json.dumps(campaign.summary.get("config"), indent=1),
            findings=findings,
            filters=filters,
            answers=answers(campaign.summary.get("refusals", {})),
            unsupported=sorted(campaign.unsupported.items()),
            events=campaign.events,
            missing=list(dict.fromkeys(campaign.missing)),
            script=Markup(script),
            script_hash=script_hash(script),
            **figures_content(figures, found_at, campaign.summary["seconds"]),
            **operators_content(figures),
        )
    )


def figures_content(
    figures: CampaignFigures, found_at: Iterable[float], seconds: float
) -> dict[str, object]:
    """Content of figures.html.jinja. found_at: times of findings. seconds: of the campaign."""
    return {
        "timeline": figures.occurred(),
        "bin_seconds": figures.width,
        "discoveries": _discoveries(sorted(found_at), seconds),
        "curves": {name: g.points() for name, g in figures.curves.items() if g.tests},
    }


def operators_content(figures: CampaignFigures) -> dict[str, object]:
    """Content of operators.html.jinja."""
    return {"backends": figures.backends(), "heat": _heat(figures)}


def answers(refusals: Mapping[str, Mapping[str, Mapping[str, int]]]) -> dict[str, object]:
    """The table of answers to invalid models.

    refusals: as in summary.json. heads: the answers that occur, the worst first. rows: (kind of
    fault, backend, number of tests for each answer).
    """
    every = [counts for backends in refusals.values() for counts in backends.values()]
    heads = [answer for answer in WORST_FIRST if any(counts.get(answer) for counts in every)]
    rows = [
        (kind, backend, [counts.get(answer, 0) for answer in heads])
        for kind, backends in refusals.items()
        for backend, counts in backends.items()
    ]
    return {"heads": heads, "rows": rows}


def plain_row(row: Mapping[str, Json]) -> JsonObject:
    """A row of the table of findings, without details from its folder. row: see Campaign."""
    whole_row = {**_MERGED, **row, "level": row["level"].replace(",", ", ")}
    whole_row["variants"] = [dict(variant) for variant in row.get("variants", ())]
    whole_row |= {"merged": len(whole_row["duplicates"]), "detail": None, "damage": "", "files": []}
    whole_row |= {"fault": "", "accused": row["party"]}
    return {**whole_row, "about": _about(whole_row)}


def finding_row(row: Mapping[str, Json], campaign: Path, link: Callable[[Path], str]) -> JsonObject:
    """A row of the table of findings with details from its folder. link: folder -> its link."""
    folder, details = campaign / row["folder"], plain_row(row)
    for variant in details["variants"]:
        variant["link"] = link(campaign / variant["folder"])
    try:
        below(campaign, row["folder"])
        whole = read_finding(folder)
        best = smallest(folder)
        details["detail"] = _detail(whole if best == folder else read_finding(best), whole, best)
        details["link"] = link(best)
        if accused := details["detail"]["accused"]:
            details["accused"] = accused["party"]
            details["about"] += f" {accused['party'].lower()}"
        details["fault"] = whole.case.fault.kind if whole.case.fault else ""
    except Unreadable as error:
        details["damage"] = str(error)
    return details


def _about(row: Mapping[str, Json]) -> str:
    """Text that a search reads: names of the finding and its variants, not its files."""
    own = (row[key] for key in ("title", "pattern", "signature", "refined", "folder", "party"))
    facts = (row[key] for key in FILTERS)
    more = (v[key] for v in row["variants"] for key in ("pattern", "title", "folder"))
    return " ".join(
        [*own, *facts, *row["duplicates"], *row["suspects"], *row["alike"], *more]
    ).lower()


def _detail(finding: Finding, whole: Finding, folder: Path) -> dict[str, object]:
    nodes = [len(f.case.graph.nodes) for f in (finding, whole)]
    return {
        "symptom": markdown_line(symptom(finding, failing_outcome(finding))),
        "nodes": nodes[0],
        "nodes_before": nodes[1] if finding is not whole else None,
        "drawing": _drawing(finding),
        "levels": [level_row(finding, outcome) for outcome in finding.outcomes],
        "accused": _accused(finding),
        "arrays": whole_arrays(finding) or text.trimmed(summarised(finding), MAX_TEXT),
        "releases": [
            f"{bisection.compiler} {bisection.result}" for bisection in finding.origin.bisection
        ],
        "files": [(name, shown_file(folder / name)) for name in ("repro.py", "report.md")],
    }


def _drawing(finding: Finding) -> Markup | None:
    graph = finding.case.graph
    if not graph or len(graph.nodes) > MAX_NODES:
        return None
    try:
        return Markup(draw(graph, style=False))  # draw escapes
    except (KeyError, TypeError, ValueError):
        return None


def _accused(finding: Finding) -> dict[str, object] | None:
    """The accused party, with evidence and ablations; None if no party is accused."""
    if finding.localisation:
        return {"ablation": (), **finding.localisation}
    blame = finding.blame
    if not blame.accused:
        return None
    return {"party": blame.accused, "evidence": [blame.evidence], "ablation": ()}


def shown_file(path: Path) -> str:
    """The text of a file as a page shows it; "" if it cannot be read."""
    try:
        data = read_bytes(below(path.parent, path.name), MAX_TEXT_BYTES)
        return text.trimmed(visible(data.decode(errors="replace")), MAX_TEXT)
    except Unreadable:
        return ""


def _link(folder: Path, out: Path) -> str:
    """The address of a folder relative to the page; "./" keeps it from looking like a scheme."""
    path = os.path.relpath(folder.resolve(), out.resolve().parent)
    return "./" + quote(Path(path).as_posix()) + "/"


def _discoveries(times: Sequence[float], seconds: float) -> list[tuple[float, float]]:
    """(seconds, number of unique findings so far) as a staircase. times: sorted."""
    if not times:
        return []
    stride = -(-len(times) // MAX_POINTS)
    points = [(0.0, 0.0)]
    for count in range(stride, len(times) + 1, stride):
        at = times[count - 1]
        points += [(at, points[-1][1]), (at, float(count))]
    return [*points, (max(seconds, times[-1]), float(len(times)))]


def _heat(figures: CampaignFigures) -> list[dict[str, object]]:
    rows = []
    for op in figures.operators():
        cells = [figures.heat[op].get(backend, Counter[str]()) for backend in figures.backends()]
        rows.append(
            {
                "op": op,
                "tests": figures.occurrences[op],
                "cells": [
                    {"share": failed_share(cell), "counts": [cell.get(c, 0) for c in CLASSES]}
                    for cell in cells
                ],
            }
        )
    return rows


def markdown_line(line: str) -> Markup:
    """The inline Markdown that nnfuzz.report writes (code, emphasis, escapes), as HTML."""
    from markdown_it import MarkdownIt

    marks = ["escape", "backticks", "emphasis"]
    return Markup(MarkdownIt("zero").enable(marks).renderInline(line))


def page_script(name: str) -> str:
    """A page's script and the one that all pages have, inserted without escaping."""
    env = environment(html=True)
    assert env.loader
    return "".join(env.loader.get_source(env, part)[0] for part in ("copy.js.jinja", name))


def script_hash(script: str) -> str:
    """Base64 of the script's SHA-256, which the content security policy admits."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

"""One self-contained HTML page about a campaign, written once or again while the campaign runs.

The page loads nothing and works from disk. Jinja escapes all text of compilers. If that should ever
fail, the page's content security policy still forbids all other scripts and every request.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.base.reading import JsonObject, Unreadable
from nnfuzz.base.text import visible
from nnfuzz.base.untrusted import (
    MAX_TEXT_BYTES,
    as_far_as,
    below,
    read_bytes,
    whole_or,
)
from nnfuzz.findings import text
from nnfuzz.findings.drawing import drawing
from nnfuzz.findings.folder import read_finding, smallest
from nnfuzz.findings.heat import heat_maps
from nnfuzz.findings.repro import failing_outcome, output_of_finding
from nnfuzz.findings.text import environment, seconds
from nnfuzz.records.finding import Finding
from nnfuzz.records.rows import FindingRow
from nnfuzz.store.statistics import Statistics
from nnfuzz.store.store import FILE, Store
from nnfuzz.store.summary import SUMMARY, Summary
from nnfuzz.triage.severity import Severity

MAX_TEXT = 20_000
"""Characters of a file that the page shows."""
SILENT = 60.0
"""Seconds without a record after which a campaign is called silent."""
PAUSE, SHARE = 2.0, 0.1
"""Fewest seconds between two looks at a campaign that runs, and the share of a core they may take.
"""
ENDED = "ended"
FILTERS = ("backends", "severity", "kind", "stage", "level", "accused", "fault")


@dataclass(frozen=True)
class CampaignPage:
    """The content of the page.

    began: time of the first session, for people; "" if unknown. state: of a live page ("running",
    "ended", "silent for 5 min"); "" of one that is written once. findings: the fields of each
    FindingRow, with what CampaignReader adds. unsupported: refused signature ->
    reason. events: kind -> number. missing: parts of the campaign that cannot be read.
    """

    name: str
    began: str
    state: str
    summary: Summary
    findings: Sequence[JsonObject]
    unsupported: Mapping[str, str]
    events: Mapping[str, int]
    missing: Sequence[str]


class CampaignReader:
    """Reads the content of a page, each test and each folder of a finding once.

    out: file that the page is written to; links are relative to it. least: the least grave findings
    that are shown. Raises: StoreError if there is no campaign.
    """

    def __init__(self, campaign: Path, out: Path, least: Severity = Severity.ZEROS) -> None:
        self._campaign, self._out, self._least = campaign, out, least
        self._statistics, self._last = Statistics(), (0.0, -1)
        self._folders: dict[str, tuple[int, JsonObject]] = {}
        self._began = 0.0

    def read(self, live: bool = False) -> CampaignPage:
        """live: whether the page is made again while the campaign runs. Raises: Unreadable."""
        missing: list[str] = []
        with Store.open(self._campaign, write=False) as store:
            rows = store.tests.recorded_after(*self._last)
            for at, row in as_far_as(rows, "the tests and their graphs", missing):
                self._statistics.add(row)
                self._last = (at, row.index)
            found: list[FindingRow] = whole_or([], store.findings, "the findings", missing)
            found = [row for row in found if self._least.admits(row.severity)]
            config = whole_or({}, lambda: dict(store.config()), "the settings", missing)
            events = whole_or({}, store.events.counts, "the events", missing)
            buckets = whole_or({}, store.occurrences.buckets, "the counts of failures", missing)
            began = whole_or((), store.sessions.rows, "the sessions", missing)
            first, self._began = (began[0].started, began[-1].started) if began else (0.0, 0.0)
            summary = Summary.of(
                self._statistics,
                found,
                whole_or(0.0, store.sessions.seconds_in_all, "the time", missing),
                whole_or({}, store.sessions.sut_shares, "the time in compilers", missing),
                merged=sum(len(row.duplicates) for row in found),
                versions=whole_or({}, lambda: store.meta("versions", {}), "the versions", missing),
                seed=config.get("seed"),
                config=config,
            )
            return CampaignPage(
                name=self._campaign.resolve().name,
                began=f"{datetime.fromtimestamp(first, UTC):%Y-%m-%d %H:%M}" if first else "",
                state=self.state()[0] if live else "",
                summary=summary,
                findings=[self._finding(row) for row in found],
                unsupported=whole_or({}, store.restraints.reasons, "the refusals", missing),
                events={**events, **{k: n for k, n in buckets.items() if k != "finding"}},
                missing=list(dict.fromkeys(missing)),
            )

    def state(self) -> tuple[str, float]:
        """The state as the page names it, and when something was recorded last (since 1970), by the
        times of files; taking the lock to know might keep a session from it. Raises: OSError.
        """
        files = self._campaign / FILE, self._campaign / f"{FILE}-wal"
        last = max((path.stat().st_mtime for path in files if path.exists()), default=0.0)
        summary, silent = self._campaign / SUMMARY, time.time() - last
        if summary.exists() and summary.stat().st_mtime > self._began:  # it is written at the end
            return ENDED, last
        return "running" if silent < SILENT else f"silent for {seconds(silent)}", last

    def follow(self) -> Iterator[CampaignPage]:
        """Yields the content whenever something has changed, until the campaign has ended. Raises:
        as `read`.
        """
        shown: object = None
        while True:
            began, now = time.monotonic(), self.state()
            if now != shown:
                page, shown = self.read(live=True), now
                yield page
                if page.state == ENDED:
                    return
            took = time.monotonic() - began
            time.sleep(max(PAUSE, took * (1 - SHARE) / SHARE))

    def _finding(self, row: FindingRow) -> JsonObject:
        """A finding as the page shows it, from its row and its folder. The search reads `about`."""
        folder = self._of_folder(row.folder)
        entry: JsonObject = {**vars(row), "merged": row.others_in_words, **folder}
        entry |= {"level": row.level.replace(",", ", "), "accused": folder["accused"] or row.party}
        words = [row.title, row.signature, row.folder, row.party, row.cause, row.pattern]
        words += [*row.others, *(v for n in FILTERS for v in _values(entry, n))]
        return {**entry, "about": " ".join(words).lower()}

    def _of_folder(self, name: str) -> JsonObject:
        """What a folder has of its finding, read again if something was added to it. damage: why it
        cannot be read, or "".
        """
        folder = self._campaign / name
        changed = folder.stat().st_mtime_ns if folder.exists() else 0
        if self._folders.get(name, (-1,))[0] != changed:
            entry: JsonObject = {"damage": "", "accused": "", "fault": "", "link": self._link(name)}
            try:
                entry |= self._read_folder(below(self._campaign, name))
            except Unreadable as error:
                entry["damage"] = str(error)
            self._folders[name] = (changed, entry)
        return self._folders[name][1]

    def _read_folder(self, folder: Path) -> JsonObject:
        best = smallest(folder)
        finding = read_finding(best)
        fault = finding.case.fault
        return {
            "accused": (finding.localisation or {}).get("party") or finding.blame.accused or "",
            "evidence": "" if finding.localisation else finding.blame.evidence,
            "fault": fault.kind if fault else "",
            "link": self._link(os.path.relpath(best, self._campaign)),
            **picture(finding),
            "report": report_html(_shown_file(best, "report.md")),
            "script": _shown_file(best, "repro.py"),
        }

    def _link(self, folder: str) -> str:
        """The address of a folder of the campaign, relative to the page; "./" keeps it from looking
        like a scheme.
        """
        place = (self._campaign / folder).resolve()
        path = os.path.relpath(place, self._out.resolve().parent)
        return "./" + quote(Path(path).as_posix()) + "/"


def html_of(page: CampaignPage) -> str:
    """The text of the page."""
    env = environment(html=True)
    assert env.loader
    script, _, _ = env.loader.get_source(env, "page.js.jinja")
    filters = {
        name: sorted({v for row in page.findings for v in _values(row, name)}) for name in FILTERS
    }
    return env.get_template("page.html.jinja").render(
        **vars(page),
        config=json.dumps(page.summary.config, indent=1),
        filters={name: values for name, values in filters.items() if values},
        kinds=[kind for kind in OutcomeKind if page.summary.outcomes.get(kind)],
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _values(row: JsonObject, name: str) -> Sequence[str]:
    """Values of a finding for a filter; it may occur under several labels of a compiler."""
    return row[name] if name == "backends" else [row[name]] if row[name] else []


def picture(finding: Finding) -> JsonObject:
    """drawing: the graph, with the node of the first wrong value marked; heat: the maps of the
    wrong output, called output. None for what cannot be drawn.
    """
    wrong, outcome = output_of_finding(finding), failing_outcome(finding)
    output = wrong.output if wrong else ""
    first = str((finding.localisation or {}).get("value", "")) or output
    returned = (outcome.outputs if outcome else None) or {}
    heat = None
    with contextlib.suppress(KeyError, TypeError, ValueError):
        heat = heat_maps(finding.case.expected[output], returned[output])
    return {"drawing": drawing(finding.case.graph, first), "heat": heat, "output": output}


def _shown_file(folder: Path, name: str) -> str:
    """The text of a file as a page shows it; "" if it cannot be read."""
    try:
        data = read_bytes(below(folder, name), MAX_TEXT_BYTES)
        return text.trimmed(visible(data.decode(errors="replace")), MAX_TEXT)
    except Unreadable:
        return ""


def report_html(source: str) -> Markup:
    """A report.md without its title as HTML, in which links and HTML of the text stay text."""
    from markdown_it import MarkdownIt

    inert = ["link", "image", "autolink", "html_inline", "html_block", "reference"]
    parser = MarkdownIt("commonmark").enable("table").disable(inert)
    tokens = parser.parse(source)
    for token in tokens:
        if token.type.startswith("heading"):
            token.tag = "h3"
    title = 3 if tokens and tokens[0].type == "heading_open" else 0
    return Markup(parser.renderer.render(tokens[title:], parser.options, {}))

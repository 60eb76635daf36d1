"""One self-contained HTML page about a campaign, written once or served while the campaign runs.

The page loads nothing and works from disk. Jinja escapes all text of compilers. If that should ever
fail, the page's content security policy still forbids all other scripts, and every request but
those for the page itself while it is live.

A foreign page in the same browser may let its own host name point to this machine (DNS rebinding)
and could then read a page that is served as its own. So a request has to name this machine as
OWN_NAMES do.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, unquote

from markupsafe import Markup

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.base.reading import JsonObject, Unreadable
from nnfuzz.base.text import visible
from nnfuzz.base.untrusted import (
    MAX_TEXT_BYTES,
    as_far_as,
    below,
    making_sense,
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
from nnfuzz.store.database import FOLDERS
from nnfuzz.store.statistics import Statistics
from nnfuzz.store.store import FILE, Store
from nnfuzz.store.summary import SUMMARY, Summary
from nnfuzz.triage.severity import Severity

MAX_TEXT = 20_000
"""Characters of a file that the page shows."""
SILENT = 60.0
"""Seconds without a record after which a campaign is called silent."""
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
            return "ended", last
        return "running" if silent < SILENT else f"silent for {seconds(silent)}", last

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


PAUSE = 2.0
"""Fewest seconds between two looks at the campaign, or for readers while descriptors are short."""
SHARE = 0.1
"""Share of a core that looking takes."""
HOST = "127.0.0.1"
OWN_NAMES = ("localhost", HOST)
GONE = "not to be read"
_SANDBOX = "default-src 'none'; sandbox allow-downloads"
TEXTS = (".md", ".py", ".json", ".txt")
"""Types of files that a browser shows; it saves other ones."""


class LivePage:
    """The page of a campaign as it is now. Raises: StoreError if there is no campaign."""

    def __init__(self, campaign: Path) -> None:
        self.campaign = campaign
        self._reader = CampaignReader(campaign, campaign / "index.html")
        self._page = self._reader.read(live=True)
        self._shown: object = None
        self.look()

    def look(self) -> None:
        """Makes the page again if something has changed; one that cannot be read any more stays,
        with the reason.
        """
        try:
            with making_sense(self.campaign):
                if (now := self._reader.state()) == self._shown:
                    return
                self._page, self._shown = self._reader.read(live=True), now
        except Unreadable as error:  # being replaced or damaged, or its disk is gone
            self._page, self._shown = replace(self._page, state=GONE, missing=[str(error)]), None
        self.html = html_of(self._page).encode("utf-8", errors="replace")

    def run(self, stop: threading.Event) -> None:
        """Looks until `stop` is set."""
        while not stop.is_set():
            began = time.monotonic()
            self.look()
            took = time.monotonic() - began
            stop.wait(max(PAUSE, took * (1 - SHARE) / SHARE))


class Server(ThreadingHTTPServer):
    """A server that listens at a port; 0: any that is free. Raises: Unreadable."""

    daemon_threads = True

    def __init__(self, page: LivePage, port: int) -> None:
        self.page = page
        try:
            super().__init__((HOST, port), Handler)
        except OSError as error:
            raise Unreadable(
                f"{HOST}:{port} cannot be served ({error.strerror}): choose another --port"
            ) from error

    def get_request(self) -> tuple[Any, Any]:
        """Raises: OSError, after a pause: readers wait in a queue while no descriptor is free."""
        try:
            return super().get_request()
        except OSError:
            time.sleep(PAUSE)
            raise

    def handle_error(self, request: object, client_address: object) -> None:
        """Prints nothing: a reader that has gone is no news."""


class Handler(SimpleHTTPRequestHandler):
    """Answers GET and HEAD for the page, and for the files of its findings."""

    server: Server
    timeout = 10.0  # seconds that a reader may be silent
    server_version, sys_version = "nnfuzz", ""

    def send_head(self) -> IO[bytes] | None:  # type: ignore[override]
        """Sends the headers and returns the body, if any."""
        path = self.path.partition("?")[0]
        if self.headers.get("Host", "").partition(":")[0].lower() not in OWN_NAMES:
            self.send_error(421, "this server has another name")
            return None
        if path == "/":
            return self._page(self.server.page.html)
        if os.path.isdir(place := self.translate_path(path)) and path.endswith("/"):
            return self.list_directory(place)
        return super().send_head()

    def _page(self, html: bytes) -> IO[bytes] | None:
        tag = f'"{hashlib.sha256(html).hexdigest()}"'
        same = self.headers.get("If-None-Match") == tag
        self.send_response(304 if same else 200)
        self.send_header("ETag", tag)
        if not same:
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(html)))
        self.end_headers()
        return None if same else BytesIO(html)

    def end_headers(self) -> None:
        if getattr(self, "path", "/").partition("?")[0] != "/":
            self.send_header("Content-Security-Policy", _SANDBOX)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Cache-Control", "no-store")
        super().end_headers()

    def translate_path(self, path: str) -> str:
        """The place of findings, or of something in them, by its address; "" for all else."""
        name = unquote(path.partition("?")[0]).removeprefix("/")
        with contextlib.suppress(Unreadable):
            place = below(self.server.page.campaign, name)
            if name.partition("/")[0] in FOLDERS and (place.is_file() or place.is_dir()):
                return str(place)
        return ""

    def guess_type(self, path: Any) -> str:
        shown = str(path).endswith(TEXTS)
        return "text/plain; charset=utf-8" if shown else "application/octet-stream"

    def log_message(self, format: str, *args: Any) -> None:
        """Prints nothing."""


def serve(campaign: Path, port: int, note: Callable[[str], None]) -> None:
    """note: called with the address once the server answers.

    Raises: Unreadable, StoreError.
    """
    page, stop = LivePage(campaign), threading.Event()
    with Server(page, port) as server:
        note(f"http://{HOST}:{server.server_port}/")
        watching = threading.Thread(target=page.run, args=[stop], daemon=True)
        watching.start()
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
        stop.set()
        watching.join()

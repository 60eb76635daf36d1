"""The present state of a campaign, read repeatedly; nothing is written.

Each test is read once; findings are merged anew whenever the file has changed. A look is followed
by a pause of nine times its length, so that watching takes a tenth of a core.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from nnfuzz.base.index_set import IndexSet
from nnfuzz.base.reading import JsonObject, Unreadable
from nnfuzz.base.shard import Shard
from nnfuzz.base.untrusted import as_far_as, making_sense, whole_or
from nnfuzz.base.writing import as_json
from nnfuzz.parts.sources import SOURCES
from nnfuzz.records.rows import FindingRow
from nnfuzz.report.page_figures import CampaignFigures, TestLine
from nnfuzz.report.templating import environment, seconds
from nnfuzz.serve.findings import options
from nnfuzz.serve.page import figures_content, operators_content, plain_row
from nnfuzz.store.sessions import HOST
from nnfuzz.store.store import FILE, Store
from nnfuzz.store.summary import SUMMARY, PartFigures

AT_A_TIME = 1000
"""Tests that one look reads, in about half a second."""
LOOK_SECONDS = 2.0
"""Fewest seconds between two looks."""
SHARE = 0.1
"""Share of a core that watching takes once earlier tests are read."""
RECENT_SECONDS = 60.0
"""Seconds of the campaign over which its speed is averaged, and after which it is called silent if
nothing is written."""
MOST_SESSIONS = 10
MOST_GAPS = 500
"""Gaps between indexes that are read again; a part that is missing from a merged campaign leaves
more of them."""
_NOTHING = Markup()
GONE = "not to be read"
GIVEN_UP, REDUCED, WAITING = "not reducible", "reduced", "not reduced yet"


@dataclass(frozen=True)
class PageSnapshot:
    """The content of the live page.

    number: of the snapshot; it grows. listed, drawn: number of the first snapshot with the same
    findings, and of the first one with the same figures. state: "running", "ended", "silent for
    5 min". tiles: (name, value). rows: findings as of nnfuzz.serve.page.plain_row, with a status.
    folders: of all signatures, below the campaign's. growth, figures: HTML of growing numbers, and
    of figures over time. missing: parts that cannot be read.
    """

    number: int = 0
    listed: int = 0
    drawn: int = 0
    name: str = ""
    about: Mapping[str, object] = field(default_factory=dict)
    state: str = ""
    tiles: tuple[tuple[str, str], ...] = ()
    rows: tuple[JsonObject, ...] = ()
    folders: frozenset[str] = frozenset()
    growth: Markup = _NOTHING
    figures: Markup = _NOTHING
    missing: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The part that is sent to open pages."""
        return {
            "number": self.number,
            "listed": self.listed,
            "drawn": self.drawn,
            "state": self.state,
            "tiles": self.tiles,
            "filters": options(self.rows),
            "missing": self.missing,
        }


class Watch:
    """Watches the campaign in a folder; any thread may read `snapshot`.

    name: shown on the page. Raises: StoreError if there is no campaign.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.snapshot = PageSnapshot(name=name)
        self._lock = threading.Lock()
        self._figures = CampaignFigures(RECENT_SECONDS)
        self._outcomes: dict[str, Counter[str]] = {}
        self._latest: deque[float] = deque()
        self._stamp: object = None
        self._began = 0.0
        self._behind = True
        with Store.open(folder, write=False) as store:
            config = store.config()
            shard = str(config.get("shard") or "1/1")
        with making_sense(folder):
            self._read = IndexSet(part=Shard.parse(shard))

    def run(self, stop: threading.Event) -> None:
        """Looks until `stop` is set."""
        while not stop.is_set():
            began = time.monotonic()
            self.look()
            took = time.monotonic() - began
            stop.wait(took if self._behind else max(LOOK_SECONDS, took * (1 - SHARE) / SHARE))

    def look(self) -> None:
        """Reads new rows; the snapshot names what cannot be read."""
        try:
            with making_sense(self.folder):
                stamp = _stamp(self.folder)
                if stamp != self._stamp or self._behind:
                    with Store.open(self.folder, write=False) as store:
                        self._show(store, stamp)
                self._change(state=_state(self.folder, self._began))
        except Unreadable as error:  # being replaced or damaged, or its disk is gone
            self._stamp = None
            self._change(missing=(str(error),), state=GONE)

    def operators(self) -> str:
        """HTML of operators against backends."""
        with self._lock:
            content = operators_content(self._figures)
        return environment(html=True).get_template("operators.html.jinja").render(**content)

    def _show(self, store: Store, stamp: object) -> None:
        missing: list[str] = []
        now = self.snapshot
        if stamp != self._stamp:
            findings = whole_or([], store.findings, "the findings", missing)
            given_up = whole_or(set(), store.reductions.given_up, "the reductions", missing)
            rows = tuple(_row(row, given_up) for row in findings)
            folders = whole_or(frozenset(), store.signatures.folders, "the folders", missing)
            self._change(rows=rows, folders=folders, listed=now.listed + (rows != now.rows))
        with self._lock:
            self._behind = self._read_tests(store, missing)
        self._stamp = stamp
        self._draw(store, missing)

    def _read_tests(self, store: Store, missing: list[str]) -> bool:
        """Reads new tests; returns whether there are more of them."""
        part = "the tests and their graphs"
        for gap in self._read.gaps()[-MOST_GAPS:]:
            for index, line in as_far_as(store.lines(gap.start, gap.stop), part, missing):
                self._add(index, line)
        lines = store.lines(self._read.end, most=AT_A_TIME)
        found = list(as_far_as(lines, part, missing))
        for index, line in found:
            self._add(index, line)
        return len(found) == AT_A_TIME

    def _add(self, index: int, line: TestLine) -> None:
        if not self._read.add(index):
            return
        self._figures.widen(line.at)
        self._figures.add(line)
        self._latest.append(line.at)
        while self._latest[0] < self._latest[-1] - RECENT_SECONDS:
            self._latest.popleft()
        for backend, levels in line.outcomes.items():
            kinds = (brief.kind for brief in levels.values())
            self._outcomes.setdefault(backend, Counter()).update(kinds)

    def _draw(self, store: Store, missing: list[str]) -> None:
        now = self.snapshot
        wall = whole_or(0.0, store.sessions.seconds_before, "the time", missing)
        sessions = whole_or([], store.sessions.rows, "the sessions", missing)
        self._began = max((began for began, _, _ in sessions), default=0.0)
        found_at = [row["found_at"] for row in now.rows]
        content = {
            **figures_content(self._figures, found_at, wall),
            "outcomes": self._outcomes,
            "shares": whole_or({}, store.sessions.sut_shares, "the time in compilers", missing),
            "sources": whole_or([], lambda: self._sources(store), "the parts", missing),
            **_sessions(sessions),
        }
        config = whole_or({}, store.config, "the settings", missing)
        about = {
            "seed": config.get("seed"),
            "versions": whole_or({}, lambda: store.meta("versions", {}), "the versions", missing),
            "config": json.dumps(config, indent=1),
        }
        pages = environment(html=True)
        growth = Markup(pages.get_template("live_growth.html.jinja").render(**content))
        figures = Markup(pages.get_template("live_figures.html.jinja").render(**content))
        changed = (growth, figures) != (now.growth, now.figures)
        self._change(
            about=about,
            growth=growth,
            figures=figures,
            drawn=now.drawn + changed,
            tiles=tuple(self._tiles(store, wall, missing)),
            missing=tuple(dict.fromkeys(missing)),
        )

    def _sources(self, store: Store) -> list[dict[str, object]]:
        """The parts of a merged campaign, or the campaign itself."""
        parts = store.meta_as(dict[str, PartFigures], SOURCES, {})
        if store.meta(SOURCES) is None:
            shard, host = str(store.config().get("shard", "")), str(store.meta(HOST, ""))
            tests, seen = self._figures.tests, store.sessions.last_active()
            own = PartFigures(shard=shard, tests=tests, host=host, seen=seen)
            parts = {self.snapshot.name: own}
        rows = [
            {
                "name": name,
                "host": own.host,
                "part": own.shard or "1/1",
                "tests": own.tests,
                "last": _when(own.seen),
            }
            for name, own in parts.items()
        ]
        return sorted(rows, key=lambda row: (str(row["part"]), str(row["name"])))

    def _tiles(self, store: Store, wall: float, missing: list[str]) -> Iterable[tuple[str, str]]:
        rows, figures = self.snapshot.rows, self._figures
        span = min(RECENT_SECONDS, self._latest[-1] - self._latest[0]) if self._latest else 0.0
        yield "unique findings", f"{len(rows):,}"
        yield "signatures merged", f"{sum(row['merged'] for row in rows):,}"
        yield "occurrences", f"{sum(row['occurrences'] for row in rows):,}"
        yield "tests" + (", still reading" if self._behind else ""), f"{figures.tests:,}"
        yield "wall time", seconds(wall)
        yield "tests per second", f"{figures.tests / wall:.3g}" if wall else "0"
        yield "lately per second", f"{len(self._latest) / span:.3g}" if span else "0"
        events = whole_or({}, store.events.counts, "the events", missing)
        yield from ((f"{kind} events", f"{count:,}") for kind, count in events.items())

    def _change(self, **changes: Any) -> None:
        now = self.snapshot
        if any(getattr(now, name) != value for name, value in changes.items()):
            self.snapshot = replace(now, number=now.number + 1, **changes)


def _row(row: FindingRow, given_up: Iterable[str]) -> dict[str, object]:
    status = GIVEN_UP if row.signature in given_up else WAITING
    plain = {**plain_row(as_json(row)), "status": REDUCED if row.refined else status}
    return {**plain, "about": f"{plain['about']} {plain['status']}"}


def _sessions(rows: Sequence[tuple[float, float, int]]) -> dict[str, object]:
    """The latest sessions, and the number of others."""
    latest = [
        {
            "began": _when(began),
            "seconds": lasted,
            "workers": workers,
            "last": _when(began + lasted),
        }
        for began, lasted, workers in rows[-MOST_SESSIONS:]
    ]
    return {"sessions": latest[::-1], "more": len(rows) - len(latest)}


def _when(moment: float) -> str:
    """A moment (seconds since 1970) for people; it does not depend on when they read it."""
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S}" if moment else "never"


def _stamp(folder: Path) -> object:
    """A value that changes when the database is written."""
    found = []
    for name in (FILE, f"{FILE}-wal"):
        path = folder / name
        if path.exists():
            about = path.stat()
            found.append((about.st_ino, about.st_mtime_ns, about.st_size))
    return found


def _state(folder: Path, began: float) -> str:
    """The state, from the times of files; taking the lock to know might keep a session from it.

    began: the last session, at whose end the summary is written.
    """
    summary = folder / SUMMARY
    if summary.exists() and summary.stat().st_mtime > began:
        return "ended"
    paths = (folder / FILE, folder / f"{FILE}-wal")
    silent = time.time() - max(path.stat().st_mtime for path in paths if path.exists())
    return "running" if silent < RECENT_SECONDS else f"silent for {seconds(silent)}"

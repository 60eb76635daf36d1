"""The dashboard of a ledger: static files that any web server has, and that open from the disk.

OUT/index.html, OUT/pages/SYSTEM/NAME.html for each bug, OUT/bugs.json, OUT/feed.xml.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from markupsafe import Markup
from packaging.version import Version

from nnfuzz.base.files import write_atomically
from nnfuzz.bugs.bug import FILE, Bug, BugError, read_bug
from nnfuzz.bugs.history import events, events_of, release_changes
from nnfuzz.bugs.ledger import Ledger
from nnfuzz.bugs.results import bugs_json
from nnfuzz.bugs.turns import Turn, read_state
from nnfuzz.report.templating import environment
from nnfuzz.serve.atom import atom_feed
from nnfuzz.serve.ledger_rows import bug_rows, filters_of, open_counts, page_of, trends
from nnfuzz.serve.page import page_script, script_hash, shown_file

INDEX, DATA, FEED, PAGES = "index.html", "bugs.json", "feed.xml", "pages"


@dataclass(frozen=True)
class LedgerContent:
    """All that a dashboard shows. problems: lines about what cannot be read."""

    ledger: Ledger
    bugs: Mapping[str, Bug]
    turns: tuple[Turn, ...]
    problems: tuple[str, ...]
    today: date

    @property
    def title(self) -> str:
        return self.ledger.folder.resolve().name

    @classmethod
    def of(cls, ledger: Ledger, today: date) -> LedgerContent:
        """Reads a ledger; a bug with a mistake in its file becomes a line."""
        bugs, problems, turns = dict[str, Bug](), list[str](), tuple[Turn, ...]()
        for name in ledger.names():
            try:
                bugs[name] = read_bug(ledger.place(name) / FILE)
            except BugError as error:
                problems.append(str(error))
        try:
            turns = read_state(ledger).turns
        except BugError as error:
            problems.append(str(error))
        return cls(ledger, bugs, turns, tuple(problems), today)


def publish_ledger(ledger: Ledger, out: Path, today: date, address: str = "") -> LedgerContent:
    """Writes the dashboard; files that would not change stay as they are, and pages of bugs that
    are gone are removed.

    address: at which the files will be, for the links of the feed.
    Raises: BugError for a folder that holds something else, OSError.
    """
    if out.is_dir() and any(out.iterdir()) and not (out / DATA).is_file():
        raise BugError(f"{out} holds something that is no dashboard: name a new folder")
    content = LedgerContent.of(ledger, today)
    script = page_script("page.js.jinja")
    wanted = {out / PAGES / f"{name}.html" for name in content.bugs}
    _write(out / DATA, json.dumps(bugs_json(dict(content.bugs)), indent=1) + "\n")
    for name in content.bugs:
        _write(out / PAGES / f"{name}.html", bug_page(content, name, script))
    for old in (path for path in out.glob(f"{PAGES}/**/*.html") if path not in wanted):
        old.unlink()
    systems = {name: bug.system for name, bug in content.bugs.items()}
    feed = atom_feed(content.title, events(content.bugs), systems, address)
    _write(out / FEED, feed.decode())
    _write(out / INDEX, index_page(content, script))
    return content


def index_page(content: LedgerContent, script: str) -> str:
    """The HTML of the first page."""
    rows = bug_rows(content.bugs, content.today)
    states = {state: sum(r.state is state for r in rows) for state in {r.state for r in rows}}
    is_open = sum(row.life == "open" for row in rows)
    tiles = [("open", is_open), *sorted((str(s), n) for s, n in states.items())]
    return _rendered(
        "ledger.html.jinja",
        script,
        top="",
        title=content.title,
        today=content.today.isoformat(),
        tiles=tiles,
        problems=content.problems,
        rows=rows,
        filters=filters_of(rows),
        counts=open_counts(rows),
        changes=release_changes(content.bugs),
        pages={name: page_of(name) for name in content.bugs},
        trends=trends(content.turns),
    )


def bug_page(content: LedgerContent, name: str, script: str) -> str:
    """The HTML of the page of one bug."""
    bug, place = content.bugs[name], content.ledger.place(name)
    top = "../" * (1 + name.count("/"))
    return _rendered(
        "ledger_bug.html.jinja",
        script,
        top=top,
        title=bug.title,
        name=name,
        bug=bug,
        leader=top + page_of(bug.duplicate_of) if bug.duplicate_of else "",
        facts=_facts(bug),
        events=events_of(name, bug),
        releases=sorted(bug.releases.items(), key=lambda pair: Version(pair[0]), reverse=True),
        files=[(file, shown_file(place / file)) for file in ("repro.py", "report.md")],
    )


def _facts(bug: Bug) -> list[tuple[str, str]]:
    return [
        ("system", bug.system),
        ("releases", bug.releases_line),
        ("operators", ", ".join(bug.operators)),
        ("dtypes", ", ".join(bug.dtypes)),
        ("passes", ", ".join(bug.passes)),
        ("model", bug.model),
        ("found by", bug.found_by),
    ]


def _rendered(template: str, script: str, **content: object) -> str:
    given = {"script": Markup(script), "script_hash": script_hash(script), **content}
    return environment(html=True).get_template(template).render(given)


def _write(file: Path, text: str) -> None:
    data = text.encode("utf-8", "replace")
    if not (file.is_file() and file.read_bytes() == data):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, data)

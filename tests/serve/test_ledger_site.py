"""The dashboard of a ledger: its files, its escaping, and a thousand bugs in a browser."""

import html
import json
import re
import time
from dataclasses import replace
from datetime import date, timedelta

import pytest

from nnfuzz.bugs.bug import BugError, BugState, ScriptResult, bug_text
from nnfuzz.bugs.ledger import Ledger
from nnfuzz.bugs.turns import Turn, WatchState, write_state
from nnfuzz.serve.ledger_site import publish_ledger
from nnfuzz.serve.page import page_script, script_hash
from tests.bugs.conftest import BUG, ledger
from tests.report.browser import CHROMIUM, DRIVER, Browser
from tests.serve.conftest import EVIL

__all__ = ["ledger"]
TODAY = date(2026, 11, 23)
RIGHT, WRONG = ScriptResult.RIGHT, ScriptResult.REPRODUCES


@pytest.fixture
def site(ledger, tmp_path):
    """Publishes the ledger; returns the folder of the dashboard."""

    def publish():
        publish_ledger(ledger, tmp_path / "site", TODAY)
        return tmp_path / "site"

    return publish


def test_every_bug_has_a_page_with_its_history(ledger, site):
    noted = replace(BUG, notes=("2026-11-20 back in 2.0, was fixed in 1.5",))
    ledger.put("numpy/pow", replace(noted, releases={"1.5": RIGHT, "2.0": WRONG}))
    index = (site() / "index.html").read_text()
    assert 'href="pages/numpy/pow.html"' in index
    assert re.search(r"<tr><td>2\.0</td><td></td><td><a[^>]*>pow</a></td></tr>", index)
    page = (site() / "pages" / "numpy" / "pow.html").read_text()
    assert "back in 2.0, was fixed in 1.5" in page and 'href="../../index.html"' in page
    assert "print(&#39;O3: wrong&#39;)" in page
    assert list(json.loads((site() / "bugs.json").read_text())["bugs"]) == ["numpy/pow"]


def test_pages_of_bugs_that_are_gone_go_and_others_keep_their_bytes(ledger, site):
    ledger.add("numpy/other", BUG)
    page = site() / "pages" / "numpy" / "pow.html"
    before = page.stat().st_ino
    ledger.remove("numpy/other")
    site()
    assert [p.name for p in page.parent.iterdir()] == ["pow.html"]
    assert page.stat().st_ino == before


def test_what_strangers_write_stays_text(ledger, site):
    evil = replace(BUG, title=EVIL, kind=EVIL, operators=(EVIL,), notes=(EVIL,), found_by=EVIL)
    ledger.put("numpy/pow", replace(evil, upstream="https://x/%22onclick=1\"'<"))
    (ledger.place("numpy/pow") / "repro.py").write_text(EVIL)
    allowed = script_hash(page_script("page.js.jinja"))
    for file in (site() / "index.html", site() / "pages" / "numpy" / "pow.html"):
        text = file.read_text()
        assert EVIL not in text and text.count("<script>") == 1
        assert html.escape(EVIL).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in text
        assert f"script-src 'sha256-{allowed}'" in text


def test_a_damaged_bug_is_a_line_and_the_rest_is_there(ledger, site):
    ledger.add("numpy/other", BUG)
    (ledger.place("numpy/other") / "bug.toml").write_text("title = 1")
    (ledger.folder / "watch.json").write_text("{")
    index = (site() / "index.html").read_text()
    assert "system is missing" in index and "watch.json" in index and "numpy/pow" in index


def test_a_folder_of_something_else_is_refused(ledger, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(BugError, match="name a new folder"):
        publish_ledger(ledger, tmp_path, TODAY)


def thousand(folder):
    """A ledger with 1,000 bugs of five systems, and turns of a watch."""
    book, states = Ledger(folder), [s for s in BugState if s is not BugState.DUPLICATE]
    for number in range(1000):
        bug = replace(
            BUG,
            title=f"bug number {number} of Conv and Add in pass {number % 7}",
            system=f"system{number % 5}",
            state=states[number % len(states)],
            operators=(f"Op{number % 40}", "Add"),
            passes=(f"pass{number % 7}",),
            first_seen=(TODAY - timedelta(days=number)).isoformat(),
            notes=("2026-01-01 fixed in 3.0",),
            releases={"1.0": WRONG, f"{2 + number % 3}.0": RIGHT},
        )
        place = folder / f"system{number % 5}" / f"bug-{number}"
        place.mkdir(parents=True)
        (place / "bug.toml").write_text(bug_text(bug))
    turns = tuple(Turn(n, f"system{n % 5}", "2026-11-23", tests=9, new=1) for n in range(400))
    write_state(book, WatchState(turns=turns))
    return book


def test_a_thousand_bugs_make_a_small_page(tmp_path):
    publish_ledger(thousand(tmp_path / "bugs"), tmp_path / "site", TODAY)
    index = tmp_path / "site" / "index.html"
    assert index.stat().st_size < 2 << 20
    assert index.read_text().count('<details class="finding"') == 1000


@pytest.mark.slow
@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no Chromium with its driver")
def test_a_thousand_bugs_in_a_browser(tmp_path):
    publish_ledger(thousand(tmp_path / "bugs"), tmp_path / "site", TODAY)
    address = (tmp_path / "site" / "index.html").as_uri()
    browser = Browser(tmp_path / "browser")
    try:
        browser.open(address)
        assert _painted(browser) < 1000
        shown = "return document.getElementById('shown').textContent"
        assert browser.run(shown) == "50 of 1000 shown"
        browser.press("#more", "\ue007")
        assert browser.run(shown) == "1000 of 1000 shown"
        assert browser.run("return document.getElementById('more').hidden")
        browser.press("input[name=text]", "pass3 system4 op19")
        assert browser.run(shown) == "4 of 1000 shown"
        browser.open(f"{address}#operator=Op7&pass=pass0")
        assert browser.run(shown) == "4 of 1000 shown"
        browser.press("a[href='#changes']", "\ue007")  # a section, which changes no filter
        assert browser.run(shown) == "4 of 1000 shown"
        browser.run("document.querySelector('button.sort').focus()")
        browser.press("button.sort[data-key=days]", "\ue007")
        sorted_by = "return document.querySelector('[aria-sort]').textContent"
        assert browser.run(sorted_by) == "days"
        for width in (360, 760, 1200):
            browser.open(address, width)
            assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
        assert browser.errors() == []
    finally:
        browser.close()


def _painted(browser):
    """Milliseconds from the request to the first paint."""
    end = time.monotonic() + 20
    paints = "return performance.getEntriesByType('paint').map(p => p.startTime)"
    while not (found := browser.run(paints)) and time.monotonic() < end:
        time.sleep(0.1)
    return found[0]

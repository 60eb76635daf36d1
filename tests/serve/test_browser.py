"""The page lives in a real browser: it keeps up, and nothing of a campaign ever runs."""

import time

import pytest

pytest.importorskip("uvicorn")

from nnfuzz.records.rows import Record
from scripts.bench.serve import painted, served, synthetic
from tests.report.browser import CHROMIUM, DRIVER, Browser
from tests.serve.conftest import EVIL, finding, run_row

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no Chromium with its driver"),
]
SECONDS = 30
TITLES = "return Array.from(document.querySelectorAll('.finding b')).map(e => e.textContent)"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    window = Browser(tmp_path_factory.mktemp("browser"))
    yield window
    window.close()


def until(browser, script):
    """What a script returns once that is true."""
    end = time.monotonic() + SECONDS
    while not (found := browser.run(script)) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def test_a_finding_comes_while_somebody_looks_and_its_script_stays_text(browser, store):
    with served(store.folder) as (address, _):
        browser.open(address)
        assert len(browser.run(TITLES)) == 3
        assert f"planted: {EVIL}" in browser.run(TITLES)
        browser.run("document.getElementById('f-s1').open = true")
        assert until(browser, "return document.body.textContent.includes('cannot be read')")
        title = f"planted: late {EVIL}"
        store.record(Record(run_row(1), (finding(9, "crash", title),)))
        assert until(browser, "return document.getElementById('f-s9') !== null")
        assert title in browser.run(TITLES)
        assert browser.run("return document.getElementById('f-s1').open")
        assert until(browser, "return document.querySelector('.tile b').textContent") == "4"
        assert "broken out" not in browser.run("return document.title")
        assert browser.run("return document.querySelectorAll('script, img').length") == 1


def test_filters_ask_the_server(browser, store):
    with served(store.folder) as (address, _):
        browser.open(address + "#kind=crash")
        assert until(browser, f"return ({TITLES[7:]}).length === 1")
        browser.open(address)
        browser.press("#filters input", "fuse 3")
        assert until(browser, f"return ({TITLES[7:]}).length === 1")
        assert browser.run(TITLES) == ["other: cannot fuse 3"]


@pytest.mark.parametrize("width", [360, 760, 1200])
def test_the_page_never_scrolls_sideways(browser, store, width):
    with served(store.folder) as (address, _):
        browser.open(address, width)
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")


def test_ten_thousand_findings(browser, tmp_path):
    synthetic(tmp_path / "many", 10_000, 10)
    with served(tmp_path / "many") as (address, _):
        print(painted(browser, address))
        assert len(browser.run(TITLES)) == 50
        browser.run("document.getElementById('more').click()")
        assert until(browser, f"return ({TITLES[7:]}).length === 150")

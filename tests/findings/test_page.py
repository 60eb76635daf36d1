"""The page of a campaign: complete, escaped, and alive in a real browser where there is one."""

import json
import re
import subprocess
import time
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import unquote

import pytest

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.base.writing import as_json
from nnfuzz.compare.flip import Blame, Coordinate
from nnfuzz.findings.folder import write_finding
from nnfuzz.findings.page import CampaignPage, CampaignReader, html_of, report_html
from nnfuzz.records.finding import Finding
from nnfuzz.records.rows import FindingRow
from nnfuzz.store.summary import Summary
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.identity import Numbered
from nnfuzz.triage.signature import Failure, Signature
from tests.findings.browser import CHROMIUM, DRIVER, Browser
from tests.findings.graphs import HOSTILE, branching, hostile

BROWSER = CHROMIUM
BLAME = Blame(Coordinate.PIPELINE, evidence="agrees at O0 " + HOSTILE)


def failed(case, kind, graph, title):
    """A finding whose texts all try to break out."""
    signature = Signature(f"hash-{kind}", title)
    failure = Failure(signature, kind, Stage.COMPILE, (Target("planted", pipeline="O1"),))
    outcomes = (
        Outcome(OutcomeKind.OK, Stage.EXECUTE, Target("planted", pipeline="O0")),
        Outcome(
            kind,
            Stage.COMPILE,
            Target("planted", pipeline="O1"),
            HOSTILE,
            HOSTILE,
            HOSTILE,
            HOSTILE,
        ),
    )
    config = as_json(CaseConfig())
    case = replace(case, graph=graph)
    return Finding(failure, case, outcomes, None, config, None, {"planted": HOSTILE}, blame=BLAME)


def row(finding, folder, occurrences=3, **more):
    failure = finding.failure
    return FindingRow(
        failure.signature.hash,
        Numbered(1, 5),
        failure.kind.value,
        failure.stage.value,
        failure.backend,
        "O0,O1",
        failure.signature.title,
        folder,
        7.5,
        "optimiser",
        occurrences,
        **more,
    )


MERGED = {
    "cause": "cause-hash",
    "pattern": "Relu, Conv (float32)",
    "duplicates": ("other-hash",),
    "suspects": ("suspected-hash",),
}


def written(folder, findings, summary=Summary()):  # noqa: B008 (frozen)
    """The text of a page about a campaign in a folder, with the content of `page`."""
    reader = CampaignReader(folder, folder / "report.html")
    rows = [reader._finding(row) for row in findings]
    content = {HOSTILE: HOSTILE}
    return html_of(CampaignPage("camp", "", "", summary, rows, content, {"death": 1}, ()))


@pytest.fixture(scope="module")
def page(case, tmp_path_factory):
    """Path of a page about a hostile crash, a reduced exception, and a finding that is gone."""
    folder = tmp_path_factory.mktemp("pages") / "camp"
    crash = failed(case, OutcomeKind.CRASH, hostile(), HOSTILE)
    error = failed(case, OutcomeKind.EXCEPTION, branching(), "cannot fuse Conv")
    write_finding(folder / "findings/a%b #1", crash)
    write_finding(folder / "findings/two", error)
    write_finding(folder / "findings/two/reduced", replace(error, case=replace(case)))
    write_finding(folder / "duplicates/three", error)
    rows = [
        row(crash, "findings/a%b #1", 2),
        row(error, "findings/two", **MERGED),
        replace(row(error, "../camp/../elsewhere"), signature="gone"),
    ]
    summary = Summary(
        tests=2,
        seconds=10.0,
        tests_per_second=0.2,
        phase_ms={"generate": 2.0, "execute": 4.0},
        sut_share=0.5,
        outcomes={"ok": 4, "crash": 1},
        outcomes_by_backend={"planted": {"ok": 3, "crash": 1}, "other": {"ok": 1}},
        findings=3,
        merged=1,
        occurrences=9,
        versions={"planted": HOSTILE},
        seed=4,
        config={"note": HOSTILE},
    )
    path = folder / "report.html"
    path.write_text(written(folder, rows, summary))
    return path


class Parsed(HTMLParser):
    """Tags with their attributes, and the text outside of scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self._raw = [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._raw = tag in ("script", "style")

    def handle_endtag(self, tag):
        self._raw = False

    def handle_data(self, data):
        self.text += "" if self._raw else data


def test_nothing_breaks_out_and_nothing_is_loaded(page):
    parsed = Parsed(page.read_text())
    tags = Counter(tag for tag, _ in parsed.tags)
    assert tags["script"] == 1 and not tags["img"] and not tags["link"] and not tags["iframe"]
    names = {name for _, attributes in parsed.tags for name in attributes}
    assert not {name for name in names if name.startswith("on")} and "src" not in names
    assert parsed.text.count("<img src=x onerror=alert(1)>") > 10
    assert "\x1b" not in page.read_text() and "\u202e" not in page.read_text()
    assert not re.search(
        r"(https?:)?//(?!www\.w3\.org/2000/svg)\w",
        re.sub("<pre>.*?</pre>", "", page.read_text(), flags=re.S),
    )


def test_links_are_relative_and_lead_to_the_folders(page):
    links = [a["href"] for tag, a in Parsed(page.read_text()).tags if tag == "a"]
    assert len(links) == 2 and all(link.startswith("./findings/") for link in links)
    assert all((page.parent / unquote(link) / "report.md").is_file() for link in links)
    assert links[1].endswith("/reduced/")


def test_the_page_tells_everything(page):
    text = Parsed(page.read_text()).text
    for expected in (
        "Accused: optimiser",
        "agrees at O0",
        "elsewhere', which is not inside of it",
        "1death events",
        "do not support them: 1",
        "1signatures merged",
        "cause cause-hash",
        "Relu, Conv (float32)",
        "Further signatures: 1 of the same cause, 1 suspected of its cause.",
        "accused before reduction: optimiser",
    ):
        assert expected in " ".join(text.split()), expected


def test_an_empty_campaign(tmp_path):
    page = CampaignPage("empty", "", "", Summary(), [], {}, {}, ())
    assert "Nothing has been found" in html_of(page)


def dom(page, fragment=""):
    """The document after the browser has run the page's script."""
    command = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-dev-shm-usage",
        "--no-first-run",
        f"--user-data-dir={page.parent / 'profile'}",
        "--dump-dom",
        page.as_uri() + fragment,
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        pytest.skip("the browser does not answer here")
    if "<html" not in done.stdout:
        pytest.skip(f"the browser does not work here: {done.stderr[-300:]}")
    return done.stdout


@pytest.mark.skipif(not BROWSER, reason="no Chromium")
def test_filters_work_in_a_browser(page):
    whole = dom(page)
    assert "3 of 3 shown" in whole and whole.count("<script") == 1 and "<img" not in whole
    assert '<form id="filters">' in whole
    some = dom(page, "#kind=exception&text=conv%20fuse")
    assert "2 of 3 shown" in some
    hidden = [a for tag, a in Parsed(some).tags if a.get("class") == "finding" and "hidden" in a]
    assert [a["data-kind"] for a in hidden] == ["crash"]
    assert "1 of 3 shown" in dom(page, "#text=suspected-hash%20duplicates/three")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not (CHROMIUM and DRIVER):
        pytest.skip("no Chromium with its driver")
    window = Browser(tmp_path_factory.mktemp("browser"))
    yield window
    window.close()


TITLES = """return Array.from(document.querySelectorAll("details.finding:not([hidden])"))
.map(function (row) { return row.dataset.kind + " " + row.dataset.times; })"""


@pytest.mark.parametrize("width", [360, 420, 760, 1200])
def test_the_page_never_scrolls_sideways(browser, page, width):
    browser.open(page.as_uri(), width)
    browser.run("document.querySelectorAll('details').forEach(function (d) { d.open = true; })")
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")


def test_filters_listen_to_keys_and_to_changes(browser, page):
    browser.open(page.as_uri())
    browser.press("#filters input", "CONV fuse")
    assert browser.run(TITLES) == ["exception 3", "exception 3"]
    browser.run(
        "var bar = document.getElementById('filters'); bar.elements.text.value = '';"
        "bar.elements.kind.value = 'crash';"
        "bar.elements.kind.dispatchEvent(new Event('change', {bubbles: true}))"
    )
    assert browser.run(TITLES) == ["crash 2"]


def test_a_search_looks_at_names_and_not_at_what_files_hold(browser, page):
    browser.open(page.as_uri() + "#text=float32")
    assert browser.run(TITLES) == ["exception 3"]  # its pattern is Relu, Conv (float32)
    browser.open(page.as_uri() + "#text=import")  # repro.py has it
    assert browser.run(TITLES) == []


@pytest.mark.parametrize(
    "clipboard", ["", "Object.defineProperty(navigator, 'clipboard', {value: 0});"]
)
def test_a_button_copies_a_file_or_selects_it(browser, page, clipboard):
    browser.open(page.as_uri())
    opened = "document.querySelectorAll('details').forEach(function (d) { d.open = true; });"
    browser.run(f"{clipboard} {opened} document.querySelector('button.copy').click()")
    said = "return document.querySelector('button.copy').textContent"
    for _ in range(50):
        if not browser.run(said).startswith("copy "):
            break
        time.sleep(0.1)
    assert browser.run(said).startswith(("copied", "selected"))
    if clipboard:
        text = "document.querySelector('button.copy').parentNode.querySelector('pre').textContent"
        assert browser.run(f"return String(getSelection()).trim() === {text}.trim()")


def test_findings_are_sorted_by_click_and_by_key(browser, page):
    browser.open(page.as_uri())
    times = "#order button[data-key=times]"
    browser.run(f"document.querySelector('{times}').click()")
    assert browser.run(TITLES) == ["exception 3", "exception 3", "crash 2"]
    browser.press(times, " ")  # the space bar
    assert browser.run(TITLES) == ["crash 2", "exception 3", "exception 3"]
    assert browser.run("return document.querySelector('[aria-sort]').textContent") == "times"
    browser.press("#order button[data-key=kind]", "\ue007")  # the enter key
    assert browser.run(TITLES)[0] == "crash 2"


def test_tables_are_sorted_by_any_column(browser, page):
    browser.open(page.as_uri())
    first = """var table = document.querySelector("#compilers");
    table.tHead.rows[0].cells[%d].firstChild.click();
    return Array.from(table.tBodies[0].rows).map(function (row) {
    return row.cells[%d].textContent; })"""
    names = browser.run(first % (0, 0))
    assert len(names) > 1 and names == sorted(names)
    counts = [int(text) for text in browser.run(first % (1, 1))]
    assert counts == sorted(counts, reverse=True)


def test_a_report_becomes_html_and_nothing_in_it_is_live():
    source = "# title\n\n## Levels\n\n[x](http://e.g) a\\_b `|<i>` <b>\n\n| a |\n| --- |\n| 1 |\n"
    html = report_html(source)
    assert "title" not in html and "<h3>Levels</h3>" in html and "<table>" in html
    assert "[x](http://e.g) a_b <code>|&lt;i&gt;</code> &lt;b&gt;" in html


def test_json_of_the_configuration_is_shown(page):
    assert json.dumps(HOSTILE)[1:9] in Parsed(page.read_text()).text

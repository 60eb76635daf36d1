"""Measures how fast the page of `nnfuzz serve` loads when a campaign has thousands of findings.

Makes a synthetic campaign, serves it, and opens the page in a headless Chromium (Debian's, with
chromedriver). Prints the times that the browser measured, and CPU seconds of the server.

    python -m scripts.bench.serve --findings 10000 --tests 50000
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import psutil
import typer

from nnfuzz.backend.outcome import Brief
from nnfuzz.backend.registry import BackendSpec
from nnfuzz.base.writing import as_json
from nnfuzz.ir.features import Features, NodeFeatures
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.rows import FindingRow, Occurrence, Record, ReductionRow, TestRow
from nnfuzz.store.store import Store
from nnfuzz.testcase.identity import Numbered
from tests.report.browser import CHROMIUM, DRIVER, Browser

KINDS = ("crash", "mismatch", "exception", "timeout")
STAGES = ("import", "compile", "execute")
PAINTS = """return performance.getEntriesByType('paint').map(function (paint) {
    return [paint.name, paint.startTime]; })"""


def synthetic(folder: Path, findings: int, tests: int) -> None:
    """Writes a campaign of synthetic rows; every third finding is reduced to its own cause."""
    config = as_json(CampaignConfig((BackendSpec("planted"),), seed=7))
    parts = Features(
        (
            NodeFeatures("Add", "float32", "1", "2x3", ()),
            NodeFeatures("Cast", "int8", "2", "2", ()),
        ),
        ((0, 1),),
    )
    with Store.create(folder, config) as store:
        store.sessions.begin()
        for index in range(tests):
            outcomes = {"planted": {"O0": Brief("ok"), "O1": Brief("ok")}}
            store.record(Record(TestRow(index, "run", 0, outcomes, features=parts)))
        for number in range(findings):
            row = _finding(number)
            seen = (Occurrence(row.signature, row.test, levels=row.level, tried=3),)
            store.record(Record(None, (row,), seen))
            if number % 3 == 0:
                told = ReductionRow(row.signature, f"r{number}", row.title, "Add (float32)")
                store.reductions.add(told)


def _finding(number: int) -> FindingRow:
    kind, stage = KINDS[number % 4], STAGES[number % 3]
    title = f"planted: {kind} in {stage}: pass number {number} cannot take Add of float32 and int8"
    test, folder = Numbered(7, number), f"findings/planted-{kind}-{number:05}"
    level, found_at = "O0,O1", number / 7
    own = {"place": number, "size": 5, "complaint": str(number), "found_at": found_at}
    return FindingRow(f"s{number:05}", test, kind, stage, "planted", level, title, folder, **own)


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of the page of a campaign, and the process that serves it."""
    command = [sys.executable, "-m", "nnfuzz.cli.main", "serve", str(folder), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            found = re.match(r"(http\S+)", process.stdout.readline())
            assert found, "nnfuzz serve does not start"
            yield found[1], process
        finally:
            process.terminate()


def painted(browser: Browser, address: str) -> dict[str, float]:
    """Milliseconds from the request to the first paints, as the browser measured them."""
    browser.open(address)
    end = time.monotonic() + 20
    while len(found := browser.run(PAINTS)) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    return dict(found)


def main(
    findings: Annotated[int, typer.Option(min=1)] = 10_000,
    tests: Annotated[int, typer.Option(min=0)] = 50_000,
    loads: Annotated[int, typer.Option(help="Of the page, one after the other.")] = 5,
) -> None:
    if not (CHROMIUM and DRIVER):
        sys.exit("no Chromium with its driver is installed")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "campaign")
        synthetic(folder, findings, tests)
        begun = time.monotonic()
        with served(folder) as (address, process):
            print(
                f"{findings} findings, {tests} tests: ready after {time.monotonic() - begun:.1f} s"
            )
            browser = Browser(Path(scratch, "profile"))
            try:
                for _ in range(loads):
                    told = [f"{name} {ms:.0f} ms" for name, ms in painted(browser, address).items()]
                    print(f"{', '.join(told)}; {_used(process.pid)}")
            finally:
                browser.close()


def _used(pid: int) -> str:
    """CPU seconds and resident MB of a process so far."""
    process = psutil.Process(pid)
    cpu, memory = process.cpu_times(), process.memory_info()
    return f"the server: {cpu.user + cpu.system:.1f} s CPU, {memory.rss >> 20} MB"


if __name__ == "__main__":
    typer.run(main)

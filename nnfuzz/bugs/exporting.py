"""Bugs as tests for a compiler's own suite: a file for pytest, or a folder of ONNX's node tests."""

from __future__ import annotations

import re
from pathlib import Path

from nnfuzz.base.files import write_atomically
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.text import one_line
from nnfuzz.base.untrusted import below, read_bytes
from nnfuzz.bugs.bug import FILE, Bug
from nnfuzz.bugs.checking import CANNOT_RUN
from nnfuzz.bugs.ledger import SCRIPT, Ledger
from nnfuzz.corpus.layout import write_test
from nnfuzz.findings.folder import is_finding, read_finding

_TEST = """\
{history}
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("{words}") / "{script}"


{mark}def test_{words}(tmp_path):
    command = [sys.executable, SCRIPT]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    if done.returncode == {cannot_run}:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
"""


def pytest_file(ledger: Ledger, name: str, out: Path, xfail: bool) -> Path:
    """Writes a file with one test for a bug, which runs the bug's script in a folder beside it.

    xfail: whether it is expected to fail. Raises: Unreadable for a bug without a script, OSError.
    """
    bug, place, words = ledger.bug(name), ledger.place(name), _words(name)
    if not ledger.script(name).is_file():
        raise Unreadable(f"it has no {SCRIPT}")
    for file in place.iterdir():
        if file.is_file() and file.name not in (FILE, "report.md", "finding.json"):
            (out / words).mkdir(parents=True, exist_ok=True)
            write_atomically(out / words / file.name, read_bytes(below(place, file.name)))
    history = "".join(f"# {line}\n" for line in (one_line(bug.title), *_history(bug)))
    mark = f"@pytest.mark.xfail(strict=True, reason={one_line(bug.title)!r})\n" if xfail else ""
    text = _TEST.format(
        history=history, words=words, script=SCRIPT, mark=mark, cannot_run=CANNOT_RUN
    )
    write_atomically(out / f"test_{words}.py", text.encode())
    return out / f"test_{words}.py"


def _words(name: str) -> str:
    return re.sub(r"\W+", "_", name.rpartition("/")[2]).strip("_").lower()


def _history(bug: Bug) -> list[str]:
    """The releases and the issue that a bug is known from."""
    lines = [f"Releases of {bug.system}: {bug.releases_line}."] if bug.releases_line else []
    return [*lines, f"Issue: {one_line(bug.upstream)}"] if bug.upstream else lines


def node_test(ledger: Ledger, name: str, out: Path) -> Path:
    """Writes the model of a bug's finding, with inputs and expected outputs, as a folder of ONNX's
    node tests below `out`; returns the folder.

    Raises: Unreadable for a bug without the files of a finding, or whose test is there; OSError.
    """
    place, folder = ledger.place(name), f"test_{_words(name)}"
    if not is_finding(place):
        raise Unreadable("it has no model of a finding")
    try:
        return write_test(out, read_finding(place).case, folder)
    except FileExistsError as error:
        raise Unreadable(f"{out / folder} exists already") from error

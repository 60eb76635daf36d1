"""The tutorial from top to bottom: its commands run, and print what it shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "TUTORIAL.md").read_text()
FILE = re.compile(r"<!-- file: examples/(\S+) -->\n```python\n(.*?)```", re.DOTALL)
STEP = re.compile(r"^\$ (.*?)(?:  # exit code (\d))?\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
VARYING = {
    r"(?m)^\[\d+s\b.*\n": "",  # how far it is: a line every ten seconds
    r"\d+\.\d+\.\d+\S*": "RELEASE",
    r"\b\d+(\.\d+)?(s\b|/s|% of the time)": r"N\2",
    r"[ \t]+": " ",  # tables are as wide as what is installed
}
"""What another machine prints differently, as a pattern and what stands for it in both texts."""


def steps() -> list[tuple[str, int, str]]:
    """(command, exit code, what it is shown to print) in the order of the page."""
    shown = "".join(re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL))
    return [(command, int(code or 0), lines) for command, code, lines in STEP.findall(shown)]


def plain(text: str) -> str:
    for pattern, word in VARYING.items():
        text = re.sub(pattern, word, text)
    return text.strip()


def is_shown(shown: str, printed: str) -> bool:
    """Whether `shown` is what was printed, with "..." in place of lines that are left out."""
    parts = map(re.escape, re.split(r"^\.\.\.$", plain(shown), flags=re.MULTILINE))
    return re.fullmatch(".*".join(parts), plain(printed), re.DOTALL) is not None


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command in the folder, with nnfuzz and Python of this environment."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return subprocess.run(
        shlex.split(command),
        cwd=folder,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )


def test_the_shown_compiler_is_the_example():
    ((name, text),) = FILE.findall(TEXT)
    assert text == (ROOT / "examples" / name).read_text()


def test_it_goes_from_the_first_minute_to_an_issue():
    commands = [shlex.split(command)[:2] for command, _, _ in steps()]
    used = [words[1] for words in commands if words[0] == "nnfuzz"]
    assert used == ["backends", "fuzz", "show", "replay", "file", "fuzz", "replay"]
    assert len(commands) == len(re.findall(r"^\$ ", TEXT, re.MULTILINE))


def test_other_output_is_not_what_is_shown():
    assert is_shown("a 3s\n...\nd", "a  12s\nb\nc\nd\n")
    assert is_shown("...\nd", "note\nd") and is_shown("a\n...", "a\nb")
    assert not is_shown("a\nd", "a\nb\nd") and not is_shown("ok 35\n...", "ok 34\nb")


@pytest.mark.slow
def test_every_command_prints_what_is_shown(tmp_path):
    ((name, text),) = FILE.findall(TEXT)
    (tmp_path / name).write_text(text)
    for command, code, shown in steps():
        done = run(command, tmp_path)
        assert done.returncode == code, f"{command}\n{done.stdout}"
        assert is_shown(shown, done.stdout), f"{command}\n{done.stdout}"

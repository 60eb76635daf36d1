"""Text of a compiler is cleaned where it comes in, and shown as what it is on any terminal."""

from __future__ import annotations

import subprocess
import sys

import pytest

EVIL = "\\ud83d\\x1b[2J\\x9b\\u202e"
SAYS = "import sys; from nnfuzz.cli.shell import guard_streams; guard_streams(); "


@pytest.mark.parametrize("how", ["evil_text", "raw_surrogates"])
def test_text_that_cannot_be_encoded_or_steers_a_terminal(attacked, how):
    outcome = attacked(how)
    texts = (outcome.message, outcome.error_type, outcome.traceback, outcome.captured)
    for text in (*texts, outcome.complaint.subject if outcome.complaint else ""):
        text.encode()
        assert all(c.isprintable() or c in "\n\t" for c in text), ascii(text)


def said(command: str, encoding: str) -> bytes:
    done = subprocess.run(
        [sys.executable, "-c", SAYS + command],
        env={"PYTHONIOENCODING": encoding, "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        check=True,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "latin-1"])
def test_streams_show_what_they_cannot_write(stream, encoding):
    shown = said(f"print('{EVIL}é', file=sys.{stream})", encoding)
    assert shown.isascii() or encoding != "ascii"
    assert b"\x1b" not in shown and b"\x9b" not in shown and rb"\u202e" in shown


@pytest.mark.parametrize(
    "program",
    [
        "print('a'); print('::error::planted')",
        "print('a', '\\n  ::set-output name=x::y')",
        "print('  ', end=''); print('::group::x')",
        "print('##[error]x'); print('a ##vso[task.x]y')",
    ],
)
def test_no_line_is_a_command_of_a_ci_server(program):
    lines = said(program, "utf-8").decode().splitlines()
    assert not any(line.strip().startswith("::") or "##" in line for line in lines)
    assert any("\\" in line for line in lines)
    assert said("print('std::vector', '::x')", "utf-8") == b"std::vector ::x\n"

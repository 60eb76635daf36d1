"""Help in groups, and pipes that nobody reads to their end."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nnfuzz.cli.main import application
from nnfuzz.cli.options import OTHERS

FEW = 6
"""Options up to which a command needs no groups."""
NNFUZZ = f"{sys.executable} -m nnfuzz.cli.main"


def commands(group, prefix=""):
    for name, command in group.commands.items():
        yield f"{prefix}{name}", command
        yield from commands(command, f"{name} ") if hasattr(command, "commands") else ()


COMMANDS = dict(commands(application()))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_large_command_stands_under_a_heading(name):
    options = [p for p in COMMANDS[name].params if p.param_type_name == "option"]
    assert all(len(p.help or "") > 20 for p in options)
    if len(options) > FEW:
        alone = [p.name for p in options if p.rich_help_panel in (None, OTHERS.title)]
        assert len(alone) <= 1, alone


def test_help_of_fuzz_is_in_order():
    done = subprocess.run(f"{NNFUZZ} fuzz --help", shell=True, capture_output=True, text=True)
    headings = [line for line in done.stdout.splitlines() if line.endswith(":") and line[0] != " "]
    assert headings == [
        "What is tested:",
        "How much, and where to:",
        "What models are made of:",
        "How models are written:",
        "What is reported:",
        "Options:",
    ]


@pytest.mark.parametrize("arguments", ["ops", "fuzz --help"])
def test_a_pipe_that_is_closed_early_is_no_error(arguments):
    shell = f"set -o pipefail; {NNFUZZ} {arguments} | head -1"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1


def test_an_error_keeps_its_exit_code_when_nobody_listens():
    shell = f"set -o pipefail; {NNFUZZ} replay /no/such/folder 2>&1 | true"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2

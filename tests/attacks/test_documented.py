"""docs/SECURITY_MODEL.md lists every file of attacks, and no other."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
TEXT = (HERE.parents[1] / "docs" / "SECURITY_MODEL.md").read_text()


def test_every_file_of_attacks_is_listed_with_what_it_attacks():
    listed = re.findall(r"^\| `(test_\w+\.py)` \| \w", TEXT, re.MULTILINE)
    there = {path.name for path in HERE.glob("test_*.py")} - {Path(__file__).name}
    assert len(listed) == len(set(listed)) and set(listed) == there


def test_files_that_hold_a_promise_are_there():
    named = re.findall(r"`((?:nnfuzz|tests|scripts)/[\w./]+)`", TEXT)
    assert len(named) > 8
    assert all((HERE.parents[1] / name).exists() for name in named)

"""Every attack has its line in docs/SECURITY_MODEL.md, and every line its test."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TEXT = (HERE.parents[1] / "docs" / "SECURITY_MODEL.md").read_text()
ROWS = [line for line in TEXT.split("## Attacks")[1].splitlines() if line.startswith("|")][2:]
NAMED = re.compile(r"`((?:\w+/)?test_\w+\.py)::(test_\w+)`")
"""A file of this folder, or of another one of tests/ with the folder's name, and a test of it."""


def names_in(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {node.name for node in functions if node.name.startswith("test_")}


@pytest.mark.parametrize("row", ROWS)
def test_every_line_names_tests_that_exist(row):
    attack, expectation, tests = (cell.strip() for cell in row.strip("|").split("|"))
    if not attack.startswith("**"):
        assert expectation
        assert NAMED.findall(tests), "which test shows it?"
    for file, name in NAMED.findall(tests):
        assert name in names_in((HERE.parent if "/" in file else HERE) / file)


CONTROLS = {"test_a_worker_that_idles_between_jobs_is_kept"}
"""Tests that nothing is done to those who do no harm."""


@pytest.mark.parametrize("file", sorted(HERE.glob("test_*.py")), ids=lambda file: file.stem)
def test_every_test_of_an_attack_is_documented(file):
    if file != Path(__file__):
        named = {name for other, name in NAMED.findall(TEXT) if other == file.name}
        assert names_in(file) - CONTROLS == named

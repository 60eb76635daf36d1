"""Every name that a script imports of nnfuzz exists: most scripts are run by hand, and seldom."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("nnfuzz", "planted", "scripts")
SCRIPTS = [path for room in ROOMS[1:] for path in sorted((ROOT / room).rglob("*.py"))]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_names_that_a_script_imports_exist(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(ROOMS):
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                if alias.name == "on_ray":
                    pytest.importorskip("ray")
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")

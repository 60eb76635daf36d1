"""What the scripts import of nnfuzz is still there: most of them are run by hand, and seldom."""

from __future__ import annotations

import ast
import importlib

import pytest
from conftest import SCRIPTS


@pytest.mark.parametrize("path", sorted(SCRIPTS.glob("*.py")), ids=lambda p: p.stem)
def test_the_names_that_a_script_imports_exist(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("nnfuzz"):
            module = importlib.import_module(node.module or "")
            for alias in node.names:
                if alias.name == "on_ray":
                    pytest.importorskip("ray")
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")

"""Count the lines that operator specs take: no blank lines, comments or docstrings, decorators in.

Base classes in nnfuzz/spec/families are shared and not counted.

    .venv/bin/python scripts/count_spec_lines.py Abs Add Concat Conv ...
"""

from __future__ import annotations

import ast
import inspect
import statistics
import textwrap
from typing import Annotated

import typer

from nnfuzz.spec.registry import OpRegistry

TEN = (
    "Abs",
    "Add",
    "Concat",
    "Conv",
    "MatMul",
    "MaxPool",
    "Reshape",
    "Slice",
    "Split",
    "Transpose",
)


def lines(cls: type) -> int:
    """Lines of code of a class as written; several statements on a line count once."""
    source = textwrap.dedent(inspect.getsource(cls))
    kept: set[int] = set()
    tree = ast.parse(source)
    docs: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            docs.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    for number, line in enumerate(source.splitlines(), 1):
        text = line.strip()
        if text and not text.startswith("#") and number not in docs:
            kept.add(number)
    return len(kept)


def main(
    operators: Annotated[list[str] | None, typer.Argument(help="Default: ten known ones.")] = None,
) -> None:
    registry = OpRegistry.load()
    for name in operators or TEN:
        print(f"{name:20s} {lines(registry.get(name)):4d}")
    everything = [lines(spec) for spec in registry.specs()]
    print(f"all {len(everything)}: median {statistics.median(everything)}, max {max(everything)}")


if __name__ == "__main__":
    typer.run(main)

"""The parts of a bug's script that a test takes: its definitions, and the statements that check."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnfuzz.base.untrusted import making_sense, read_text
from nnfuzz.bugs.bug import BugError

_CHECKED = "OUTPUT, DTYPE, SHAPE = "  # in scripts for wrong results
_RAN = "the model compiles and runs"  # what other scripts print once they are right
_LEVEL = re.compile(r"else (?P<level>'[^']*'|\"[^\"]*\")\)\)\s*$")
_DEFINITIONS = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class ScriptParts:
    """body: imports, data and definitions as they stand. steps: lines of the test itself."""

    body: str
    steps: tuple[str, ...]


def parts_of(script: Path) -> ScriptParts:
    """The parts of a script of nnfuzz's form, or of one that ends with sys.exit(CONDITION).

    Raises: BugError for any other script, and for one that reads files beside it.
    """
    source = read_text(script)
    with making_sense(script):
        tree = ast.parse(source)
    if "HERE / " in source:
        raise BugError(f"{script} reads other files: its model is too large for a test")
    lines = source.splitlines()
    steps = _own_steps(tree, source)
    if steps:
        body = [node for node in tree.body if getattr(node, "name", "") != "main"]
        return ScriptParts(_text(_body(body, lines)), tuple(steps))
    cut = 1 + max((i for i, n in enumerate(tree.body) if isinstance(n, _DEFINITIONS)), default=-1)
    steps = list(_written_steps(tree.body[cut:], lines))
    if not steps:
        raise BugError(f"{script} does not end with sys.exit(CONDITION): copy it by hand")
    return ScriptParts(_text(_body(tree.body[:cut], lines)), tuple(steps))


# -- scripts that nnfuzz has written ----------------------------------------------------------


def _own_steps(tree: ast.Module, source: str) -> list[str]:
    """What main() of nnfuzz's form checks; [] for a script of another form."""
    made = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    level = _LEVEL.search(source)
    if not {"main", "load", "run"} <= made or level is None or "must not" in source:
        return []
    if _CHECKED not in source:
        return [f"run(*load(), {level['level']})  # it failed here"] if _RAN in source else []
    compared = "LOW <= value" in source, "np.isnan(value)" in source
    if "EXPECTED" in source and not any(compared):
        return []
    lines = [
        f"outputs = run(*load(), {level['level']})",
        "actual = np.asarray(outputs[OUTPUT])",
        "assert (str(actual.dtype), actual.shape) == (DTYPE, SHAPE)",
    ]
    if "INDEX = " not in source:
        return lines
    lines.append("value = type(EXPECTED)(actual[INDEX])")
    if compared[1]:
        return [*lines, "assert np.isnan(value)"]
    lines.append("assert LOW <= value <= HIGH")
    if "np.signbit" in source:
        lines.append("assert value != 0 or np.signbit(value) == np.signbit(EXPECTED)")
    return lines


# -- scripts that people have written ---------------------------------------------------------


def _written_steps(nodes: Sequence[ast.stmt], lines: list[str]) -> Iterator[str]:
    """The statements behind the definitions, with an assertion in place of each sys.exit and
    without what they print in between; nothing for statements without a sys.exit.
    """
    match nodes:
        case [ast.If(body=inner)]:  # if __name__ == "__main__":
            nodes = inner
    claims = dict(line for node in nodes for line in _claims(node))
    for node in nodes if claims else ():
        if isinstance(node, ast.Expr) and ast.unparse(node).startswith("print("):
            continue
        own = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        replaced = [_replaced(lines[number - 1], claims.get(number)) for number in own]
        yield from textwrap.dedent("\n".join(replaced)).splitlines()


def _replaced(line: str, text: str | None) -> str:
    """Another text in place of a line's, at its indentation; None for the line itself."""
    return line if text is None else line[: len(line) - len(line.lstrip())] + text


def _claims(node: ast.AST, is_handler: bool = False) -> Iterator[tuple[int, str]]:
    """The numbers of lines with sys.exit, and what a test has there."""
    match node:
        case ast.Expr(ast.Call(ast.Attribute(ast.Name("sys"), "exit"), [code])):
            yield node.lineno, _asserted(code, is_handler)
            return
    for child in ast.iter_child_nodes(node):
        yield from _claims(child, is_handler or isinstance(node, ast.ExceptHandler))


def _asserted(code: ast.expr, is_handler: bool) -> str:
    """The assertion that an exit code is 0; the error itself where a handler exits with 1."""
    match _WithoutArguments().visit(code):
        case ast.Constant(1) if is_handler:
            return "raise"
        case ast.IfExp(test, ast.Constant(0), ast.Constant(1)):
            return f"assert {ast.unparse(test)}"
        case other:
            return f"assert {ast.unparse(ast.UnaryOp(ast.Not(), other))}"


class _WithoutArguments(ast.NodeTransformer):
    """Replaces values that depend on the command line by those without arguments."""

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        return node.orelse if "sys.argv" in ast.unparse(node.test) else node


# -- unchanged parts --------------------------------------------------------------------------


def _body(nodes: Iterable[ast.stmt], lines: list[str]) -> list[str]:
    """The lines of all statements that a test has as well, with the blank lines before them."""
    body: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Try):  # for modules that cannot be imported
            body += _body(node.body, lines)
        elif not _dropped(node):
            start = node.lineno - 1
            before = lines[:start]
            while before and not before[-1].strip():
                body.append("")
                before.pop()
            body.append(lines[start][node.col_offset :])
            body += lines[node.lineno : node.end_lineno]
    return body


def _text(lines: list[str]) -> str:
    text = "\n".join(lines).strip("\n")
    needed = [f"import {name}" for name in _MODULES if re.search(rf"\b{name}\.", text)]
    return "\n".join([*needed, text])


_MODULES = ("re", "sys", "faulthandler")


def _dropped(node: ast.stmt) -> bool:
    """Whether a test does without a statement of a script."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__"
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names} <= {*_MODULES}
    return isinstance(node, ast.If | ast.Expr)

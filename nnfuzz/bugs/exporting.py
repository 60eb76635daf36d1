"""A bug as a test in the style of a compiler's own suite, made from its script.

The test has the model, the inputs and the program of repro.py, and the check of its result, in the
form in which the suite has tests; a comment says where in its tree the file belongs.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from nnfuzz.backend.contract import suggest
from nnfuzz.base.text import one_line
from nnfuzz.base.untrusted import making_sense, read_text
from nnfuzz.bugs.bug import Bug, BugError
from nnfuzz.bugs.ledger import SCRIPT, Ledger

_CHECKED = "OUTPUT"  # the name of the wrong output, in scripts for wrong results
_RAN = "the model compiles and runs"  # what other scripts print once they are right
_DROPPED = ("main",)
_LEVEL = re.compile(r"else (?P<level>'[^']*'|\"[^\"]*\")\)\)\s*$")


@dataclass(frozen=True)
class Style:
    """How a suite writes tests. place: folder in its tree. head: lines of its licence, and notes.
    in_class: base of the class that tests are methods of. imports: of the suite itself.
    """

    place: str
    head: tuple[str, ...] = ()
    in_class: str = ""
    imports: tuple[str, ...] = ()
    ending: tuple[str, ...] = ()


_APACHE = tuple(
    f"# {line}".rstrip()
    for line in (
        "Licensed to the Apache Software Foundation (ASF) under one or more contributor license",
        "agreements.  See the NOTICE file distributed with this work for additional information",
        "regarding copyright ownership.  The ASF licenses this file to you under the Apache",
        'License, Version 2.0 (the "License"); you may not use this file except in compliance',
        "with the License.  You may obtain a copy of the License at",
        "",
        "  http://www.apache.org/licenses/LICENSE-2.0",
        "",
        "Unless required by applicable law or agreed to in writing, software distributed under",
        'the License is distributed on an "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY',
        "KIND, either express or implied.  See the License for the specific language governing",
        "permissions and limitations under the License.",
    )
)
STYLES = {
    "pytest": Style("anywhere that pytest looks"),
    "onnxruntime": Style(
        "onnxruntime/test/python",
        (
            "# Copyright (c) Microsoft Corporation. All rights reserved.",
            "# Licensed under the MIT License.",
        ),
        "unittest.TestCase",
        ("import unittest",),
        ('if __name__ == "__main__":', "    unittest.main()"),
    ),
    "openvino": Style(
        "src/frontends/onnx/tests/tests_python",
        (
            "# Copyright (C) 2018-2026 Intel Corporation",
            "# SPDX-License-Identifier: Apache-2.0",
        ),
    ),
    "tvm": Style(
        "tests/python/relax",
        _APACHE,
        imports=("import tvm.testing",),
        ending=('if __name__ == "__main__":', "    tvm.testing.main()"),
    ),
    "torch": Style(
        "test/inductor",
        ('# Owner(s): ["module: inductor"]',),
        "TestCase",
        (
            "import unittest",
            "",
            "from torch.testing._internal.common_utils import run_tests, TestCase",
            "",
        ),
        ('if __name__ == "__main__":', "    run_tests()"),
    ),
}
"""The styles by name, beside NODE_TEST."""
NODE_TEST = "onnx-node-test"


@dataclass(frozen=True)
class _Parts:
    """What a test takes from a script. body: all of its statements but `main`, as they stand."""

    body: str
    level: str
    checks: bool
    worst: bool
    nan: bool
    signed: bool


def style_named(name: str) -> Style:
    """Raises: BugError for a style that there is not."""
    if name not in STYLES:
        raise BugError(f"there is no style {name!r}; {suggest(name, [*STYLES, NODE_TEST])}")
    return STYLES[name]


def exported_test(ledger: Ledger, name: str, style: Style, xfail: bool) -> tuple[str, str]:
    """The name and the text of a file with one test for a bug. xfail: whether it is expected to
    fail. Raises: BugError where the script is not one of nnfuzz's.
    """
    bug, script = ledger.bug(name), ledger.script(name)
    if not script.is_file():
        raise BugError(f"{name} has no {SCRIPT}")
    words = re.sub(r"\W+", "_", name.rpartition("/")[2]).strip("_").lower()
    parts = _parts(script)
    imports = ["import pytest"] if xfail and not style.in_class else []
    head = [*style.head, *_comments(bug, style), *imports, *style.imports]
    test = _test(words, bug, style, parts, xfail)
    text = "\n".join([*head, "", parts.body, "", "", *test, "", "", *style.ending])
    return f"test_{words}.py", re.sub(r"\n{4,}", "\n\n\n", text).rstrip("\n") + "\n"


def _test(words: str, bug: Bug, style: Style, parts: _Parts, xfail: bool) -> list[str]:
    """The lines of the test: a function, or a class with a method."""
    title = one_line(bug.title)
    kills = bug.kind in ("crash", "timeout")
    run = ", run=False" if kills else ""
    mark = f"@pytest.mark.xfail(strict=True{run}, reason={title!r})"
    if style.in_class:
        mark = f"@unittest.skip({title!r})" if kills else "@unittest.expectedFailure"
    marks = [mark] if xfail else []
    body = [f"outputs = run(*load(), {parts.level})", *_assertions(parts)]
    if not parts.checks:
        body = [
            f"run(*load(), {parts.level})  # {'it ended the process' if kills else 'it raised'}"
        ]
    if not style.in_class:
        return [*marks, f"def test_{words}():", *(f"    {line}" for line in body)]
    camel = "".join(word.capitalize() for word in words.split("_"))
    method = [*marks, f"def test_{words}(self):", *(f"    {line}" for line in body)]
    return [f"class Test{camel}({style.in_class}):", *(f"    {line}" for line in method)]


def _assertions(parts: _Parts) -> list[str]:
    """What repro.py checks, as assertions; they read the same in a function and in a method."""
    lines = [
        "actual = np.asarray(outputs[OUTPUT])",
        "assert (str(actual.dtype), actual.shape) == (DTYPE, SHAPE)",
    ]
    if not parts.worst:
        return lines
    lines.append("value = type(EXPECTED)(actual[INDEX])")
    if parts.nan:
        return [*lines, "assert np.isnan(value)"]
    lines.append("assert LOW <= value <= HIGH")
    if parts.signed:
        lines.append("assert value != 0 or np.signbit(value) == np.signbit(EXPECTED)")
    return lines


def _comments(bug: Bug, style: Style) -> list[str]:
    place = f"Place: {style.place}; made by nnfuzz bugs export."
    lines = [one_line(bug.title), *_told(bug), place]
    return [*([""] if style.head else []), *(f"# {line}" for line in lines), ""]


def _told(bug: Bug) -> list[str]:
    """Lines on where the bug is known from."""
    releases = [r for r in (bug.first_bad_release, bug.last_bad_release) if r]
    told = [f"Fails in {bug.system} {' to '.join(dict.fromkeys(releases))}."] if releases else []
    told += [f"Right in {bug.right_release}."] if bug.right_release else []
    return told + ([f"Issue: {one_line(bug.upstream)}"] if bug.upstream else [])


def _parts(script: Path) -> _Parts:
    """Raises: BugError for a script that somebody wrote in another form."""
    source = read_text(script)
    with making_sense(script):
        tree = ast.parse(source)
    made = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    level = _LEVEL.search(source)
    checked = f"{_CHECKED}, DTYPE, SHAPE" in source
    compared = any(text in source for text in ("LOW <= value", "np.isnan(value)"))
    own = compared or "EXPECTED" not in source if checked else _RAN in source
    if not {"main", "load", "run"} <= made or level is None or not own:
        raise BugError(f"{script} is not of the form that nnfuzz writes: copy it by hand")
    if "HERE / " in source:
        raise BugError(f"{script} reads other files: its model is too large for a test")
    if "must not" in source:
        raise BugError(f"{script} is about a model that must be refused")
    body = _body(tree.body, source.splitlines())
    return _Parts(
        "\n".join(body).strip("\n"),
        level["level"],
        checked,
        "INDEX = " in source,
        "np.isnan(value)" in source,
        "np.signbit" in source,
    )


def _body(nodes: list[ast.stmt], lines: list[str]) -> list[str]:
    """The lines of all statements that a test has as well, with the blank lines before them."""
    found: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Try):  # for what cannot be imported
            found += _body(node.body, lines)
        elif not _dropped(node):
            start = node.lineno - 1
            before = lines[:start]
            while before and not before[-1].strip():
                found.append("")
                before.pop()
            found.append(lines[start][node.col_offset :])
            found += lines[node.lineno : node.end_lineno]
    return found


def _dropped(node: ast.stmt) -> bool:
    """Whether a test does without a statement of a script."""
    if isinstance(node, ast.FunctionDef):
        return node.name in _DROPPED
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__"
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names} <= {"sys", "faulthandler"}
    return isinstance(node, ast.If | ast.Expr)

"""A bug as a test in the style of a compiler's own suite, made from its script.

The test has the model, the inputs and the program of repro.py, and the check of its result, in the
form in which the suite has tests; a comment says where in its tree the file belongs. It is
formatted as the suite is, if ruff is there.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from nnfuzz.backend.contract import suggest
from nnfuzz.base.programs import run_program
from nnfuzz.base.text import one_line
from nnfuzz.bugs.bug import Bug, BugError
from nnfuzz.bugs.ledger import SCRIPT, Ledger
from nnfuzz.bugs.script_parts import ScriptParts, parts_of
from nnfuzz.bugs.scripts import op_test


@dataclass(frozen=True)
class Style:
    """How a suite writes tests. place: folder in its tree. head: lines of its licence, and notes.
    in_class: base of the class that tests are methods of. imports: of the suite itself. width,
    quotes: of its formatter, as ruff takes them.
    """

    place: str
    head: tuple[str, ...] = ()
    in_class: str = ""
    imports: tuple[str, ...] = ()
    ending: tuple[str, ...] = ()
    width: int = 88
    quotes: str = "double"

    def claim(self, condition: str) -> str:
        """The assertion of a condition."""
        if not self.in_class:
            return f"assert {condition}"
        match ast.parse(condition, mode="eval").body:
            case ast.Compare(left, [ast.Eq()], [right]):
                return f"self.assertEqual({ast.unparse(left)}, {ast.unparse(right)})"
            case ast.UnaryOp(ast.Not(), operand):
                return f"self.assertFalse({ast.unparse(operand)})"
        return f"self.assertTrue({condition})"


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
        width=120,
    ),
    "openvino": Style(
        "src/frontends/onnx/tests/tests_python",
        (
            "# Copyright (C) 2018-2026 Intel Corporation",
            "# SPDX-License-Identifier: Apache-2.0",
        ),
        width=160,
        quotes="preserve",
    ),
    "tvm": Style(
        "tests/python/relax",
        _APACHE,
        imports=("import tvm.testing",),
        ending=('if __name__ == "__main__":', "    tvm.testing.main()"),
        width=100,
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
"""The styles by name, beside NODE_TEST and OP_TEST, whose files no script is copied into."""
NODE_TEST, OP_TEST = "onnx-node-test", "optester"


def style_named(name: str) -> Style:
    """Raises: BugError for a style that there is not."""
    if name not in STYLES:
        raise BugError(
            f"there is no style {name!r}; {suggest(name, [*STYLES, NODE_TEST, OP_TEST])}"
        )
    return STYLES[name]


def exported_test(ledger: Ledger, name: str, style: Style, xfail: bool) -> tuple[str, str]:
    """The name and the text of a file with one test for a bug. xfail: whether it is expected to
    fail. Raises: BugError where the script has no form that a test can be made of.
    """
    bug, script = ledger.bug(name), ledger.script(name)
    if not script.is_file():
        raise BugError(f"{name} has no {SCRIPT}")
    words = _words(name)
    parts = parts_of(script, style.claim)
    imports = ["import pytest"] if xfail and not style.in_class else []
    head = [*style.head, *_comments(bug, style), *imports, *style.imports]
    test = _test(words, bug, style, parts, xfail)
    text = "\n".join([*head, "", parts.body, "", "", *test, "", "", *style.ending])
    text = re.sub(r"\n{4,}", "\n\n\n", text).rstrip("\n") + "\n"
    return f"test_{words}.py", _formatted(text, style)


def exported_cpp(ledger: Ledger, name: str) -> tuple[str, str]:
    """The name and the text of a file of C++ with one test of OpTester for a bug.

    Raises: BugError where it is not of one operator, or onnx.reference does not agree with it.
    """
    bug, words = ledger.bug(name), _words(name)
    place = "Place: onnxruntime/test/providers/cpu; made by nnfuzz bugs export, and not compiled."
    lines = [line.replace("#", "//", 1) for line in STYLES["onnxruntime"].head]
    lines += ["", *(f"// {line}" for line in [one_line(bug.title), *_history(bug), place]), ""]
    head = [*lines, '#include "gtest/gtest.h"', '#include "test/providers/provider_test_utils.h"']
    spaces = ["onnxruntime", "test"]
    opened = [f"namespace {space} {{" for space in spaces]
    closed = [f"}}  // namespace {space}" for space in reversed(spaces)]
    test = op_test(ledger.script(name), _camel(words)).rstrip("\n")
    return f"{words}_test.cc", "\n".join([*head, "", *opened, "", test, "", *closed, ""])


def _words(name: str) -> str:
    """The last part of a bug's name as a word of Python."""
    return re.sub(r"\W+", "_", name.rpartition("/")[2]).strip("_").lower()


def _camel(words: str) -> str:
    return "".join(word.capitalize() for word in words.split("_"))


def ruff() -> str | None:
    """The formatter's program; None if it is not there."""
    beside = str(Path(sys.executable).parent)
    return shutil.which("ruff", path=os.pathsep.join([beside, os.environ.get("PATH", "")]))


def _formatted(text: str, style: Style) -> str:
    """In the suite's format, with sorted imports and none without use; as it is without ruff."""
    if (program := ruff()) is None:
        return text
    shape = ["--isolated", "--quiet", "--config", f"line-length = {style.width}"]
    quotes = ["--config", f"format.quote-style = '{style.quotes}'"]
    for command in (
        ["check", "--fix-only", "--select", "I,F401", *shape],
        ["format", *shape, *quotes],
    ):
        done = run_program([program, *command, "-"], input=text)
        text = text if done.returncode else done.stdout
    return text


def _test(words: str, bug: Bug, style: Style, parts: ScriptParts, xfail: bool) -> list[str]:
    """The lines of the test: a function, or a class with a method."""
    title = one_line(bug.title)
    kills = bug.kind in ("crash", "timeout")
    run = ", run=False" if kills else ""
    mark = f"@pytest.mark.xfail(strict=True{run}, reason={title!r})"
    if style.in_class:
        mark = f"@unittest.skip({title!r})" if kills else "@unittest.expectedFailure"
    marks = [mark] if xfail else []
    if not style.in_class:
        return [*marks, f"def test_{words}():", *(f"    {line}" for line in parts.steps)]
    method = [*marks, f"def test_{words}(self):", *(f"    {line}" for line in parts.steps)]
    return [f"class Test{_camel(words)}({style.in_class}):", *(f"    {line}" for line in method)]


def _comments(bug: Bug, style: Style) -> list[str]:
    place = f"Place: {style.place}; made by nnfuzz bugs export."
    lines = [one_line(bug.title), *_history(bug), place]
    return [*([""] if style.head else []), *(f"# {line}" for line in lines), ""]


def _history(bug: Bug) -> list[str]:
    """Lines on where the bug is known from."""
    releases = [r for r in (bug.first_bad_release, bug.last_bad_release) if r]
    lines = [f"Fails in {bug.system} {' to '.join(dict.fromkeys(releases))}."] if releases else []
    lines += [f"Right in {bug.right_release}."] if bug.right_release else []
    return lines + ([f"Issue: {one_line(bug.upstream)}"] if bug.upstream else [])

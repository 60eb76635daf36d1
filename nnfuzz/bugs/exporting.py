"""A bug as a pytest test, made from its script: model, inputs, program, and the check."""

from __future__ import annotations

import re

from nnfuzz.base.text import one_line
from nnfuzz.bugs.bug import Bug, BugError
from nnfuzz.bugs.ledger import SCRIPT, Ledger
from nnfuzz.bugs.script_parts import parts_of


def exported_test(ledger: Ledger, name: str, xfail: bool) -> tuple[str, str]:
    """The name and the text of a file with one test for a bug. xfail: whether it is expected to
    fail. Raises: BugError where the script has no form that a test can be made of.
    """
    bug, script = ledger.bug(name), ledger.script(name)
    if not script.is_file():
        raise BugError(f"{name} has no {SCRIPT}")
    words = re.sub(r"\W+", "_", name.rpartition("/")[2]).strip("_").lower()
    parts = parts_of(script)
    head = [*(f"# {line}" for line in _history(bug)), "", *(["import pytest"] if xfail else [])]
    mark = [_expected_failure(bug)] if xfail else []
    test = [*mark, f"def test_{words}():", *(f"    {line}" for line in parts.steps)]
    text = "\n".join([*head, "", parts.body, "", "", *test])
    return f"test_{words}.py", re.sub(r"\n{4,}", "\n\n\n", text).strip("\n") + "\n"


def _expected_failure(bug: Bug) -> str:
    """The mark of a test that fails; one that would end the process of pytest is not run."""
    run = ", run=False" if bug.kind in ("crash", "timeout") else ""
    return f"@pytest.mark.xfail(strict=True{run}, reason={one_line(bug.title)!r})"


def _history(bug: Bug) -> list[str]:
    """The title of a bug, and the releases and the issue that it is known from."""
    releases = [r for r in (bug.first_bad_release, bug.last_bad_release) if r]
    lines = [f"Fails in {bug.system} {' to '.join(dict.fromkeys(releases))}."] if releases else []
    lines += [f"Right in {bug.right_release}."] if bug.right_release else []
    issue = [f"Issue: {one_line(bug.upstream)}"] if bug.upstream else []
    return [one_line(bug.title), *lines, *issue]

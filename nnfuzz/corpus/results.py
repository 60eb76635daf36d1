"""Results of tests: their records, the failures of a baseline, and files for a CI server."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from xml.etree import ElementTree

from nnfuzz.base.reading import UNWRITTEN, JsonObject, Unreadable, read
from nnfuzz.base.untrusted import read_json
from nnfuzz.base.writing import ROUNDED, as_json
from nnfuzz.findings.text import environment
from nnfuzz.triage.keys import KnownError


class Status(StrEnum):
    """The statuses of JUnit: an error is a test that could not be carried out. known: a failure of
    the baseline. not compared: the test ran, but no element of its outputs can be compared.
    """

    PASSED = "passed"
    FAILED = "failed"
    KNOWN = "known"
    SKIPPED = "skipped"
    NOT_COMPARED = "not compared"
    ERROR = "error"


BAD = (Status.FAILED, Status.ERROR)


@dataclass(frozen=True)
class LevelResult:
    """The result of one test at one level. message: one line; details: traceback and output.

    seconds: spent in the compiler. kind: of a failure: mismatch, exception, crash or timeout.
    """

    test: str
    backend: str
    level: str
    status: Status
    message: str = ""
    details: str = field(default="", metadata=UNWRITTEN)
    seconds: float = field(default=0.0, metadata=ROUNDED)
    kind: str = ""


# -- baseline --------------------------------------------------------------------------------

SCHEMA = 1
Failures = Mapping[tuple[str, str, str], str]
"""The kind of each failure by test, backend and level."""


def excused(earlier: Failures, result: LevelResult) -> LevelResult:
    """The result; if it failed in the baseline in the same way, with the status KNOWN."""
    failed = result.status is Status.FAILED
    if not failed or earlier.get(_place(result)) != result.kind:
        return result
    message = f"failed in the baseline as well: {result.message}"
    return replace(result, status=Status.KNOWN, message=message)


def _place(result: LevelResult) -> tuple[str, str, str]:
    return result.test, result.backend, result.level


def to_json(results: Iterable[LevelResult], about: Mapping[str, object]) -> JsonObject:
    """The content of the file that --results writes and --baseline reads."""
    return {"schema": SCHEMA, **about, "results": [as_json(result) for result in results]}


def baseline(path: Path) -> Failures:
    """The kinds of the failures of an earlier run by test, backend and level, known ones included.

    Raises: KnownError, Unreadable.
    """
    data = read_json(path)
    try:
        fields = read(JsonObject, data)
        if fields.get("schema") != SCHEMA:
            raise Unreadable(f"its schema is {fields.get('schema')!r}, not {SCHEMA}")
        results = read(tuple[LevelResult, ...], fields.get("results"))
    except Unreadable as error:
        raise KnownError(f"{path} is not what nnfuzz verify --results writes: {error}") from error
    return {_place(r): r.kind for r in results if r.status in (Status.FAILED, Status.KNOWN)}


# -- JUnit and Markdown ----------------------------------------------------------------------

_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAGS = {
    Status.FAILED: "failure",
    Status.ERROR: "error",
    Status.SKIPPED: "skipped",
    Status.KNOWN: "skipped",
    Status.NOT_COMPARED: "skipped",
}


def junit_xml(results: Sequence[LevelResult], suite: str) -> bytes:
    """A <testsuites> document with one suite; a test case is one test at one level."""
    root = ElementTree.Element("testsuites")
    node = ElementTree.SubElement(root, "testsuite", {"name": _clean(suite), **_counts(results)})
    for result in results:
        case = ElementTree.SubElement(
            node,
            "testcase",
            classname=_clean(".".join(filter(None, (result.backend, result.level)))),
            name=_clean(result.test),
            time=f"{result.seconds:.6f}",
        )
        if result.status in _TAGS:
            message = _clean(" ".join(_message(result).split())[:500])
            child = ElementTree.SubElement(case, _TAGS[result.status], message=message)
            child.text = _clean(result.details or result.message)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _message(result: LevelResult) -> str:
    """The message, with the status in front if nothing was compared: JUnit has no such status."""
    if result.status is not Status.NOT_COMPARED:
        return result.message
    return ": ".join(text for text in (str(result.status), result.message) if text)


def _counts(results: Sequence[LevelResult]) -> dict[str, str]:
    def count(tag: str) -> str:
        return str(sum(_TAGS.get(r.status) == tag for r in results))

    return {
        "tests": str(len(results)),
        "failures": count("failure"),
        "errors": count("error"),
        "skipped": count("skipped"),
        "time": f"{sum(r.seconds for r in results):.6f}",
    }


def _clean(text: str) -> str:
    """Replaces the control characters that XML 1.0 forbids, even as escapes."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


MOST_ROWS = 50
"""Rows of a table at most: services that render job summaries cut them off at about a megabyte."""
MOST_REASONS = 10
CHARACTERS = 300


def results_page(results: Sequence[LevelResult], title: str, notes: Iterable[str] = ()) -> str:
    """Returns a Markdown page: counts, failures, reasons why tests were not compared, notes."""
    levels: dict[tuple[str, str], Counter[Status]] = {}
    uncompared = {status: Counter[str]() for status in (Status.NOT_COMPARED, Status.SKIPPED)}
    for result in results:
        levels.setdefault((result.backend, result.level), Counter())[result.status] += 1
        if result.status in uncompared:
            uncompared[result.status][result.message] += 1
    template = environment().get_template("results.md.jinja")
    return template.render(
        title=title,
        statuses=[s for s in Status if any(counts[s] for counts in levels.values())],
        levels=levels,
        failed=[r for r in results if r.status in BAD],
        known=[r for r in results if r.status is Status.KNOWN],
        uncompared={status: reasons for status, reasons in uncompared.items() if reasons},
        notes=list(notes),
        most_rows=MOST_ROWS,
        most_reasons=MOST_REASONS,
        short=lambda text: " ".join(text.split())[:CHARACTERS],
    )

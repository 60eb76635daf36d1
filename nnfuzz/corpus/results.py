"""Results of tests: their records, the known failures among them, and their files for a CI server.

A file of known failures names them one per line:

    test_nnfuzz_seed0_00001*                          # every model that fits, everywhere
    test_nnfuzz_seed0_000123 backend=tvm level=O3    # their issue 1234

Text behind a # is a comment.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from xml.etree import ElementTree

from nnfuzz.base.reading import UNWRITTEN, JsonObject, Unreadable, read
from nnfuzz.base.untrusted import read_json, read_text
from nnfuzz.base.writing import ROUNDED, as_json
from nnfuzz.findings.text import environment
from nnfuzz.triage.known import KnownError


class Status(StrEnum):
    """The statuses of JUnit: an error is a test that could not be carried out. known: an expected
    failure. not compared: the test ran, but no element of its outputs can be compared.
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


# -- known failures --------------------------------------------------------------------------

SCHEMA = 1
FIELDS = ("backend", "level", "kind")


@dataclass(frozen=True)
class KnownTest:
    """A line of the file. why: its comment. Each name is a pattern of fnmatch."""

    test: str
    backend: str = "*"
    level: str = "*"
    kind: str = "*"
    why: str = ""
    line: str = ""

    def fits(self, result: LevelResult) -> bool:
        return (
            fnmatchcase(result.test, self.test)
            and fnmatchcase(result.backend, self.backend)
            and fnmatchcase(result.level, self.level)
            and fnmatchcase(result.kind, self.kind)
        )


def parse_known(text: str, source: str) -> list[KnownTest]:
    """Raises: KnownError naming the first line that is none."""
    patterns = []
    for number, line in enumerate(text.splitlines(), 1):
        entry, _, why = line.partition("#")
        if words := entry.split():
            patterns.append(_pattern(words, why.strip(), line, f"{source}, line {number}"))
    return patterns


def load_known(path: Path) -> list[KnownTest]:
    """Raises: KnownError, Unreadable."""
    return parse_known(read_text(path), str(path))


def _pattern(words: Sequence[str], why: str, line: str, where: str) -> KnownTest:
    test, *rest = words
    values: dict[str, str] = {}
    for word in rest:
        name, equals, value = word.partition("=")
        if not equals or name not in FIELDS or not value:
            wanted = ", ".join(f"{name}=..." for name in FIELDS)
            raise KnownError(f"{where}: {word!r} is none of {wanted} behind the name of a test")
        values[name] = value
    if "=" in test:
        raise KnownError(f"{where}: a line begins with the name of a test, or * for all of them")
    return KnownTest(test, **values, why=why, line=line.strip())


@dataclass(frozen=True)
class KnownTestFailures:
    """The known failures.

    earlier: from the baseline, the kind of each failure by test, backend and level.
    """

    patterns: Sequence[KnownTest] = ()
    earlier: Mapping[tuple[str, str, str], str] = field(default_factory=dict)

    def judge(self, result: LevelResult) -> LevelResult:
        """The result; if it is a known failure, with the status KNOWN and the reason."""
        if result.status is not Status.FAILED:
            return result
        if pattern := next((p for p in self.patterns if p.fits(result)), None):
            return _known(result, pattern.why or pattern.line)
        if self.earlier.get(_place(result)) == result.kind:
            return _known(result, "failed in the baseline as well")
        return result


def _known(result: LevelResult, why: str) -> LevelResult:
    return replace(result, status=Status.KNOWN, message=f"known ({why}): {result.message}")


def _place(result: LevelResult) -> tuple[str, str, str]:
    return result.test, result.backend, result.level


def to_json(results: Iterable[LevelResult], about: Mapping[str, object]) -> JsonObject:
    """The content of the file that --results writes and --baseline reads."""
    return {"schema": SCHEMA, **about, "results": [as_json(result) for result in results]}


def baseline(path: Path) -> dict[tuple[str, str, str], str]:
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

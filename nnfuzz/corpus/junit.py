"""Results as JUnit XML, which continuous-integration servers read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from nnfuzz.corpus.verify import LevelResult, Status

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

"""Failures of a corpus that do not count: listed by hand, or present in an earlier run.

A file of known failures names them one per line:

    test_nnfuzz_seed0_00001*                          # every model that fits, everywhere
    test_nnfuzz_seed0_000123 backend=tvm level=O3    # their issue 1234

Text behind a # is a comment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from nnfuzz.base.reading import JsonObject, Unreadable, read
from nnfuzz.base.untrusted import read_json, read_text
from nnfuzz.base.writing import as_json
from nnfuzz.corpus.verify import LevelResult, Status
from nnfuzz.triage.known import KnownError

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


def parse(text: str, source: str) -> list[KnownTest]:
    """Raises: KnownError naming the first line that is none."""
    patterns = []
    for number, line in enumerate(text.splitlines(), 1):
        entry, _, why = line.partition("#")
        if words := entry.split():
            patterns.append(_pattern(words, why.strip(), line, f"{source}, line {number}"))
    return patterns


def load(path: Path) -> list[KnownTest]:
    """Raises: KnownError, Unreadable."""
    return parse(read_text(path), str(path))


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
    earlier: Mapping[tuple[str, str, str], str] | None = None

    def judge(self, result: LevelResult) -> LevelResult:
        """The result; if it is a known failure, with the status KNOWN and the reason."""
        if result.status is not Status.FAILED:
            return result
        if pattern := next((p for p in self.patterns if p.fits(result)), None):
            return _known(result, pattern.why or pattern.line)
        if (self.earlier or {}).get(_place(result)) == result.kind:
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

"""Known failures: what a campaign counts but does not report.

A file names them one per line, by the hash of a signature or by what the reduced model is like:

    a258b5a34ce8 wrong shape of Range
    backend=tvm operator=Pow dtype=bfloat16   # the next release has it
    backend=openvino kind=mismatch operator=LSTM

A pattern fits a reduced finding that has all of what it names. What follows a # is a comment, as
is text behind a hash. What a folder of findings is known by has lines of keys as well
(nnfuzz.triage.keys), a list in JSON each: those of a reduced finding, which survive a change of the
rules better than a hash does, and the kinds of its failures: a known cause that fails in another
way is news.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nnfuzz.base.reading import Unreadable
from nnfuzz.base.untrusted import read_text
from nnfuzz.ir.view import GraphView
from nnfuzz.triage.keys import Key, KeyKind, is_known_cause
from nnfuzz.triage.signature import HASH_DIGITS

_HASH = re.compile(rf"[0-9a-f]{{{HASH_DIGITS}}}")
FIELDS = ("backend", "kind", "stage", "operator", "dtype")


class KnownError(Unreadable):
    """A file of known failures that cannot be read; the message names the line and the fix."""


@dataclass(frozen=True)
class KnownFailures:
    """hashes: of signatures, of raw failures or reduced ones. patterns: field -> value. keys: of
    reduced findings.
    """

    hashes: frozenset[str] = frozenset()
    patterns: tuple[Mapping[str, str], ...] = field(default=())
    keys: tuple[frozenset[Key], ...] = ()

    @classmethod
    def parse(cls, lines: Iterable[str], source: str = "known failures") -> KnownFailures:
        """Raises: KnownError naming the first line that is neither a hash nor a pattern."""
        hashes, patterns, keys = set(), [], []
        for number, line in enumerate(lines, 1):
            if line.startswith("["):
                keys.append(_keys(line, f"{source}, line {number}"))
                continue
            words = line.partition("#")[0].split()
            if words and _HASH.fullmatch(words[0]):
                hashes.add(words[0])
            elif words:
                patterns.append(_pattern(words, f"{source}, line {number}"))
        return cls(frozenset(hashes), tuple(patterns), tuple(keys))

    @classmethod
    def load(cls, path: Path) -> KnownFailures:
        """Raises: KnownError, Unreadable."""
        return cls.parse(read_text(path).splitlines(), str(path))

    @classmethod
    def merged(cls, parts: Iterable[KnownFailures]) -> KnownFailures:
        """All that some of the parts know."""
        parts = list(parts)
        return cls(
            frozenset(own for part in parts for own in part.hashes),
            tuple(own for part in parts for own in part.patterns),
            tuple(dict.fromkeys(own for part in parts for own in part.keys)),
        )

    def lines(self) -> tuple[str, ...]:
        """As a file would have them, sorted."""
        patterns = (" ".join(f"{k}={v}" for k, v in sorted(p.items())) for p in self.patterns)
        keys = (json.dumps(sorted(map(str, own))) for own in self.keys)
        return (*sorted(self.hashes), *sorted(patterns), *sorted(keys))

    def fits(self, backends: Collection[str], kind: str, stage: str, graph: GraphView) -> bool:
        """Whether some pattern fits a reduced finding. backends: names of the compiler."""
        own = (backends, (kind,), (stage,), graph.operators, graph.dtypes.values())
        has = dict(zip(FIELDS, own, strict=True))
        return any(all(value in has[name] for name, value in p.items()) for p in self.patterns)

    def has(self, keys: Collection[Key], kind: str = "") -> bool:
        """Whether the keys of a reduced finding make it one with a known one that failed in this
        way before. kind: of the failure (OutcomeKind); "" and known keys without any are of all.
        """
        of_cause = (failure_kinds(known) for known in self.keys if is_known_cause(keys, known))
        return any(not kind or not kinds or kind in kinds for kinds in of_cause)


def failure_kinds(keys: Iterable[Key]) -> set[str]:
    """The kinds of failures that the keys of a known finding name."""
    return {key.text for key in keys if key.kind is KeyKind.FAILURE}


def _keys(line: str, where: str) -> frozenset[Key]:
    try:
        return Key.parse_all(map(str, json.loads(line)))
    except ValueError as error:
        raise KnownError(f"{where}: {line!r} is no list of keys in JSON ({error})") from error


def _pattern(words: Iterable[str], where: str) -> dict[str, str]:
    pattern = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in FIELDS or not value:
            raise KnownError(
                f"{where}: {word!r} is neither a signature of {HASH_DIGITS} hexadecimal digits, "
                f"such as the report of a finding shows, nor one of "
                f"{', '.join(f'{name}=...' for name in FIELDS)}"
            )
        pattern[name] = value
    return pattern

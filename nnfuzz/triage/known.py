"""Known failures: signatures that a campaign counts but does not report."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from nnfuzz.triage.signature import HASH_DIGITS, Signature

_HASH = re.compile(rf"[0-9a-f]{{{HASH_DIGITS}}}")


class KnownError(ValueError):
    """A suppression file that cannot be read; the message names the line."""


class KnownFailures:
    """A list of suppressions that remembers which of them fired.

    File format: a signature's hash at the start of each line, then any text, such as the
    signature's title; what follows a # is a comment, and so are empty lines.
    """

    def __init__(self, entries: Iterable[tuple[str, str]] = ()) -> None:
        self._notes = dict(entries)
        self._fired: dict[str, int] = {}

    @classmethod
    def parse(cls, text: str, source: str = "known failures") -> KnownFailures:
        """Raises: KnownError naming the first line that does not start with a signature."""
        entries = []
        for number, line in enumerate(text.splitlines(), 1):
            digest, _, note = line.partition("#")[0].strip().partition(" ")
            if not digest:
                continue
            if not _HASH.fullmatch(digest):
                raise KnownError(
                    f"{source}, line {number}: {digest!r} is not a signature of {HASH_DIGITS} "
                    "hexadecimal digits, such as the report of a finding shows"
                )
            entries.append((digest, note.strip() or line.partition("#")[2].strip()))
        return cls(entries)

    @classmethod
    def load(cls, path: str | Path) -> KnownFailures:
        """Raises: KnownError, OSError."""
        return cls.parse(Path(path).read_text(encoding="utf-8"), str(path))

    def __len__(self) -> int:
        return len(self._notes)

    def __contains__(self, digest: object) -> bool:
        return digest in self._notes

    def hashes(self) -> tuple[str, ...]:
        return tuple(self._notes)

    def fires(self, signature: Signature | str) -> bool:
        """Whether the signature (or its hash) is suppressed; counts it if so."""
        digest = signature if isinstance(signature, str) else signature.hash
        if digest not in self._notes:
            return False
        self._fired[digest] = self._fired.get(digest, 0) + 1
        return True

    def fired(self) -> dict[str, int]:
        """Hits per signature that was suppressed at least once."""
        return dict(self._fired)

    def unused(self) -> list[str]:
        """One line for each suppression that never fired: the failure may be fixed by now."""
        return [
            f"suppression {digest} never fired{f' ({note})' if note else ''}: it may be obsolete"
            for digest, note in self._notes.items()
            if digest not in self._fired
        ]

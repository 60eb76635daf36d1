"""What compilers said, in whole, so that findings can be keyed by other rules later.

Each text is kept once, compressed; a compiler that says the same a thousand times costs one row.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from nnfuzz.backend.complaint import CompilerError
from nnfuzz.base.reading import read
from nnfuzz.base.untrusted import MAX_TEXT_BYTES, making_sense
from nnfuzz.records.rows import Said
from nnfuzz.store.database import Database, dumps, loads
from nnfuzz.store.schema import FILE

DIGEST_BYTES = 16
"""Of SHA-256: two of a billion texts collide with a probability below 1e-20."""


class Errors(Database):
    """Error texts by test, backend and level."""

    def _add_errors(self, index: int, errors: Mapping[tuple[str, str], Said]) -> None:
        for (backend, level), said in errors.items():
            text = dumps({**asdict(said.error), "words": said.words}).encode()
            digest = hashlib.sha256(text).digest()[:DIGEST_BYTES]
            row = [digest, zlib.compress(text)]
            self._db.execute("INSERT OR IGNORE INTO texts VALUES (?, ?)", row)
            place = [index, backend, level, digest]
            self._db.execute("INSERT OR REPLACE INTO errors VALUES (?, ?, ?, ?)", place)

    def errors(self, index: int) -> dict[tuple[str, str], Said]:
        """What was said in a test, by (backend, level)."""
        query = """
            SELECT backend, level, text FROM errors JOIN texts USING (digest)
            WHERE idx = ? ORDER BY backend, level"""
        found = {}
        for backend, level, text in self._db.execute(query, [index]):
            with making_sense(FILE):
                whole = zlib.decompressobj().decompress(text, MAX_TEXT_BYTES)
            data = loads(dict[str, Any], whole)
            words = read(tuple[str, ...], data.pop("words", ()))
            found[backend, level] = Said(read(CompilerError, data), words)
        return found

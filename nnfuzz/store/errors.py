"""The whole error messages of compilers, so that findings can be keyed by other rules later.

Each text is kept once, compressed; a compiler that says the same a thousand times costs one row.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping

from nnfuzz.backend.complaint import CompilerError
from nnfuzz.base.reading import read
from nnfuzz.base.untrusted import MAX_TEXT_BYTES, making_sense
from nnfuzz.base.writing import as_json
from nnfuzz.records.rows import ErrorText
from nnfuzz.store.columns import dumps, loads
from nnfuzz.store.database import Table
from nnfuzz.store.schema import FILE

DIGEST_BYTES = 16
"""Bytes of SHA-256: two of a billion texts collide with a probability below 1e-20."""


class Errors(Table):
    """Error texts by test, backend and level."""

    def add(self, index: int, errors: Mapping[tuple[str, str], ErrorText]) -> None:
        """Keeps the texts of a test by (backend, level)."""
        for (backend, level), complaint in errors.items():
            text = dumps({**as_json(complaint.error), "words": complaint.words}).encode()
            digest = hashlib.sha256(text).digest()[:DIGEST_BYTES]
            row = zlib.compress(text)
            self._db.put("texts", digest=digest, text=row, conflict="ON CONFLICT DO NOTHING")
            self._db.put("errors", idx=index, backend=backend, level=level, digest=digest)

    def of_test(self, index: int) -> dict[tuple[str, str], ErrorText]:
        """Returns the texts of a test, by (backend, level). Raises: Unreadable."""
        query = """
            SELECT backend, level, text FROM errors JOIN texts USING (digest)
            WHERE idx = ? ORDER BY backend, level"""
        texts = {}
        for backend, level, text in self._db.execute(query, index):
            with making_sense(FILE):
                whole = zlib.decompressobj().decompress(text, MAX_TEXT_BYTES)
            written = loads(dict[str, object], whole)
            words = read(tuple[str, ...], written.pop("words", ()))
            texts[backend, level] = ErrorText(read(CompilerError, written), words)
        return texts

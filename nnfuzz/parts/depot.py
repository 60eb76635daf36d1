"""A place that several machines see: a folder, or what fsspec has an address for.

Files there are whole or absent, and never change: whoever writes one again leaves it as it is.
"""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path
from typing import Any

from nnfuzz.base.files import PARTIAL, write_atomically
from nnfuzz.base.untrusted import making_sense, read_bytes


class Depot:
    """url: a folder, which is made, or "s3://bucket/name" and its like (see fsspec).

    Raises: Unreadable if there is no such kind of address, or its library is missing.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._files: Any = None
        if "://" not in url:
            self._root = url
            return
        from fsspec.core import url_to_fs

        with making_sense(url):
            self._files, self._root = url_to_fs(url)

    def put(self, name: str, data: bytes) -> None:
        """Writes a file, unless it is there. Raises: Unreadable if that cannot be done."""
        with making_sense(f"{self.url}/{name}"):
            if self._exists(name):
                return
            if self._files is None:
                path = Path(self._root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(path, data)
                return
            folder, _, last = f"{self._root}/{name}".rpartition("/")
            draft = f"{folder}/{PARTIAL}{secrets.token_hex(8)}"
            self._files.makedirs(folder, exist_ok=True)
            self._files.pipe_file(draft, data)
            self._files.mv(draft, f"{folder}/{last}")

    def get(self, name: str) -> bytes | None:
        """What a file holds; None if it is not there. Raises: Unreadable."""
        if not self._exists(name):
            return None
        if self._files is None:
            return read_bytes(Path(self._root, name))
        with making_sense(f"{self.url}/{name}"):
            return bytes(self._files.cat_file(f"{self._root}/{name}"))

    def names(self, folder: str) -> list[str]:
        """Of the files in a folder of it, in order; none if there is no such folder."""
        if self._files is None:
            place = Path(self._root, folder)
            found = [path.name for path in place.iterdir()] if place.is_dir() else []
        else:
            self._files.invalidate_cache()
            found = []
            with making_sense(f"{self.url}/{folder}"), contextlib.suppress(FileNotFoundError):
                for path in self._files.ls(f"{self._root}/{folder}", detail=False):
                    found.append(str(path).rpartition("/")[2])
        return sorted(name for name in found if not name.startswith(PARTIAL))

    def _exists(self, name: str) -> bool:
        if self._files is None:
            return Path(self._root, name).exists()
        self._files.invalidate_cache()
        return bool(self._files.exists(f"{self._root}/{name}"))

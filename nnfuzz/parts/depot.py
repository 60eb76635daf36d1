"""A folder or address that several machines see.

Its files are whole or absent, and never change: writing one again leaves it as it is.
"""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path
from typing import Any

from nnfuzz.base.files import PARTIAL, write_once
from nnfuzz.base.untrusted import making_sense, read_bytes


class Depot:
    """url: a folder, which is made, or "s3://bucket/name" and its like (see fsspec).

    Raises: Unreadable if there is no such kind of address, or its library is missing.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._files: Any = None
        self._root = url
        if "://" in url:
            from fsspec.core import url_to_fs

            with making_sense(url):
                self._files, self._root = url_to_fs(url)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, and no address."""
        return self._files is None

    def put(self, name: str, data: bytes) -> None:
        """Writes a file, unless it exists. Raises: Unreadable if that cannot be done."""
        with making_sense(f"{self.url}/{name}"):
            if self.has(name):
                return
            if self._files is None:
                path = Path(self._root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                write_once(path, data)
                return
            folder, _, last = f"{self._root}/{name}".rpartition("/")
            draft = f"{folder}/{PARTIAL}{secrets.token_hex(8)}"
            self._files.makedirs(folder, exist_ok=True)
            self._files.pipe_file(draft, data)
            self._files.mv(draft, f"{folder}/{last}")

    def get(self, name: str) -> bytes | None:
        """Content of a file; None if it does not exist. Raises: Unreadable."""
        if not self.has(name):
            return None
        if self._files is None:
            return read_bytes(Path(self._root, name))
        with making_sense(f"{self.url}/{name}"):
            return bytes(self._files.cat_file(f"{self._root}/{name}"))

    def remove(self, name: str) -> None:
        """Removes a file, if it exists. Raises: Unreadable."""
        with making_sense(f"{self.url}/{name}"), contextlib.suppress(FileNotFoundError):
            if self._files is None:
                Path(self._root, name).unlink()
            else:
                self._files.rm_file(f"{self._root}/{name}")

    def names(self, folder: str) -> list[str]:
        """Names of the files in a folder, sorted; none if there is no such folder."""
        absent = contextlib.suppress(FileNotFoundError, NotADirectoryError)
        with making_sense(f"{self.url}/{folder}"), absent:
            if self._files is None:
                names = [path.name for path in Path(self._root, folder).iterdir()]
            else:
                self._files.invalidate_cache()
                paths = self._files.ls(f"{self._root}/{folder}", detail=False)
                names = [str(path).rpartition("/")[2] for path in paths]
            return sorted(name for name in names if not name.startswith(PARTIAL))
        return []

    def has(self, name: str) -> bool:
        """Whether a file exists."""
        if self._files is None:
            return Path(self._root, name).exists()
        self._files.invalidate_cache()
        return bool(self._files.exists(f"{self._root}/{name}"))

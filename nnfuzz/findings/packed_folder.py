"""A finding folder as one archive, packed.tar.xz, which takes a tenth of its place on the disk.

`tar xf packed.tar.xz` gives its files back, and all commands that read findings read packed ones
too. As long as the archive is there, it alone counts: files beside it are leftovers of a kill.
"""

from __future__ import annotations

import io
import lzma
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from nnfuzz.base.files import write_atomically
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.untrusted import MAX_ARRAY_BYTES, MAX_MEMBERS, below, making_sense, read_bytes

PACKED = "packed.tar.xz"
_MOMENT = 315_532_800  # of all files: 1980, the first year that every archiver takes
_PRESET = 1  # packing takes 9 MB of memory; 6, the default, takes 94, and is but 2 % smaller
_MEMORY = 128 << 20  # bytes that unpacking may need
_PIECE = 1 << 20  # bytes that are unpacked at a time


def is_packed(folder: Path) -> bool:
    return (folder / PACKED).is_file()


def pack_folder(folder: Path) -> None:
    """Puts an archive in place of a folder's files. A kill leaves either or both, and both whole.

    Raises: OSError.
    """
    if not is_packed(folder):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path in sorted(folder.rglob("*")):
                if path.is_file() and not path.is_symlink():
                    data = path.read_bytes()
                    member = tarfile.TarInfo(path.relative_to(folder).as_posix())
                    member.size, member.mtime = len(data), _MOMENT
                    archive.addfile(member, io.BytesIO(data))
        write_atomically(folder / PACKED, lzma.compress(buffer.getvalue(), preset=_PRESET))
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != PACKED:
            path.unlink()


def unpack_folder(folder: Path) -> None:
    """The inverse of `pack_folder`; does nothing to a folder that is not packed.

    Raises: OSError, Unreadable.
    """
    if is_packed(folder):
        _extract(folder / PACKED, folder)
        (folder / PACKED).unlink()


@contextmanager
def unpacked_files(folder: Path) -> Iterator[Path]:
    """The files of a folder that is packed, in a temporary place. Raises: OSError, Unreadable."""
    with tempfile.TemporaryDirectory() as scratch:
        _extract(folder / PACKED, Path(scratch))
        yield Path(scratch)


def _extract(archive: Path, folder: Path) -> None:
    """Unpacks an archive; writes nothing if it is damaged or too large."""
    data = read_bytes(archive)
    for write in (False, True):
        for name, content in _members(data, archive):
            path = below(folder, name)
            if write:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.unlink(missing_ok=True)  # it may be linked to from elsewhere
                with path.open("xb") as file:
                    shutil.copyfileobj(content, file)


def _members(data: bytes, archive: Path) -> Iterator[tuple[str, IO[bytes]]]:
    """Names and contents, each to be read before the next. Raises: Unreadable."""
    with making_sense(archive):
        stream = _Stream(data, archive)
        with tarfile.open(fileobj=stream, mode="r|") as files:
            for count, member in enumerate(files):
                content = files.extractfile(member) if member.isreg() else None
                if content is None:
                    raise Unreadable(f"{archive} is damaged: {member.name!r} is no regular file")
                if count >= MAX_MEMBERS:
                    raise Unreadable(f"{archive} has more than {MAX_MEMBERS:,} members")
                yield member.name, content
        while stream.read(_PIECE):  # to its very end, or it is cut off
            pass


class _Stream(io.RawIOBase):
    """The content of an xz file, piece by piece. Reading raises: Unreadable, LZMAError."""

    def __init__(self, data: bytes, archive: Path) -> None:
        self._archive = archive
        self._packed = data
        self._unpacked = 0
        self._decompressor = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY)

    def read(self, size: int = _PIECE) -> bytes:
        if self._decompressor.eof:
            return b""
        piece = self._decompressor.decompress(self._packed, size)
        self._packed = b""
        self._unpacked += len(piece)
        if self._unpacked > MAX_ARRAY_BYTES:
            raise Unreadable(
                f"{self._archive} is damaged: it unpacks to more than {MAX_ARRAY_BYTES:,} bytes"
            )
        if not piece and not self._decompressor.eof:
            raise Unreadable(f"{self._archive} is damaged: it is cut off")
        return piece

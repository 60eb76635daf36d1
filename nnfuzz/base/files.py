"""Files that are whole or absent: atomic folders, deterministic npz archives."""

from __future__ import annotations

import io
import os
import secrets
import shutil
import stat
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

PARTIAL = ".partial-"
"""Prefix of a folder that is being written; one that remains is a leftover of a kill."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder beside `folder` that takes its name when the block ends well.

    Everything is on the disk before the name is. On an exception nothing is left.
    Raises: FileExistsError if `folder` is there already, before or after.
    """
    if folder.exists():
        raise FileExistsError(f"{folder} exists already")
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = folder.parent / f"{PARTIAL}{folder.name}-{secrets.token_hex(8)}"
    made.mkdir()
    try:
        yield made
        for path in sorted(made.rglob("*"), reverse=True):
            _sync(path)
        _sync(made)
        made.rename(folder)
        _sync(folder.parent)
    except BaseException as error:
        shutil.rmtree(made, ignore_errors=True)
        if isinstance(error, OSError) and folder.exists():
            raise FileExistsError(f"{folder} exists already") from error
        raise


def write_atomically(path: Path, data: bytes) -> None:
    """Replaces or makes a file in one step, with the rights that the umask leaves."""
    name = path.parent / f"{PARTIAL}{secrets.token_hex(8)}"
    try:
        with open(name, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        name.unlink(missing_ok=True)  # on a full disk it would take the last of the space
        raise


def copy_files(source: Path, target: Path) -> None:
    """A folder with its folders and regular files; links and pipes, which no finding has, stay.

    Raises: OSError.
    """

    def others(place: str, names: list[str]) -> list[str]:
        modes = {name: os.lstat(os.path.join(place, name)).st_mode for name in names}
        return [n for n, mode in modes.items() if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)]

    try:
        shutil.copytree(source, target, ignore=others)
    except shutil.Error as error:
        raise OSError(str(error.args[0][0][-1])) from error


def remove_partial(parent: Path) -> None:
    """Deletes the leftovers of killed writers in a folder. No writer may be at work there."""
    for path in parent.glob(f"{PARTIAL}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """An npz archive of any names (np.savez refuses "file"); equal arrays give equal bytes.

    Elements that NumPy reads through ml_dtypes only are stored as unsigned integers of the same
    bits, in a member called NAME@DTYPE (nnfuzz.base.untrusted.read_npz reads them back).

    Raises: ValueError for object arrays, which only pickle could store.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            key, bits = _bits(name, np.asanyarray(array))
            np.lib.format.write_array(member, bits, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{key}.npy", _EPOCH), member.getvalue())
    return buffer.getvalue()


def _bits(name: str, array: np.ndarray) -> tuple[str, np.ndarray]:
    if array.dtype.isbuiltin != 2:  # 2: registered by another library
        return name, array
    return f"{name}@{array.dtype.name}", array.view(f"u{array.dtype.itemsize}")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cache_folder() -> Path:
    """Where nnfuzz keeps answers between campaigns, such as support tables."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("nnfuzz"))

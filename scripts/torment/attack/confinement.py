"""Keeps a process and its descendants from writing outside of a folder, and from the network.

The kernel does that (Landlock, and a namespace of networks), for good: nothing that the process
runs later can undo it.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from nnfuzz.sandbox.zygote import prctl

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # system calls
_BENEATH_PATH = 1
_NO_NEW_PRIVILEGES = 38
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_WRITING = _WRITE_FILE | _TRUNCATE | sum(1 << bit for bit in range(4, 14))
"""Rights of linux/landlock.h to write, make, remove, link, rename and truncate files."""
_LEAST_VERSION = 3  # of Linux 6.2, the first one that knows all of these
_TCP = 1 << 0 | 1 << 1  # to bind and to connect, since version 4
_OUTSIDE = 1 << 0 | 1 << 1  # abstract sockets and signals of other processes, since version 6
_CLONE_NEWNET = 0x40000000


def confines() -> bool:
    """Whether this kernel can confine a process."""
    return _version() >= _LEAST_VERSION


def confine(folders: Iterable[Path], alone: bool = False) -> None:
    """Restricts writes of this process and its descendants to some folders.

    alone: whether it is cut off from networks and from signals to other processes as well, as far
    as the kernel can do that. Raises: OSError if this kernel cannot restrict writes.
    """
    version = _version()
    if version < _LEAST_VERSION:
        raise OSError("this kernel cannot confine a process: it takes Landlock of Linux 6.2")
    rules = [_WRITING]
    if alone:
        ctypes.CDLL(None).unshare(_CLONE_NEWNET)  # a network without connections, if it may
        rules += [_TCP] if version >= 4 else []
        rules += [_OUTSIDE] if version >= 6 else []
    packed = struct.pack(f"<{len(rules)}Q", *rules)
    ruleset = _call(_CREATE_RULESET, packed, len(packed), 0)
    places = [*((folder, _WRITING) for folder in folders)]
    for path, rights in (*places, (Path(os.devnull), _WRITE_FILE | _TRUNCATE)):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        _call(_ADD_RULE, ruleset, _BENEATH_PATH, struct.pack("<Qi", rights, place), 0)
        os.close(place)
    prctl(_NO_NEW_PRIVILEGES, 1)
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _version() -> int:
    """The version of Landlock that this kernel has; 0 without it."""
    try:
        return _call(_CREATE_RULESET, None, 0, 1)
    except OSError:
        return 0


def _call(number: int, *arguments: object) -> int:
    """A system call. Raises: OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    found: int = libc.syscall(number, *arguments)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found

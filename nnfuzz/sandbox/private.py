"""A worker's own /dev/shm, so that the files that a killed compiler leaves there go with it."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE = 1 << 1, 1 << 2, 1 << 14, 1 << 18
SHARED_MEMORY = Path("/dev/shm")


def own_shared_memory() -> bool:
    """Gives this process and its descendants an empty /dev/shm of their own, which the kernel
    frees when the last of them has ended. The process must have a single thread.

    Returns whether it did: Linux needs the privilege to mount, or namespaces of users for that.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if not SHARED_MEMORY.is_dir() or not _own_mounts(libc):
        return False
    everything = libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)
    flags = MS_NOSUID | MS_NODEV
    return not everything and not libc.mount(b"shm", bytes(SHARED_MEMORY), b"tmpfs", flags, None)


def _own_mounts(libc: ctypes.CDLL) -> bool:
    """Whether mounts of this process are its own now."""
    if libc.unshare(CLONE_NEWNS) == 0:
        return True
    user, group = os.geteuid(), os.getegid()
    # Without a map of its user a process could not make files any more.
    writable = os.access("/proc/self/uid_map", os.W_OK)
    if not writable or libc.unshare(CLONE_NEWNS | CLONE_NEWUSER) != 0:
        return False
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return True

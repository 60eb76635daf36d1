"""Files in shared memory go with the process that made them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nnfuzz.sandbox.private import SHARED_MEMORY

LEFT = """
import os, sys
from pathlib import Path
from nnfuzz.sandbox.private import own_shared_memory
from nnfuzz.sandbox.zygote import prctl
if sys.argv[3:]:  # a user without privileges
    os.setgid(65534), os.setuid(65534)
    prctl(4, 1)  # PR_SET_DUMPABLE, which a change of the user clears
owned = own_shared_memory()
Path("/dev/shm", sys.argv[1]).write_bytes(b"left")
print(owned, sorted(os.listdir("/dev/shm")) == [sys.argv[1]], os.access(sys.argv[2], os.W_OK))
"""


@pytest.mark.parametrize("unprivileged", [False, True])
def test_what_is_left_in_shared_memory_goes_with_the_process(tmp_path, unprivileged):
    name = f"nnfuzz-test-{tmp_path.name}"
    others = ("/tmp", "unprivileged") if unprivileged else (str(tmp_path),)
    done = subprocess.run(
        [sys.executable, "-c", LEFT, name, *others], capture_output=True, text=True
    )
    left = SHARED_MEMORY / name
    left_there = left.exists()
    left.unlink(missing_ok=True)
    if not done.stdout.startswith("True"):
        pytest.skip(f"no namespaces here: {done.stderr or done.stdout}")
    assert not left_there and done.stdout == "True True True\n"

"""What a confined process can write to and reach."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from nnfuzz.sandbox.confinement import confines

PROGRAM = """
import os, signal, socket, subprocess, sys
from pathlib import Path
from nnfuzz.sandbox.confinement import confine

inside, outside, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
confine([Path(inside)], alone=True)
connection, datagram = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
deeds = {
    "inside": lambda: Path(inside, "file").write_text("written"),
    "outside": lambda: Path(outside, "file").write_text("written"),
    "child": lambda: subprocess.run(["touch", f"{outside}/child"], check=True, stderr=-3),
    "remove": lambda: Path(outside, "bait").unlink(),
    "link": lambda: (Path(inside, "link").symlink_to(outside), Path(inside, "link", "x").mkdir()),
    "connect": lambda: connection.connect(("127.0.0.1", port)),
    "send": lambda: datagram.sendto(b"x", ("127.0.0.1", port)),
    "signal": lambda: os.kill(os.getppid(), 0),
}
for name, deed in deeds.items():
    try:
        deed()
        print(name)
    except (OSError, subprocess.CalledProcessError):
        pass
"""


@pytest.mark.skipif(not confines(), reason="the kernel cannot confine a process")
def test_a_confined_process_writes_to_its_folder_and_reaches_nothing_else(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir()
    (outside / "bait").write_text("precious")
    with socket.create_server(("127.0.0.1", 0)) as server:
        given = [str(inside), str(outside), str(server.getsockname()[1])]
        program = [sys.executable, "-c", PROGRAM, *given]
        done = subprocess.run(program, capture_output=True, text=True)
    assert done.stdout.split() == ["inside"], done
    assert [file.name for file in outside.iterdir()] == ["bait"]

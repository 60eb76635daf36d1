"""When the campaign's own thread stands still, another one says where."""

from __future__ import annotations

import os
import time
from pathlib import Path

from nnfuzz.campaign import watchdog
from nnfuzz.campaign.watchdog import Watchdog
from nnfuzz.sandbox import own_time


def test_what_blocks_is_told_with_its_place_and_that_it_goes_on(tmp_path, monkeypatch):
    notes: list[str] = []
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def on_a_dead_share(path: Path, data: bytes) -> None:
        pipe.read_bytes()  # nobody writes there yet

    monkeypatch.setattr(watchdog, "OWN", str(Path(__file__).parent) + os.sep)
    looks = [0]

    def note(text: str) -> None:
        notes.append(text)
        if len(notes) == 2:
            pipe.write_bytes(b"")

    with Watchdog(note, lambda: looks[0], patience=0.2) as watching:
        on_a_dead_share(tmp_path, b"")
        looks[0] += 1
        while len(notes) < 3:
            time.sleep(0.01)
    assert "has not gone on" in notes[0] and "on_a_dead_share (test_watchdog.py:" in notes[0]
    assert str(tmp_path) in notes[0]
    assert "has not gone on" in notes[1]  # after twice the time
    assert notes[2].startswith("the campaign goes on, after")
    assert watching.standstills == 1


def test_who_looks_or_computes_goes_on(monkeypatch):
    monkeypatch.setattr(own_time, "LOOK_SECONDS", 0.05)  # as if it was watched for minutes
    notes: list[str] = []
    looks = [0]
    with Watchdog(notes.append, lambda: looks[0], patience=0.4):
        end = time.monotonic() + 0.8
        while time.monotonic() < end:
            looks[0] += 1
            time.sleep(0.02)
        end = time.thread_time() + 0.4
        while time.thread_time() < end:
            pass
    assert notes == []

"""`nnfuzz serve` waits for a campaign whose folder is not there yet, or empty."""

from __future__ import annotations

import threading
import time

from nnfuzz.serve.server import await_campaign


def test_a_campaign_that_has_not_begun_is_waited_for(tmp_path):
    folder, lines = tmp_path / "camp", []
    waiting = threading.Thread(target=await_campaign, args=(str(folder), lines.append, 0.01))
    waiting.start()
    while not lines:
        time.sleep(0.01)
    folder.mkdir()
    time.sleep(0.1)
    assert waiting.is_alive()
    (folder / "campaign.sqlite").touch()
    waiting.join(10)
    assert not waiting.is_alive()
    assert lines == [f"{folder}: waiting for a campaign to begin there: nnfuzz fuzz --out {folder}"]


def test_what_is_there_or_elsewhere_is_not_waited_for(tmp_path):
    file = tmp_path / "file"
    file.touch()
    lines: list[str] = []
    for source in (str(tmp_path), str(file), "s3://bucket/tvm"):
        await_campaign(source, lines.append)
    assert not lines

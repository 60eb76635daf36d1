"""A server that cannot start says why."""

import sys
import threading
import time

import pytest

from nnfuzz.cli.main import application as application_of_the_cli
from nnfuzz.cli.main import run
from nnfuzz.serve.server import ServeError, await_campaign, serve
from tests.serve.test_guard import TOKEN


def test_what_cannot_be_served_is_told(store):
    with pytest.raises(ServeError, match="guessed"):
        serve(str(store.folder), "127.0.0.1", 0, "short", print)
    with pytest.raises(ServeError, match="choose another --port"):
        serve(str(store.folder), "203.0.113.1", 1, TOKEN, print)


def test_missing_packages_are_named(store, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "nnfuzz.serve.server")
    with pytest.raises(SystemExit) as ended:
        run(lambda: application_of_the_cli()(["serve", str(store.folder)]))
    assert ended.value.code == 2
    assert "nnfuzz serve needs uvicorn: pip install 'nnfuzz[serve]'" in capsys.readouterr().err


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


def test_what_is_there_is_not_waited_for(tmp_path):
    file = tmp_path / "file"
    file.touch()
    lines: list[str] = []
    for source in (str(tmp_path), str(file)):
        await_campaign(source, lines.append)
    assert not lines

"""What is new is handed to a command."""

import json
from dataclasses import replace

from nnfuzz.watch.announcing import announce, news
from tests.bugs.conftest import BUG, ledger

__all__ = ["ledger"]


def test_only_what_nobody_was_told_of_is_new(ledger):
    (first,) = news(ledger, ())
    assert news(ledger, [first.id]) == []
    ledger.put("numpy/pow", replace(BUG, title="other", notes=("2026-11-24 fixed in 3.0",)))
    (second,) = news(ledger, [first.id])
    assert second.text == "fixed in 3.0"


def test_the_command_gets_json_and_its_failure_is_a_line(ledger, tmp_path):
    said = []
    address = "https://example.org/x/"
    assert announce(f"cat > {tmp_path}/news.json", news(ledger, ()), address, said.append)
    (row,) = json.loads((tmp_path / "news.json").read_text())["events"]
    assert row["id"] == news(ledger, ())[0].id
    assert row["bug"] == "numpy/pow" and row["page"] == f"{address}pages/numpy/pow.html"
    assert not announce("echo no >&2; exit 4", news(ledger, ()), "", said.append)
    assert said == ["the command of announce ended with 4, once more after a turn: no"]

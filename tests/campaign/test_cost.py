"""What a test costs the campaign's process, in counts that are the same on every machine."""

from __future__ import annotations

import drive

from nnfuzz.base.writing import as_json
from nnfuzz.campaign.session import run_campaign
from nnfuzz.cli.progress import Silent
from nnfuzz.store.store import Store

TESTS = 200
MOST_STATEMENTS, MOST_COMMITS = 4.5, 0.1
"""For each test that agrees: its row, and a share of what is written for many tests at once."""


def test_a_test_that_agrees_takes_few_statements_of_sql(tmp_path):
    config, registry = drive.settings(TESTS, "quiet", "liar")
    statements: list[str] = []
    with Store.create(tmp_path / "c", as_json(config)) as store:
        store.connection.set_trace_callback(statements.append)
        result = run_campaign(store, config, registry, Silent(), tmp_path / "cache", lambda: False)
    assert result.summary.tests == TESTS and result.findings == []
    commits = sum(text.startswith("COMMIT") for text in statements)
    assert len(statements) / TESTS < MOST_STATEMENTS, len(statements)
    assert commits / TESTS < MOST_COMMITS, commits

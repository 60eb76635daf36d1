"""A campaign on a compiler that attacks it ends with a record of every test, and goes on."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import attacking_producer
import drive

from nnfuzz.base.writing import as_json
from nnfuzz.campaign.session import run_campaign
from nnfuzz.cli.progress import Lines
from nnfuzz.store.store import Store

TESTS = 2 * len(attacking_producer.ATTACKS)


def settings(tests, registry):
    config, _ = drive.settings(tests, "quiet", "liar")
    service = replace(config.producer, service="attacking_producer:service")
    return replace(config, producer=service, backends=(registry.parse("attacker,timeout=20"),))


@pytest.fixture(scope="module")
def campaign(tmp_path_factory, registry):
    """The folder, the store's rows and findings, and the summary; the second half is resumed."""
    folder = tmp_path_factory.mktemp("attacks") / "campaign"
    cache = folder.parent / "cache"
    with (folder.parent / "log").open("w", encoding="ascii", errors="backslashreplace") as log:
        for tests in (TESTS // 2, TESTS):
            config = settings(tests, registry)
            first = not folder.exists()
            store = Store.create(folder, as_json(config)) if first else Store.open(folder)
            with store:
                result = run_campaign(store, config, registry, Lines(log), cache)
                seen = [*store.tests.rows()], store.findings(), store.events.rows()
    return folder, *seen, result.summary


def test_every_test_is_recorded_once(campaign):
    _, rows, _, events, summary = campaign
    assert [row.index for row in rows] == [*range(TESTS)]
    assert {row.status for row in rows} == {"run"}, [e for e in events if e.kind == "fault"]
    assert summary.faults == 0


def test_every_finding_has_its_folder_with_text_that_can_be_read(campaign):
    folder, _, findings, _, _ = campaign
    assert {f.kind for f in findings} == {"crash", "exception"}
    for found in findings:
        assert (folder / found.folder / "finding.json").is_file()
        for file in (folder / found.folder).rglob("*.*"):
            if file.suffix in (".md", ".json", ".py"):
                assert not set("\x1b\x00\x9b\u202e") & set(file.read_text("utf-8")), file

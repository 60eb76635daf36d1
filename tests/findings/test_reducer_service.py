"""The process that reduces findings."""

from __future__ import annotations

from pathlib import Path

from nnfuzz.findings.reducer_service import reduction_service


def test_the_worker_reads_relative_paths_as_the_campaign_wrote_them(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    reduction_service(folder=str(tmp_path))
    assert Path.cwd() == tmp_path

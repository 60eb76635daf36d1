"""`nnfuzz fuzz --ray`: runs a campaign on a cluster and merges its parts at the end."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from nnfuzz.base.writing import as_json
from nnfuzz.cli.errors import UsageError, tell, writing

if TYPE_CHECKING:
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.campaign.session import CampaignResult
    from nnfuzz.records.config import CampaignConfig


@dataclass(frozen=True)
class Work:
    """The folder beside a campaign's that holds its settings and the state of its coordinator."""

    out: Path

    @classmethod
    def of(cls, out: Path | None) -> Work:
        """Raises: UsageError."""
        if out is None:
            raise UsageError("--resume needs --out DIR: which campaign is to go on?")
        return cls(out)

    @property
    def folder(self) -> Path:
        return self.out.with_name(f"{self.out.name}.cluster")

    @property
    def _config(self) -> Path:
        return self.folder / "config.json"

    def config(self) -> CampaignConfig:
        """Raises: UsageError, Unreadable."""
        from nnfuzz.base.untrusted import read_json
        from nnfuzz.records.config import CampaignConfig, refuse_guided

        if not self._config.exists():
            raise UsageError(f"{self.out} is of no campaign with --ray: {self._config} is missing")
        stored = read_json(self._config)
        refuse_guided(stored)
        return CampaignConfig.from_json(stored)

    def begin(self, config: CampaignConfig, resumes: bool) -> None:
        """Raises: UsageError if another campaign is there."""
        from nnfuzz.base.files import write_atomically

        there = [p for p in (self.folder, self.out) if p.exists() and any(p.iterdir())]
        if there and not resumes:
            raise UsageError(f"{there[0]} holds other files: choose another --out, or --resume")
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self._config, json.dumps(as_json(config), indent=1).encode())


def fuzz_on_cluster(
    config: CampaignConfig,
    registry: BackendRegistry,
    work: Work,
    resumes: bool,
    quiet: bool,
    address: str,
    given: Mapping[str, object],
) -> tuple[CampaignResult, CampaignConfig]:
    """Runs a session and writes the merged campaign.

    given: settings of the command line. Without `workers` among them, each node has as many as suit
    its cores. Raises: UsageError, ConfigError.
    """
    from nnfuzz.backend.target import CPU
    from nnfuzz.campaign.session import CampaignResult
    from nnfuzz.cli.interrupt import Interrupt
    from nnfuzz.cli.progress import watcher
    from nnfuzz.parts.merging import merge
    from nnfuzz.store.summary import read_summary

    if importlib.util.find_spec("ray") is None:
        raise UsageError(
            f"--ray needs Ray, which is not here: {sys.executable} -m pip install 'nnfuzz[ray]'"
        )
    from nnfuzz.cluster import on_ray

    config = replace(config, share=config.share or str((work.folder / "share").resolve()))
    with on_ray.connected(address):
        local = Path(config.share).is_relative_to(work.folder.resolve())
        if local and on_ray.machines() > 1:
            raise UsageError(
                "the cluster has several machines: add --share DIR|URL, which all of them see"
            )
        work.begin(config, resumes)
        devices = {registry.get(s.name)(**s.options).device for s in config.backends}
        settings = {**as_json(config), **({} if "workers" in given else {"workers": 0})}
        with Interrupt() as interrupt, watcher(quiet, config, work.out) as observer:
            on_ray.run(config, settings, work.folder, devices != {CPU}, observer, interrupt.asked)
    with merge([config.share], work.out, tell) as store:
        return CampaignResult.of(store, read_summary(work.out)), config

"""What backends take, asked of their probes before something is made for them."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnfuzz.base.writing import as_json

if TYPE_CHECKING:
    from nnfuzz.backend.registry import BackendRegistry, BackendSpec
    from nnfuzz.testcase.case import CaseConfig


def unsupported(
    registry: BackendRegistry, specs: tuple[BackendSpec, ...], case: CaseConfig
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The signatures of a configuration that some backend calls unsupported, and all versions.

    They are probed at every level for FIRST_SECONDS at most; what lasts is kept between runs, so
    that the next one goes on. Raises: RunnerError, ConfigError, PoolError.
    """
    from nnfuzz.campaign.session import run_probes
    from nnfuzz.cli.progress import watcher
    from nnfuzz.feedback.support_cache import SupportCache
    from nnfuzz.library.folders import cache_folder
    from nnfuzz.library.settings import default_processes
    from nnfuzz.records.config import FIRST_SECONDS, CampaignConfig
    from nnfuzz.store.store import Store

    case = replace(case, seed_models=(), seed_digest="")
    processes: dict[str, Any] = {**default_processes(len(specs))}
    config = CampaignConfig(specs, case, reduce=False, **processes)
    with tempfile.TemporaryDirectory(prefix="nnfuzz-probes-") as name:
        folder = Path(name) / "campaign"
        cache = SupportCache(cache_folder())
        with (
            Store.create(folder, as_json(config)) as store,
            watcher(
                False, config, folder, f"for at most {FIRST_SECONDS:.0f} s probing"
            ) as observer,
        ):
            result, tables = run_probes(
                store, config, registry, observer, cache, seconds=FIRST_SECONDS
            )
    refused = {str(key) for table in tables.values() for key in table.refused()}
    return tuple(sorted(refused)), dict(result.summary.versions)

"""The operators that backends take, determined by probes before models are made for them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.writing import as_json
from nnfuzz.campaign.session import run_probes
from nnfuzz.feedback.support_cache import SupportCache
from nnfuzz.library.folders import cache_folder
from nnfuzz.library.settings import Specs, default_workers
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.observer import Observer
from nnfuzz.records.settings import FIRST_SECONDS
from nnfuzz.store.store import Store
from nnfuzz.testcase.case import CaseConfig

Watcher = Callable[[CampaignConfig, Path, str], AbstractContextManager[Observer]]
"""Opens a display of a campaign in a folder; the text says what it does."""


def unsupported(
    registry: BackendRegistry, specs: Specs, case: CaseConfig, watcher: Watcher
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The signatures of a configuration that some backend calls unsupported, and all versions.

    They are probed at every level for FIRST_SECONDS at most; answers are kept between runs, so that
    the next one goes on. Raises: RunnerError, ConfigError, PoolError.
    """
    case = replace(case, seed_models=(), seed_digest="")
    config = CampaignConfig(tuple(specs), case, reduce=False, workers=default_workers())
    what = f"for at most {FIRST_SECONDS:.0f} s probing"
    with tempfile.TemporaryDirectory(prefix="nnfuzz-probes-") as name:
        folder, cache = Path(name) / "campaign", SupportCache(cache_folder())
        with (
            Store.create(folder, as_json(config)) as store,
            watcher(config, folder, what) as observer,
        ):
            result, _ = run_probes(store, config, registry, observer, cache, seconds=FIRST_SECONDS)
    return tuple(sorted(result.refused)), dict(result.summary.versions)

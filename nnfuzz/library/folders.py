"""The folders that nobody names."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import platformdirs

from nnfuzz.backend.registry import BackendSpec


def cache_folder() -> Path:
    """Where support tables are kept between campaigns."""
    return Path(platformdirs.user_cache_dir("nnfuzz"))


def default_folder(specs: Sequence[BackendSpec], prefix: str = "") -> Path:
    """A folder that does not exist yet, named after the backends and the time."""
    names = "+".join(spec.name for spec in specs)
    stem = Path("nnfuzz-out") / f"{prefix}{names}-{datetime.now():%Y%m%d-%H%M%S}"
    folder, number = stem, 1
    while folder.exists():
        number += 1
        folder = stem.with_name(f"{stem.name}-{number}")
    return folder

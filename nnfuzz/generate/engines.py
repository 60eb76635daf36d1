"""The engines by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.engine import Direct, Engine, Symbolic
from nnfuzz.generate.mutate import Mutate

MADE: Mapping[str, Callable[[Catalog, GenerateConfig], Engine]] = {
    "direct": Direct,
    "symbolic": Symbolic,
    "mutate": Mutate,
}


def engine(name: str, catalog: Catalog, config: GenerateConfig) -> Engine:
    """The engine of a name. Raises: KeyError for an unknown name."""
    if name not in MADE:
        raise KeyError(f"there is no engine {name!r}; there are {', '.join(MADE)}")
    return MADE[name](catalog, config)

"""Keeps names of modules alive that adapters and operators of others import.

`nnfuzz.execute` is `nnfuzz.backend` today, and `nnfuzz.spec` is `nnfuzz.operators`; plug-ins that
were written for an earlier nnfuzz, and those inside of old findings, use the old names. An old name
gives the module itself, not a second copy.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType

_PREFIXES = {
    "nnfuzz.execute.backend": "nnfuzz.backend.contract",
    "nnfuzz.execute": "nnfuzz.backend",
    "nnfuzz.spec": "nnfuzz.operators",
}


def new_name(name: str) -> str:
    """The name of a module today; "" if it has not changed."""
    for old, new in _PREFIXES.items():
        if name == old or name.startswith(old + "."):
            return new + name.removeprefix(old)
    return ""


class _Moved:
    """Finds modules by their old names."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(name, _Renamed()) if new_name(name) else None


class _Renamed(Loader):
    """Loads a module by its new name."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new = new_name(spec.name)
        warnings.warn(f"{spec.name} is {new} today", DeprecationWarning, stacklevel=2)
        module = import_module(new)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # which the import by the old name has replaced


def keep_old_names() -> None:
    """Makes old names importable in this process. It comes first of all finders: another one would
    find the files of the new package, and load them a second time.
    """
    sys.meta_path.insert(0, _Moved())

"""Temporary replacement of attributes of foreign modules.

Exporters spend most of their time on work whose result never changes. A `Patch` replaces such a
function by a faster one with the same result. If torch lacks one of the names, nothing is patched.
Not thread-safe.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Patch:
    """Replacement of the attribute `name` of a module or class `owner`."""

    owner: Any
    name: str
    replacement: Any


def patches(build: Callable[[], Sequence[Patch]]) -> tuple[Patch, ...]:
    """The patches of `build`, or none if a private name that it uses is missing."""
    try:
        found = tuple(build())
    except (ImportError, AttributeError):
        return ()
    return found if all(hasattr(p.owner, p.name) for p in found) else ()


@contextlib.contextmanager
def patched(found: Sequence[Patch]) -> Iterator[None]:
    """Apply patches inside of the block."""
    saved = [(p, vars(p.owner)[p.name]) for p in found]
    try:
        for patch in found:
            setattr(patch.owner, patch.name, patch.replacement)
        yield
    finally:
        for patch, original in reversed(saved):
            setattr(patch.owner, patch.name, original)


class Shortened:
    """An exporter's call, made faster by patches.

    If the patched call raises, the unpatched call is tried, so that no failure is due to a patch.
    `silence`: patches that keep the unpatched call from printing.
    """

    def __init__(
        self,
        stock: Callable[..., bytes],
        shortcuts: Callable[[], Sequence[Patch]],
        silence: Callable[[], Sequence[Patch]] = tuple,
    ) -> None:
        self._stock = stock
        self._shortcuts = shortcuts
        self._silence = silence

    @functools.cached_property
    def shortcuts(self) -> tuple[Patch, ...]:
        return patches(self._shortcuts)

    @functools.cached_property
    def silence(self) -> tuple[Patch, ...]:
        return patches(self._silence)

    def __call__(self, *call: object) -> bytes:
        """Arguments and result are those of `stock`."""
        if self.shortcuts:
            try:
                with patched(self.shortcuts):
                    return self._stock(*call)
            except Exception:  # the call below decides
                pass
        with patched(self.silence):
            return self._stock(*call)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No warnings inside of the block."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def unlogged() -> Iterator[None]:
    """No log records below ERROR inside of the block; costs a millisecond with many loggers."""
    disabled = logging.root.manager.disable
    logging.disable(max(disabled, logging.WARNING))
    try:
        yield
    finally:
        logging.disable(disabled)


class Overlay:
    """A module with replacements for some of its attributes."""

    def __init__(self, module: Any, **replacements: object) -> None:
        """Raises: AttributeError if the module has no attribute of a replacement's name."""
        for name in replacements:
            getattr(module, name)
        self.__dict__.update(replacements)
        self.__dict__["_module"] = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        self.__dict__[name] = value
        return value


def do_nothing(*args: object) -> None:
    """Replaces a function that only checks, prints or annotates."""


def private(name: str) -> Any:
    """Imports an undocumented module. Raises: ImportError."""
    return importlib.import_module(name)

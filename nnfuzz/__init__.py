"""Finds bugs in deep-learning compilers. The names below are imported when they are first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nnfuzz.execute.target import Target
    from nnfuzz.experiment.blocking import Experiment

__all__ = ["Experiment", "Target"]
_PLACES = {"Experiment": "nnfuzz.experiment.blocking", "Target": "nnfuzz.execute.target"}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

"""Random attacks on nnfuzz by surface: messages of workers, files and folders of others.

A surface is a context manager that yields a function. Given a source of randomness, the function
carries out one attack and returns what went wrong, or "". Every attack has to end within SECONDS
and to raise nothing.
"""

from __future__ import annotations

import random
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

Attack = Callable[[random.Random], str]
Surface = Callable[[], AbstractContextManager[Attack]]
SECONDS = 90
"""Time limit of one attack; the slowest ones replace a worker, on a loaded machine."""


class Hang(BaseException):
    """Raised when an attack exceeds its time limit."""


def run(
    name: str, surface: Surface, seed: int, first: int, count: int
) -> Iterator[tuple[int, str]]:
    """Runs attacks `first` to `first + count - 1`, each of which depends on the seed, the surface
    and its number; yields the number and what went wrong, or "".
    """
    with surface() as attack:
        for number in range(first, first + count):
            yield number, one(attack, random.Random(f"{seed}/{name}/{number}"), SECONDS)


def one(attack: Attack, rng: random.Random, seconds: float) -> str:
    """Runs one attack; returns what went wrong."""
    try:
        with limited(seconds):
            return attack(rng)
    except (Exception, Hang, SystemExit, GeneratorExit):
        return traceback.format_exc()


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    def expired(signum: int, frame: object) -> None:
        raise Hang(f"after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def surfaces() -> dict[str, Surface]:
    """The surfaces by name, in the order in which they run."""
    from scripts.torment.attack import folders, workers

    return {**workers.SURFACES, **folders.SURFACES}

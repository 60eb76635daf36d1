"""Random attacks on nnfuzz by surface: contents of workers' answers, files and folders of others.

A surface is a context manager that yields a function. Given a source of randomness, the function
carries out one attack and returns what went wrong, or "". `run` also checks that every attack ends
within SECONDS and raises nothing. `surfaces` lists them.
"""

from __future__ import annotations

import random
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

Attack = Callable[[random.Random], str]
SECONDS = 90
"""Time limit of one attack; the slowest ones replace a worker or start a program, on a loaded
machine."""


@dataclass(frozen=True)
class Surface:
    """A surface of attacks. share: its attacks in a run, relative to the other surfaces. seconds:
    time limit of an attack.
    """

    name: str
    share: float
    open: Callable[[], AbstractContextManager[Attack]]
    about: str
    seconds: float = 0.0


@dataclass
class Tally:
    """The result of the attacks on a surface. trouble: number of an attack -> what went wrong."""

    attacks: int = 0
    seconds: float = 0.0
    trouble: dict[int, str] = field(default_factory=dict)


class Hang(BaseException):
    """Raised when an attack exceeds its time limit."""


def run(
    surface: Surface, seed: int, first: int, count: int, tally: Tally
) -> Iterator[tuple[int, str]]:
    """Runs attacks `first` to `first + count - 1`; each depends on seed, surface and number. Adds
    each to the tally and yields its number and what went wrong, or "".
    """
    begun = time.monotonic()
    with surface.open() as attack:
        for number in range(first, first + count):
            rng = random.Random(f"{seed}/{surface.name}/{number}")
            problem = one(attack, rng, surface.seconds or None)
            tally.attacks += 1
            tally.seconds = time.monotonic() - begun
            if problem:
                tally.trouble[number] = problem
            yield number, problem


def one(attack: Attack, rng: random.Random, seconds: float | None = None) -> str:
    """Runs one attack; returns what went wrong. seconds: default SECONDS."""
    try:
        with limited(SECONDS if seconds is None else seconds):
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
    from scripts.torment.attack import folders, frames, programs, workers

    found = (*(*frames.SURFACES, *workers.SURFACES, *folders.SURFACES, *programs.SURFACES),)
    return {surface.name: surface for surface in found}

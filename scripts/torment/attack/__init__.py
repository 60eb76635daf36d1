"""Random attacks on nnfuzz, by surface: what a worker, a file, or a folder of somebody else holds.

A surface is a context manager that yields a function: given a source of randomness it carries out
one attack and says what went wrong, "" if nothing did. `run` adds what holds for all of them: an
attack ends within SECONDS, and raises nothing. New surfaces stand in SURFACES.
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
"""That one attack may take; the slowest have a worker replaced, or start a program, on a machine
that does ten other things."""


@dataclass(frozen=True)
class Surface:
    """share: of the attacks of a run, relative to those of the other surfaces."""

    name: str
    share: float
    open: Callable[[], AbstractContextManager[Attack]]
    about: str


@dataclass
class Tally:
    """What came of the attacks on a surface. trouble: by number of the attack."""

    attacks: int = 0
    seconds: float = 0.0
    trouble: dict[int, str] = field(default_factory=dict)


class Hang(BaseException):
    """An attack took longer than it may."""


def run(
    surface: Surface, seed: int, first: int, count: int, advance: Callable[[str], None]
) -> Tally:
    """Attacks `first` to `first + count - 1`; each depends on seed, surface and number only."""
    tally, begun = Tally(), time.monotonic()
    with surface.open() as attack:
        for number in range(first, first + count):
            tally.attacks += 1
            if problem := one(attack, random.Random(f"{seed}/{surface.name}/{number}")):
                tally.trouble[number] = problem
            advance(surface.name)
    tally.seconds = time.monotonic() - begun
    return tally


def one(attack: Attack, rng: random.Random, seconds: float | None = None) -> str:
    """What went wrong in one attack. seconds: default SECONDS."""
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
    """By name, in the order in which they run."""
    from scripts.torment.attack import folders, frames, programs, workers

    found = (*frames.SURFACES, *workers.SURFACES, *folders.SURFACES, *programs.SURFACES)
    return {surface.name: surface for surface in found}

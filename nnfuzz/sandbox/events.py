"""The limits that a sandbox keeps, the events that it returns, and exceptions as text."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

from nnfuzz.base.text import visible

A = TypeVar("A")
_OUT_OF_MEMORY = re.compile(
    r"bad_alloc|out of memory|cannot allocate memory|can't allocate memory|not enough memory"
    r"|memory exhausted",
    re.IGNORECASE,
)


def reads_as_out_of_memory(text: str) -> bool:
    """Whether a message or captured output says that an allocation failed."""
    return _OUT_OF_MEMORY.search(text) is not None


_LACKING = re.compile(
    r"\blocale\b.*\bname not valid|unsupported locale setting|cannot open shared object file"
    r"|no space left on device|no such file or directory: '[\w+-]+'",
    re.IGNORECASE,
)
"""A locale, a library, room on the disk, a command (a name without a folder)."""


def reads_as_lacking(text: str) -> bool:
    """Whether a message says that this machine lacks something, which is no fault of a compiler."""
    return _LACKING.search(text) is not None


@dataclass(frozen=True)
class Limits:
    """Wall-clock seconds and growth in bytes for each job, jobs until a worker is replaced.

    `memory_bytes` is watched every 50 ms as private resident memory of the worker and its
    descendants above the level before the job; allocations beyond twice as much fail at once. 0
    switches the limit off. A worker that has grown by `leak_bytes` since its start is replaced
    after its job, so that leaks of jobs never add up, and no job is charged for another. The
    clock of a job starts anew with every partial answer, and is the worker's own time
    (nnfuzz.sandbox.process). `start_seconds` bounds imports and the factory. `stages`: limits of
    stages in which a service waits for other processes, in place of `seconds`.
    """

    seconds: float = 60.0
    memory_bytes: int = 4 << 30
    jobs_per_process: int = 200
    start_seconds: float = 120.0
    stages: Mapping[str, float] = field(default_factory=dict)

    @property
    def leak_bytes(self) -> int:
        """A quarter of what one job may take: a worker never holds more than 1.25 times that."""
        return self.memory_bytes // 4


class DeathKind(StrEnum):
    CRASH = "crash"
    EXIT = "exit"
    TIMEOUT = "timeout"
    MEMORY = "memory"


@dataclass(frozen=True)
class Reply(Generic[A]):
    """A job's answer, read and checked. captured: the worker's output since the last event."""

    value: A
    captured: str = ""


@dataclass(frozen=True)
class Progress:
    """A part of the answer, sent ahead; more will follow."""

    value: Any
    captured: str = ""


@dataclass(frozen=True)
class WorkerFault:
    """The service itself failed with an exception: an error of its author, not of its subject."""

    error_type: str
    message: str
    traceback: str
    captured: str
    starting: bool


@dataclass(frozen=True)
class Death:
    """The worker died, or was killed, with a job in hand.

    `stage` is what the service reported last, "start" if the job had not begun; `signal` is a
    name like "SIGSEGV" for a crash, `exit_code` is set for an exit; `seconds` since the last event.
    """

    kind: DeathKind
    stage: str
    signal: str
    exit_code: int | None
    captured: str
    seconds: float
    note: str = ""  # the campaign's own reason, where the exit status gives none

    @property
    def from_outside(self) -> bool:
        """Whether nobody here has sent the SIGKILL that it died of."""
        return self.kind is DeathKind.CRASH and self.signal == "SIGKILL" and not self.note


Trouble = WorkerFault | Death
Event = Reply[Any] | Progress | Trouble


def event_line(event: WorkerFault | Death) -> str:
    """One line on a worker's failure or death."""
    if isinstance(event, WorkerFault):
        return f"{event.error_type}: {event.message}"
    how = event.signal or (f"exit code {event.exit_code}" if event.exit_code is not None else "")
    return f"worker ended by {event.kind} {how}".strip() + f" in stage {event.stage or 'start'}"


TEXT_CHARS = 8000
"""The longest message or traceback that is kept; rules may need time quadratic in its length."""


def described_error(error: BaseException) -> dict[str, str]:
    """The error's type, message and traceback as text of limited length."""
    try:
        message = str(error)
    except Exception as nested:
        message = f"(str() of the error failed: {nested!r})"
    try:
        trace = "".join(_trace(error))
    except Exception:
        trace = ""
    name = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    texts = {"error_type": name, "message": message, "traceback": trace}
    return {name: shortened(visible(shortened(text))) for name, text in texts.items()}


def _trace(error: BaseException) -> Iterable[str]:
    """The traceback without marks under the failing part of each line, for which Python parses the
    line again: that takes longer than most compilers take for an error.
    """
    trace = traceback.TracebackException.from_exception(error)
    left = [trace]
    while left:
        own = left.pop()
        for frame in own.stack:
            frame.colno = None
        left += [other for other in (own.__cause__, own.__context__) if other is not None]
    return trace.format()


def shortened(text: str) -> str:
    """Keeps both ends: a compiler's message carries its cause at one of them."""
    if len(text) <= TEXT_CHARS:
        return text
    half = TEXT_CHARS // 2
    return f"{text[:half]}\n... {len(text) - 2 * half} characters left out ...\n{text[-half:]}"

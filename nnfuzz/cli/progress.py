"""Live progress, in a terminal or as a line every ten seconds, and Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, TextIO

from nnfuzz.base.text import visible
from nnfuzz.cli.errors import spoken
from nnfuzz.cli.limits import TERM_SECONDS
from nnfuzz.records.observer import Advance, CampaignSnapshot, Observer, counted
from nnfuzz.records.rows import FindingRow

if TYPE_CHECKING:
    from nnfuzz.records.config import CampaignConfig
    from nnfuzz.testcase.case import CaseConfig

LINE_SECONDS = 10.0


class Silent:
    """An observer that prints nothing."""

    def update(self, snapshot: CampaignSnapshot) -> None: ...

    def finding(self, row: FindingRow) -> None: ...

    def note(self, text: str) -> None: ...


class Lines:
    """An observer that prints plain lines, for logs and pipes.

    every: seconds between two lines on the state. show: redraws such a line in a terminal, at once.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        every: float = LINE_SECONDS,
        show: Callable[[str], None] | None = None,
    ) -> None:
        self._stream, self._every, self._show = stream or sys.stdout, every, show
        self._next = time.monotonic() + every

    def update(self, snapshot: CampaignSnapshot) -> None:
        if self._show:
            self._show(line(snapshot))
        elif time.monotonic() >= self._next or snapshot.phase == "done":
            self._next = time.monotonic() + self._every
            self._say(line(snapshot))

    def finding(self, row: FindingRow) -> None:
        self._say(f"FOUND {row.title} [{row.signature}]")

    def note(self, text: str) -> None:
        self._say(f"note: {text}")

    def _say(self, text: str) -> None:
        print(visible(text), file=self._stream, flush=True)


@contextmanager
def watcher(quiet: bool, config: CampaignConfig, folder: Path) -> Iterator[Observer]:
    """Yields the observer that suits stdout, after a line that names the campaign."""
    if quiet:
        yield Silent()
        return
    print(f"fuzzing {subject(config)}, seed {config.seed}, into {folder}", flush=True)
    if not sys.stdout.isatty():
        yield Lines()
        return
    with _status(sys.__stdout__) as show:
        yield Lines(sys.stdout, show=show)


def subject(config: CampaignConfig) -> str:
    """The subject of a campaign: compilers with release and levels, and how models are written."""
    from nnfuzz.backend.releases import known_release

    parts = []
    for spec in config.backends:
        backend = type(spec.load())
        levels = backend.having(config.levels) if config.levels else backend.default_levels()
        release = "" if spec.release else known_release(backend)
        parts.append(f"{spec}{release and f' {release}'} ({', '.join(levels)})")
    written = [f"{name} ({_opsets(config.case, name)})" for name in config.case.exporters]
    return f"{' and '.join(parts)}, models by {' and '.join(written)}"


def _opsets(case: CaseConfig, exporter: str) -> str:
    """The opset of an exporter's models, or those that are drawn for them."""
    newest, *older = case.drawing(exporter) or (case.only(exporter).opset,)
    return f"opsets {older[-1]} to {newest}" if older else f"opset {newest}"


def line(s: CampaignSnapshot) -> str:
    """One line on where the campaign stands."""
    left = f", {spoken(s.left)} left" if s.left is not None and s.phase != "done" else ""
    parts = [counted(s.tests, "test"), f"{s.rate:.1f}/s", _outcomes(s)]
    about = [counted(s.occurrences, "time")] if s.occurrences or s.flaky else []
    about += [f"{s.unreduced} to be reduced"] if s.unreduced else []
    about += [f"{s.flaky} flaky failures besides"] if s.flaky else []
    parts.append(counted(s.findings, "finding") + (f" ({', '.join(about)})" if about else ""))
    parts += [f"{s.sut_share:.0%} of the time in compilers"] if s.tests else []
    parts += [f"{counted(s.faults, 'fault')} of nnfuzz"] if s.faults else []
    parts += [counted(s.suspects, "suspected hang")] if s.suspects else []
    return f"[{spoken(s.seconds)}{left}] {s.phase}: {', '.join(parts)}"


def _outcomes(s: CampaignSnapshot) -> str:
    """The outcomes that occurred, such as "ok 15 crash 1"."""
    return " ".join(f"{kind} {n}" for kind, n in s.outcomes.items() if n) or "no outcome yet"


@contextmanager
def _status(stream: TextIO | None) -> Iterator[Callable[[str], None]]:
    """Yields a function that shows a text behind a spinner, in the last line of a terminal."""
    from rich.console import Console
    from rich.text import Text

    with Console(file=stream).status("starting") as status:
        yield lambda text: status.update(Text(visible(text)))


@contextmanager
def phases() -> Iterator[Callable[[str], None]]:
    """Yields a function to be called with the name of each step before it: shown on stderr in a
    terminal, else not at all.
    """
    if sys.stderr.isatty():
        with _status(sys.__stderr__) as show:
            yield show
    else:
        yield lambda step: None


@contextmanager
def steps(label: str, total: int) -> Iterator[Advance]:
    """Yields a function to be called after each step: a counter on stderr, which is redrawn in a
    terminal, and else a line now and then.
    """
    done, due = 0, time.monotonic() + LINE_SECONDS
    with phases() as show:

        def advance(note: str) -> None:
            nonlocal done, due
            done += 1
            text = f"{label}: {done} of {total}{', ' if note else ''}{note}"
            show(text)
            if not sys.stderr.isatty() and (done == total or time.monotonic() >= due):
                due = time.monotonic() + LINE_SECONDS
                print(text, file=sys.stderr)

        yield advance


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupt:
    """While entered, the first SIGINT, SIGTERM or SIGHUP is only remembered, but raises
    KeyboardInterrupt before `asked` is first called, since nobody would look; the second SIGINT or
    SIGTERM kills, and so does the system TERM_SECONDS after the first SIGTERM. A terminal that
    closes may send several SIGHUP; where nohup has them ignored, they stay so.
    """

    def __init__(self) -> None:
        self._asked = self._looks = False
        self._before: dict[int, object] = {}

    def asked(self) -> bool:
        """Whether the user wants the campaign to end."""
        self._looks = True
        return self._asked

    def __enter__(self) -> Interrupt:
        heard = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._on) for number in heard}
        return self

    def __exit__(self, *_: object) -> None:
        if self._asked:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _on(self, number: int, frame: FrameType | None) -> None:
        if self._asked and number != signal.SIGHUP:
            # The workers die with this process: their fork servers watch it.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self._asked = True
        if number == signal.SIGTERM:
            signal.setitimer(signal.ITIMER_REAL, TERM_SECONDS)
        if not self._looks:
            raise KeyboardInterrupt
        with contextlib.suppress(OSError):  # there is no terminal any more
            print("\nending; press Ctrl-C again to kill", file=sys.stderr, flush=True)

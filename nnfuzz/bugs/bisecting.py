"""With which release a bug came or went, by running its script in releases between two others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from nnfuzz.backend.releases import ReleaseError
from nnfuzz.bugs.bug import Bug, ScriptResult, newer
from nnfuzz.bugs.environments import Choose
from nnfuzz.bugs.ledger import Note
from nnfuzz.bugs.scripts import ScriptRun, run_script
from nnfuzz.experiment.bisection import Bisection, BisectionStep, ReleaseAnswer, went

_ANSWERS = {
    ScriptResult.REPRODUCES: ReleaseAnswer.FAILS,
    ScriptResult.RIGHT: ReleaseAnswer.RIGHT,
    ScriptResult.OTHERWISE: ReleaseAnswer.DIFFERENT,
    ScriptResult.CANNOT_RUN: ReleaseAnswer.UNSUPPORTED,
}
Run = Callable[[Path, str, bool], ScriptRun]
"""Runs a script by an interpreter; whether the release is one in which it reproduced."""


def run_once(script: Path, python: str, same_release: bool) -> ScriptRun:
    return run_script(script, python, same_release)


@dataclass(frozen=True)
class ScriptBisection:
    """Bisects by the scripts of bugs.

    releases: lists those of a bug's package, the oldest first. place_of: says where the script of a
    bug runs in one of these.
    """

    releases: Callable[[Bug], list[str]]
    place_of: Callable[[str], Choose]
    note: Note
    run: Run = run_once

    def fixed(self, name: str, bug: Bug, script: Path, right: str) -> Bisection | None:
        """The first right release behind the last bad one, up to one that is right.

        None if the releases cannot be listed.
        """
        last, listed = bug.last_bad_release, self._listed(name, bug)
        if listed is None or not last:
            return None
        between = [r for r in listed if newer(r, last) and newer(right, r)]
        ask = self._asking(name, bug, script)
        return went(bug.system, [last, *between, right], ask, right=True)

    def _listed(self, name: str, bug: Bug) -> list[str] | None:
        try:
            return self.releases(bug)
        except ReleaseError as error:
            self.note(f"{name}: with which release it came or went is not known: {error}")
            return None

    def _asking(self, name: str, bug: Bug, script: Path) -> Callable[[str], BisectionStep]:
        def ask(release: str) -> BisectionStep:
            try:
                there = self.place_of(release)(bug)
            except ReleaseError as error:
                return BisectionStep(release, ReleaseAnswer.SKIPPED, str(error))
            run = self.run(script, there.python, False)
            self.note(f"{name}: {run.result} in {release}")
            return BisectionStep(release, _ANSWERS[run.result], run.message)

        return ask


def with_answers(bug: Bug, history: Bisection) -> Bug:
    """The bug with what its script showed in each release that was asked."""
    results = {answer: result for result, answer in _ANSWERS.items()}
    steps = {s.release: results[s.answer] for s in history.steps if s.answer in results}
    for release in (r for r, result in steps.items() if result is ScriptResult.REPRODUCES):
        bug = bug.failing_in(release)
    return replace(bug, releases={**bug.releases, **steps})

"""Bisects a finding over the releases of its compiler, and writes the result into its folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.version import Version

from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.releases import ReleaseError
from nnfuzz.backend.runner import BackendRunner, RunnerError
from nnfuzz.base.files import write_atomically
from nnfuzz.base.untrusted import below, read_json, read_text
from nnfuzz.base.writing import as_json
from nnfuzz.experiment.bisection import Bisection, BisectionStep, ReleaseAnswer, came, went
from nnfuzz.experiment.result import Workbench
from nnfuzz.findings import replay as again
from nnfuzz.materialize.oldest import at_oldest_opset
from nnfuzz.records.finding import Finding
from nnfuzz.report.templating import environment

_ANSWERS = {
    again.ReplayResult.REPRODUCED: ReleaseAnswer.FAILS,
    again.ReplayResult.DIFFERENT: ReleaseAnswer.DIFFERENT,
    again.ReplayResult.FIXED: ReleaseAnswer.RIGHT,
}
_RELEASE = re.compile(r"\d+(?:\.\d+)*(?:(?:a|b|rc|\.post|\.dev)\d+)*")
"""Compilers report more than the release: 2025.3.0-19807-44526285f24."""
_PLACE = re.compile(r"^## (?:Versions|How to reproduce)$", re.MULTILINE)
_SECTION = re.compile(r"^## Releases\n.*?(?=^## )", re.MULTILINE | re.DOTALL)


def release_in(text: str) -> str:
    """The release at the beginning of the version that a compiler gives; "" if there is none."""
    found = _RELEASE.match(text)
    return found.group() if found else ""


class NotReproduced(ValueError):
    """A finding that does not fail in its own release any more."""


@dataclass(frozen=True)
class Releases:
    """The releases of a finding's compiler; each runs in an environment of its own.

    listed: the releases of the package index, the oldest first. note: called with every step.
    """

    finding: Finding
    spec: BackendSpec
    registry: BackendRegistry
    bench: Workbench
    listed: Sequence[str]
    note: Callable[[BisectionStep], None]

    @property
    def own(self) -> str:
        """The release that the finding is about. Raises: ReleaseError if it names none."""
        release = release_in(self.spec.release or self.finding.failure.targets[0].release)
        if not release:
            raise ReleaseError("the finding does not say which release it is about")
        return release

    def bisect(self, oldest: str = "", newest: str = "") -> list[Bisection]:
        """Finds the release with which the failure came, and the one with which it went.

        oldest: where to begin to look for the first, newest: where to end with the second. Without
        either, the first is looked for, or, where the finding is known to be right in a newer
        release, the second. Raises: NotReproduced, RegistryError, RunnerError.
        """
        own, right = self.own, self.finding.origin.right_in
        if right and not (oldest or newest):
            oldest, newest = (right, "") if Version(right) < Version(own) else ("", right)
        here = self._reproduced()
        searches = []
        if oldest or not newest:
            asked = self._between(oldest or self.listed[0], own)
            searches.append(came(self.spec.name, asked, here.ask, oldest == right != ""))
        if newest:
            asked = self._between(own, newest)
            searches.append(went(self.spec.name, asked, here.ask, newest == right != ""))
        return searches

    def _between(self, oldest: str, newest: str) -> list[str]:
        """The ends and the releases between them. Raises: ReleaseError if they are swapped."""
        low, high = Version(oldest), Version(newest)
        if low > high:
            raise ReleaseError(f"{oldest} is newer than {newest}: nothing lies between")
        inside = [name for name in self.listed if low < Version(name) < high]
        return list(dict.fromkeys([oldest, *inside, newest]))

    def _reproduced(self) -> Releases:
        """Itself, with the model at its oldest opset if it fails there too: more releases read
        that. Raises: NotReproduced if it does not fail any more.
        """
        case = self.finding.case
        model = at_oldest_opset(case.model)
        tried = [model] if model == case.model else [model, case.model]
        for candidate in tried:
            finding = replace(self.finding, case=replace(case, model=candidate))
            releases = replace(self, finding=finding)
            if (step := releases.ask(self.own)).answer is ReleaseAnswer.FAILS:
                return releases
        raise NotReproduced(f"it does not fail in {self.own} as it did: {step.answer} {step.seen}")

    def ask(self, release: str) -> BisectionStep:
        """Replays the finding in a release."""
        step = self._asked(release)
        self.note(step)
        return step

    def _asked(self, release: str) -> BisectionStep:
        spec = replace(self.spec, release=release, label=self.finding.failure.backend)
        try:
            with BackendRunner(spec, self.registry) as runner:
                replayed = again.replay_finding(self.finding, runner, self.bench)
        except (ReleaseError, RunnerError) as error:
            return BisectionStep(release, ReleaseAnswer.SKIPPED, str(error).splitlines()[0])
        same = [f for f in replayed.failures if again.same_kind(f, self.finding.failure)]
        other = _ANSWERS.get(replayed.answer, ReleaseAnswer.UNSUPPORTED)
        answer = ReleaseAnswer.FAILS if same else other
        titles = [failure.signature.title for failure in same or replayed.failures]
        return BisectionStep(release, answer, "".join(titles[:1]).removeprefix(f"{spec.label}: "))


def write_bisection(folder: Path, bisections: Sequence[Bisection]) -> None:
    """Adds the results to finding.json and report.md, in place of earlier ones.

    Raises: Unreadable, OSError.
    """
    file, report = folder / "finding.json", folder / "report.md"
    data = read_json(below(folder, file.name))
    data["campaign"]["bisection"] = [as_json(bisection) for bisection in bisections]
    write_atomically(file, (json.dumps(data, indent=1) + "\n").encode())
    if report.is_file():
        text = _SECTION.sub("", read_text(below(folder, report.name)))
        section = environment().get_template("releases.md.jinja").render(bisections=bisections)
        place = _PLACE.search(text)
        at = place.start() if place else len(text)
        write_atomically(report, (text[:at] + section + text[at:]).encode())

"""Failures and findings as people hold them, and their reduction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from nnfuzz.library.case import TestCase
from nnfuzz.library.plugins import known_plugins
from nnfuzz.records import finding as engine
from nnfuzz.triage import signature

if TYPE_CHECKING:
    from nnfuzz.reduction.engine import ReductionProgress

BUDGET = 800
"""Candidates of a reduction, as for `nnfuzz reduce`."""


@dataclass(frozen=True, eq=False, repr=False)
class Finding(engine.Finding):
    """A failure with everything that is known of it: test case, outcomes, verdict, blame, versions.

    `signature` identifies the failure, `case` is the model. Its folder is of use without nnfuzz:
    report.md for a tracker, repro.py, the model and its data.
    """

    @classmethod
    def of(cls, finding: engine.Finding) -> Self:
        """The same finding with the methods of this class."""
        return cls(**{**vars(finding), "case": TestCase.of(finding.case, finding.config)})

    def save(self, folder: str | Path) -> Path:
        """Writes a finding's folder inside of `folder`; returns its path.

        The name is made of the signature. A finding of the same signature that is there already is
        kept: it fails in the same way. The source of plug-ins, and of what `register` copied out of
        `__main__`, is written beside repro.py, with the single-file modules that it imports;
        repro.py finds them there, and `nnfuzz replay` runs them if --plugin names them. Packages
        are not copied: the first lines of repro.py name them. Raises: OSError.
        """
        from nnfuzz.findings.folder import folder_name, write_finding
        from nnfuzz.findings.reduced import repro_program

        path = Path(folder) / folder_name(self.failure)
        if path.exists():
            return path
        return write_finding(path, self, repro_program(self))

    @classmethod
    def load(cls, folder: str | Path, plugins: Iterable[str | Path] = ()) -> Self:
        """The finding that `save` or a campaign has written.

        plugins: what may be run, besides what is registered, in place of the plug-ins of the same
        names that the finding names; it may come from anybody, and has no others.
        Raises: FindingError.
        """
        from nnfuzz.backend.plugin_files import namesake
        from nnfuzz.findings.folder import read_finding

        return cls.of(read_finding(folder, namesake(known_plugins(plugins))))

    def __repr__(self) -> str:
        return f"Finding({self.signature})"


@dataclass(frozen=True, kw_only=True)
class Failure(signature.Failure):
    """One way in which one compiler failed on a test case.

    `signature` identifies it, `kind` and `stage` say what happened where, `targets` are
    those that failed. finding: with the test case and all else; `nnfuzz.reduce` makes it small.
    """

    finding: Finding = field(compare=False, repr=False)

    def __str__(self) -> str:
        return str(self.signature)


def reduce(
    failure: Failure | Finding,
    *,
    budget: int = BUDGET,
    localise: bool = True,
    watch: Callable[[ReductionProgress], None] = lambda progress: None,
) -> Finding:
    """The smallest model that fails in the same way, as a finding.

    failure: of `Result.failures`, or a finding. budget: candidates that are run at most; some
    seconds to a few minutes, mostly the compiler's. localise: whether passes and operators that are
    at fault are looked for.
    watch: called with the progress.
    Raises: NotReduced if the failure does not occur again; RunnerError, WorkerError.
    """
    from nnfuzz.findings.reduced import reduce_finding
    from nnfuzz.reduction.case import ReduceConfig

    finding = failure if isinstance(failure, engine.Finding) else failure.finding
    config = ReduceConfig(budget, watch=watch)
    _, reduced = reduce_finding(finding, config, localised=localise)
    return Finding.of(reduced)

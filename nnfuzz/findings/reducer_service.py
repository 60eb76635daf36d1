"""The service inside of a campaign's reducing worker: finding folders in, reduced findings out.

In a campaign it works in a lane's process, on fork servers that the lane has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nnfuzz.backend.contract import OptionError
from nnfuzz.backend.numeric import Deviation
from nnfuzz.backend.registry import BackendRegistry, RegistryError, namesake, plugin_name
from nnfuzz.backend.runner import CompilerServers, RunnerError
from nnfuzz.findings.folder import FindingError, read_finding
from nnfuzz.findings.reduced import cause_of, reduce_folder
from nnfuzz.records.finding import Finding
from nnfuzz.records.rows import NOT_SHOWN, ReductionRow
from nnfuzz.reduction.case import NotReduced, NotShown, ReduceConfig, Unexplained
from nnfuzz.reduction.trials import Servers, WorkerError
from nnfuzz.sandbox.forkserver import ForkClient
from nnfuzz.sandbox.job import Job, Report, Service, does
from nnfuzz.testcase.client import ProducerError
from nnfuzz.triage.cause import Cause
from nnfuzz.triage.pattern import pattern_of


@dataclass(frozen=True)
class ReduceFinding(Job[ReductionRow | None]):
    """Reduces the finding in a folder. A finding that cannot be reduced has a `reason` in its row;
    one that fails for the cause of one of the known findings is `explained`, and not reduced
    further.

    folder: an absolute path. budget: of candidates. seconds: None
    for any. known: folders of reduced findings of the same kind. habits: of the compiler, None if
    they have to be determined. only_known: whether to say only which known finding explains it;
    the answer is None where none does.
    """

    signature: str
    folder: str
    budget: int
    seconds: float | None = None
    known: tuple[str, ...] = ()
    habits: tuple[Deviation, ...] | None = None
    only_known: bool = False

    def accept(self, answer: ReductionRow | None) -> ReductionRow | None:
        if answer is None:
            if not self.only_known:
                raise ValueError("no answer")
        elif answer.graph.checked() and answer.signature != self.signature:
            raise ValueError(f"{answer.signature} instead of {self.signature}")
        return answer


REASONS = (
    NotReduced,
    FindingError,
    RegistryError,
    OptionError,
    RunnerError,
    WorkerError,
    ProducerError,
    OSError,
)


class ReductionService(Service):
    """plugins: files with further backends. lent: see Servers; None: servers of its own, kept for
    the next finding of the same backend.
    """

    def __init__(
        self,
        plugins: Sequence[str] = (),
        lent: tuple[ForkClient, CompilerServers] | None = None,
    ) -> None:
        self._lent = lent
        self._registry = BackendRegistry.discover(plugins)
        self._trusted = namesake(map(plugin_name, plugins))
        self._servers: Servers | None = None
        self._for: tuple[str, ...] = ()
        self._causes: dict[str, Cause | None] = {}

    @does(ReduceFinding)
    def reduce(self, job: ReduceFinding, report: Report) -> ReductionRow | None:
        report("ask" if job.only_known else "reduce")
        config = ReduceConfig(
            job.budget,
            math.inf if job.seconds is None else job.seconds,
            registry=self._registry,
            causes=[cause for path in job.known if (cause := self._cause(path))],
            only_known=job.only_known,
        )
        try:
            return self.reduced(job, config)
        except Unexplained:
            return None
        except NotShown as error:
            return ReductionRow(job.signature, reason=str(error))
        except REASONS as error:
            return ReductionRow(job.signature, reason=f"{type(error).__name__}: {error}")

    def reduced(self, job: ReduceFinding, config: ReduceConfig) -> ReductionRow:
        """Reduces one finding. Raises: one of REASONS, Unexplained."""
        folder = Path(job.folder)
        servers = self._shared(read_finding(folder, self._trusted))
        servers.habits = job.habits
        done, reduced = reduce_folder(
            folder, replace(config, servers=servers), trusted=self._trusted
        )
        if NOT_SHOWN in (title := reduced.signature.title):
            return ReductionRow(job.signature, reason=title[title.index(NOT_SHOWN) :])
        cause, graph = cause_of(reduced, self._registry), reduced.case.graph
        return ReductionRow(
            job.signature,
            cause=(done.cause or cause).hash,
            title=reduced.signature.title,
            pattern=str(pattern_of(graph)),
            graph=graph,
            before=done.figures.nodes[0],
            after=done.figures.nodes[1],
            seconds=round(done.figures.seconds, 3),
            explained=done.cause is not None,
            keys=tuple(sorted(map(str, cause.keys))),
            explanations=done.diagnosis.explanations,
            severity=reduced.severity.value,
            accused=str((reduced.localisation or {}).get("party", "")),
        )

    def close(self) -> None:
        if self._servers is not None:
            self._servers.close()
        self._servers = None

    def _shared(self, finding: Finding) -> Servers:
        backend = finding.backend
        key = (backend.name if backend else "", *finding.config.get("plugins", ()))
        if self._servers is None or self._for != key:
            self.close()
            self._servers = Servers(backend, self._registry, finding.config, self._lent)
            self._for = key
        return self._servers

    def _cause(self, folder: str) -> Cause | None:
        """The cause of a reduced finding, read once; None if its folder is gone."""
        if folder not in self._causes:
            try:
                self._causes[folder] = cause_of(read_finding(folder), self._registry)
            except (FindingError, RegistryError):
                self._causes[folder] = None
        return self._causes[folder]


def reduction_service(
    plugins: Sequence[str] = (), lent: tuple[ForkClient, CompilerServers] | None = None
) -> ReductionService:
    """The factory that a lane names: "nnfuzz.findings.reducer_service:reduction_service"."""
    return ReductionService(plugins, lent)

"""From a finding folder to the reduced finding inside of it, FINDING/reduced."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from nnfuzz.execute.registry import BackendRegistry, BackendSpec
from nnfuzz.reduce.case import Problem, ReduceConfig, Reduction, reduce_case
from nnfuzz.reduce.engine import Watch
from nnfuzz.reduce.lanes import Servers
from nnfuzz.report.finding import Finding, read_finding, write_finding
from nnfuzz.report.repro import program_of

REDUCED = "reduced"
"""Name of the folder inside of a finding's."""


def reduce_folder(
    folder: str | Path,
    config: ReduceConfig | None = None,
    backend: BackendSpec | None = None,
    watch: Watch = lambda progress: None,
    registry: BackendRegistry | None = None,
    servers: Servers | None = None,
) -> Reduction:
    """Reduces a finding and writes FINDING/reduced, replacing an earlier one.

    Raises: FindingError, and as nnfuzz.reduce.case.reduce_case.
    """
    folder = Path(folder)
    finding = read_finding(folder)
    problem = problem_of(finding, backend)
    done = reduce_case(problem, config, watch, registry, servers)
    spec = problem.backend
    program = program_of(spec, registry) if spec and done.case.model else None
    target = folder / REDUCED
    if target.exists():
        shutil.rmtree(target)
    write_finding(target, reduced_finding(finding, problem, done), program)
    return done


def problem_of(finding: Finding, backend: BackendSpec | None = None) -> Problem:
    """What to reduce; `backend` instead of the finding's own."""
    failure = finding.failure
    accused = ((finding.verdict or {}).get("attribution") or {}).get(failure.backend) or {}
    ran = dict.fromkeys(o.level for o in finding.outcomes if o.backend == failure.backend)
    return Problem(
        case=finding.case,
        failure=failure,
        backend=(backend or finding.backend) if finding.case.model else None,
        config=finding.config,
        levels=tuple(ran),
        exporter_accused=accused.get("party") == "exporter",
    )


def reduced_finding(finding: Finding, problem: Problem, done: Reduction) -> Finding:
    """The finding with the reduced test case, and what it was made from."""
    origin = {"reduced_from": finding.signature.to_json(), "reduction": done.to_json()}
    return replace(
        finding,
        failure=done.failure,
        case=done.case,
        outcomes=done.best.outcomes,
        backend=problem.backend,
        verdict=done.best.verdict,
        campaign={**finding.campaign, **origin},
    )

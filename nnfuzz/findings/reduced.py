"""From a finding folder to the reduced finding inside of it, FINDING/reduced, and its cause."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.registry import BackendRegistry, BackendSpec, RegistryError
from nnfuzz.backend.releases import home_of
from nnfuzz.backend.runner import RunnerError
from nnfuzz.base.reading import Json
from nnfuzz.base.safe_path import safe_environment
from nnfuzz.base.writing import as_json
from nnfuzz.compare.flip import Coordinate
from nnfuzz.experiment.localise import Localisation, localise
from nnfuzz.findings.folder import (
    REDUCED,
    FindingError,
    Trust,
    nobody,
    read_finding,
    smallest,
    write_finding,
)
from nnfuzz.findings.repro import inlined, output_of_finding, program_of
from nnfuzz.records.finding import Finding
from nnfuzz.records.rows import NOT_SHOWN
from nnfuzz.reduction.case import CaseReduction, Problem, ReduceConfig, reduce_case
from nnfuzz.reduction.experiments import CONSTANT, healed
from nnfuzz.reduction.trials import Servers
from nnfuzz.testcase.client import ProducerClient, ProducerError
from nnfuzz.triage.cause import Cause, Symptoms, written_rules
from nnfuzz.triage.headline import only_at, operators_text, raising_line, sentence, wrong_in_words
from nnfuzz.triage.keys import Key, KeyKind, KnownFailures, error_keys, unread_keys
from nnfuzz.triage.mismatch import largest_operand
from nnfuzz.triage.pattern import RESULT, as_written, operator_types
from nnfuzz.triage.signature import (
    EVERYWHERE,
    HABITS,
    OPTIMISED,
    HabitDetails,
    digest_of,
    wrong_of,
)


def reduce_folder(
    folder: str | Path,
    config: ReduceConfig | None = None,
    backend: BackendSpec | None = None,
    trusted: Trust = nobody,
) -> tuple[CaseReduction, Finding]:
    """Reduces a finding, looks for its place, and writes FINDING/reduced, replacing an older one.
    Its repro.py is run; where that does not fail at once, the title says how often it does.

    backend: see problem_of. Returns the reduction's figures, and the finding that was written.
    Raises: FindingError, and as nnfuzz.reduction.case.reduce_case.
    """
    folder = Path(folder)
    finding = read_finding(folder, trusted)
    plugins = dict.fromkeys([*finding.config["plugins"], *(backend.plugins if backend else ())])
    finding = replace(finding, config={**finding.config, "plugins": list(plugins)})
    done, reduced = reduce_finding(finding, config, backend)
    program = repro_program(reduced, config.registry if config else None)
    target = folder / REDUCED
    if target.is_symlink():
        target.unlink()
    _written_anew(target, reduced, program)
    if done.cause is not None:
        return done, reduced
    own = reduced.backend.plugins if reduced.backend else ()
    registry = (config and config.registry) or BackendRegistry.discover(own)
    doubt = doubts(target, reduced, registry)
    if doubt and inlined(reduced):
        again = replace(reduced, origin=replace(reduced.origin, verbatim=True))
        _written_anew(target, again, program)
        if not doubts(target, again, registry):
            reduced, doubt = again, ""
    if doubt:
        title = f"{reduced.signature.title} [{doubt}]"
        signature = replace(reduced.signature, title=title)
        reduced = replace(reduced, failure=replace(reduced.failure, signature=signature))
        _written_anew(target, reduced, program)
    return done, reduced


def _written_anew(folder: Path, finding: Finding, program: str | None) -> None:
    if folder.exists():
        shutil.rmtree(folder)
    write_finding(folder, finding, program)


def reduce_finding(
    finding: Finding,
    config: ReduceConfig | None = None,
    backend: BackendSpec | None = None,
    localised: bool = True,
) -> tuple[CaseReduction, Finding]:
    """`reduce_folder` for a finding at hand; nothing is written."""
    problem, config = problem_of(finding, backend), config or ReduceConfig()
    spec, servers = problem.backend, config.servers
    registry = config.registry or BackendRegistry.discover(spec.plugins if spec else ())
    with nullcontext(servers) if servers else Servers(spec, registry, finding.config) as shared:
        done = reduce_case(problem, replace(config, registry=registry, servers=shared))
        reduced = reduced_finding(finding, problem, done)
        if localised and spec is not None and done.cause is None:
            reduced = _localised_or_why_not(reduced, registry, shared)
    return done, with_title(reduced)


def with_title(reduced: Finding) -> Finding:
    """A reduced finding whose title names the passes to blame, its operators and the cause. Its
    signature keeps its hash and parts. The model of a finding that must be refused has a fault to
    name instead.
    """
    failure, case = reduced.failure, reduced.case
    operators = (
        operators_text(case.model, case.graph.operators) if case.model and not case.fault else ""
    )
    parts, title = failure.signature.parts, failure.signature.title
    cause, where = title.removeprefix(f"{parts['backend']}: "), ""
    if not operators or isinstance(failure.signature.details, HabitDetails):
        return reduced
    if failure.kind is OutcomeKind.MISMATCH:
        calls = reduced.verdict.calls if reduced.verdict else {}
        cause, where = (
            _wrong(reduced) + only_at(calls.get(failure.targets[0])),
            cause[cause.rfind(" (") + 2 : -1] if cause[-1] == ")" else "",
        )
    cause = cause.removeprefix(f"{operators.rpartition(' ')[2]}: ")
    if rules := written_rules(failure):
        cause += f", only with {' and '.join(rules)}".replace("_", " ")
    localised, system = reduced.localisation or {}, parts["backend"]
    passes = tuple(map(str, localised.get("passes", ())))
    if localised.get("party") == "exporter":
        system = f"{case.exporter.partition('+')[0]} with {system}"
    text = sentence(system, cause, where, operators, passes)
    return replace(
        reduced, failure=replace(failure, signature=replace(failure.signature, title=text))
    )


def _wrong(reduced: Finding) -> str:
    """How the output of a mismatch is wrong, in the words of a title."""
    nodes, kind = reduced.case.graph.nodes, wrong_of(reduced.signature.details)
    healing = healed(reduced.diagnosis.heals, nodes[-1].op) if nodes else None
    explanation = next(filter(None, [*reduced.diagnosis.explanations, healing]), None)
    if explanation is None:
        return wrong_in_words(kind, output_of_finding(reduced))
    names = {nodes[0].op, *operator_types(reduced.case.model)} if len(nodes) == 1 else ()
    return explanation.said_of(names)


def repro_program(finding: Finding, registry: BackendRegistry | None = None) -> str | None:
    """The source that repro.py of a finding needs, if its backend has one that shows it."""
    spec = finding.backend
    levels = [o.level for o in finding.outcomes if o.backend == finding.failure.backend]
    if spec is None or not finding.case.model:
        return None
    return program_of(spec, registry, finding.case, levels)


def localised_finding(
    finding: Finding, registry: BackendRegistry, servers: Servers | None = None
) -> Finding:
    """The finding with its localisation; as it is if it does not occur or has no backend.

    Raises: RunnerError, ProducerError.
    """
    spec = finding.backend
    if spec is None:
        return finding
    with (
        nullcontext(servers) if servers else Servers(spec, registry, finding.config) as shared,
        shared.lent(spec) as (service, runner),
    ):
        localisation = localise(
            finding.case, finding.failure, runner, ProducerClient.asking(service)
        )
    return replace(finding, localisation=as_json(localisation) if localisation else None)


def _localised_or_why_not(finding: Finding, registry: BackendRegistry, servers: Servers) -> Finding:
    """A reduction is not lost because the search for its place fails."""
    try:
        return localised_finding(finding, registry, servers)
    except (RunnerError, ProducerError) as error:
        why = Localisation({}, "", "unknown", (f"not examined: {error}",))
        return replace(finding, localisation=as_json(why))


def problem_of(finding: Finding, backend: BackendSpec | None = None) -> Problem:
    """The problem of a reduction; `backend` instead of the finding's own."""
    failure = finding.failure
    ran = dict.fromkeys(o.level for o in finding.outcomes if o.backend == failure.backend)
    return Problem(
        case=finding.case,
        failure=failure,
        backend=(backend or finding.backend) if finding.case.model else None,
        config=finding.config,
        levels=tuple(ran),
        exporter_accused=finding.blame.coordinate is Coordinate.FORM,
        rival=_right_release(finding, backend or finding.backend),
    )


def _right_release(finding: Finding, spec: BackendSpec | None) -> BackendSpec | None:
    """The release of the backend in which the finding is right, if it is about releases."""
    release = finding.origin.right_in
    return (
        replace(spec, release=release, label=f"{spec.name}@{release}") if spec and release else None
    )


def reduced_finding(finding: Finding, problem: Problem, done: CaseReduction) -> Finding:
    """The finding with the reduced test case, and a reference to the original."""
    origin = replace(
        finding.origin,
        reduced_from=finding.signature,
        reduction=done.figures,
        diagnosis=done.diagnosis,
    )
    outcomes, words = done.best.outcomes, done.failure.steady_words
    if words:
        outcomes = tuple(
            replace(o, complaint=o.complaint.with_words(words)) if o.complaint else o
            for o in outcomes
        )
    return replace(
        finding,
        failure=done.failure,
        case=done.case,
        outcomes=outcomes,
        backend=problem.backend,
        verdict=done.best.verdict,
        blame=done.best.blame(done.failure),
        origin=origin,
        localisation=None,
    )


SCRIPT = "repro.py"
SECONDS = 60.0
"""After which a run of the script is ended; it then counts as one that could not run."""
POISONS = ("85", "170")
"""Bytes with which the C library fills memory in further runs, where the first one does well: what
reads memory that nobody has written fails by chance otherwise."""
FIXED, CANNOT = 0, 125
"""The exit code of a script that does not fail, see nnfuzz.findings.repro.exit_codes."""


def doubts(folder: Path, finding: Finding, registry: BackendRegistry) -> str:
    """Runs the script of a finding in fresh processes, and returns a doubt for the title.

    The doubt is "" if the script fails in its first run, as it should. It is "" as well if there is
    no script, and for a hang, which was confirmed with its whole time limit. Raises: RegistryError.
    """
    script, spec = folder / SCRIPT, finding.backend
    if spec is None or not script.is_file() or finding.failure.kind is OutcomeKind.TIMEOUT:
        return ""
    home = home_of(registry.get(spec.name), spec.release)
    command = [str(home.python) if home else sys.executable, str(script.resolve())]
    # The script imports modules from where this process does.
    here = {} if home else {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    codes = [_exit_code(command, here)]
    if codes == [FIXED]:
        codes += [_exit_code(command, {**here, "MALLOC_PERTURB_": poison}) for poison in POISONS]
    if codes[0] == CANNOT:
        return f"{SCRIPT} cannot run here"
    failed = sum(code not in (FIXED, CANNOT) for code in codes)
    often = f"{SCRIPT} failed in {failed} of {len(codes)} runs" if len(codes) > 1 else ""
    return often if failed else f"{NOT_SHOWN}: {often}"


def _exit_code(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs a command in an empty folder and in its own process group; returns its exit code.

    Returns CANNOT after SECONDS, when the group is killed, and where the command fails with a
    positive code and no output: a script prints expected and actual values before it fails.
    """
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.DEVNULL,
            env=safe_environment(**environment),
            start_new_session=True,
        )
        try:
            code = process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return CANNOT
        return CANNOT if code > 0 and not printed.tell() else code


def cause_of(finding: Finding, registry: BackendRegistry) -> Cause:
    """The cause of a reduced finding, with the keys by which it is merged with others.

    Raises: RegistryError if the pass that is accused can be read by the adapter alone, and the
    registry does not have it.
    """
    diagnosis, symptoms = finding.diagnosis, symptoms_of(finding, registry)
    cause = replace(
        Cause.of(finding.failure, finding.case.graph, symptoms),
        explanations=diagnosis.explanations,
        follows=diagnosis.follows,
        heals=diagnosis.heals,
    )
    return replace(cause, keys=keys_of(finding, cause, symptoms))


def symptoms_of(finding: Finding, registry: BackendRegistry) -> Symptoms:
    """The symptoms of a reduced finding. Raises: RegistryError, see cause_of."""
    passes = tuple((finding.localisation or {}).get("passes", ()))
    return replace(
        Symptoms.of(finding.case, finding.failure, finding.verdict),
        passes=passes,
        rewrites=_distinguishing_operators(finding, passes, registry),
        largest=largest_operand(finding.case),
        constant=CONSTANT in finding.diagnosis.heals,
    )


def keys_of(finding: Finding, cause: Cause, symptoms: Symptoms) -> frozenset[Key]:
    """The keys of a finding's cause."""
    own = {Key(KeyKind.CAUSE, cause.hash)}
    keys = own | {*finding.diagnosis.keys}
    if cause.hash != cause.own:
        return frozenset(keys)
    failure, parts, written = finding.failure, cause.parts, as_written(cause.graph, symptoms.types)
    if "rules" in parts and "message" not in parts:
        return frozenset(own)  # what heals the operator does so since the file is another one
    keys |= {Key(KeyKind.HABIT, f"{failure.compiler} {habit}") for habit in parts.get(HABITS, ())}
    if "message" in parts:
        first = next((o for o in finding.outcomes if o.target in failure.targets), None)
        line = raising_line(first.error_type, first.message, first.traceback) if first else ""
        named = [symptoms.operator] if symptoms.operator else written.operators
        keys |= error_keys(failure, parts, named, line)
    elif RESULT in parts and not symptoms.branches:
        # If an exporter added an If, that If is blamed instead.
        keys |= unread_keys(failure, parts, written)
    elif _spares_passes(finding, parts):
        keys.add(Key(KeyKind.CAUSE, digest_of({**parts, "levels": EVERYWHERE})))
    return frozenset(keys)


def _spares_passes(finding: Finding, parts: Mapping[str, Json]) -> bool:
    """Whether one operator returns wrong values at some levels and no pass of these is the cause:
    with a smaller model, the same kernel may be wrong at fewer levels.
    """
    localised = finding.localisation or {}
    tried = bool(localised.get("ablation")) and not localised.get("passes")
    return tried and "operator" in parts and parts.get("levels") == OPTIMISED


def known_by(folder: Path, registry: BackendRegistry) -> KnownFailures:
    """The known failures that a finding's folder stands for.

    They are its signature and, of a reduced finding, the keys. A folder that cannot be read stands
    for none.
    """
    try:
        finding = read_finding(folder)
    except FindingError:
        return KnownFailures()
    own = KnownFailures(frozenset({finding.signature.hash}))
    unreduced = folder.name != REDUCED and not finding.origin.reduction
    if unreduced or smallest(folder) != folder:
        return own
    try:
        cause = cause_of(finding, registry)
    except RegistryError:
        return own
    return replace(own, keys=(cause.keys | {Key(KeyKind.FAILURE, finding.failure.kind.value)},))


def _distinguishing_operators(
    finding: Finding, passes: Sequence[str], registry: BackendRegistry
) -> tuple[str, ...]:
    """The operators that show which rewrite of a pass is accused (Backend.collections), sorted;
    none if no accused pass is a collection of rewrites.
    """
    collections = registry.get(finding.backend.name).collections if finding.backend else {}
    common = [collections[name] for name in passes if name in collections]
    if not common:
        return ()
    operators = operator_types(finding.case.model) - {op for ops in common for op in ops}
    return tuple(sorted(operators))

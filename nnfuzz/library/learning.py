"""What a ledger's bugs are recognised by, computed anew from their models by today's rules."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.backend.registry import BackendRegistry, namesake
from nnfuzz.base.reading import Unreadable
from nnfuzz.bugs.bug import Bug
from nnfuzz.bugs.ledger import SCRIPT, Ledger
from nnfuzz.findings.folder import is_finding, read_finding
from nnfuzz.findings.reduced import cause_of
from nnfuzz.findings.reducer_service import REASONS
from nnfuzz.library.case import case_from_onnx
from nnfuzz.library.experiment import Experiment, reduce
from nnfuzz.library.plugins import known_plugins
from nnfuzz.reduction.case import NotReduced
from nnfuzz.triage.keys import Key, KeyKind

if TYPE_CHECKING:
    import onnx

CANNOT = (*REASONS, ValueError, TypeError, Unreadable)
"""Why a bug's model tells nothing here."""


def learned(ledger: Ledger, name: str, plugins: Sequence[str] = ()) -> Bug:
    """The bug with the keys that a campaign would give its failure today. The model runs, and each
    of its failures of the bug's kind is reduced and diagnosed. Signatures are added to; keys are
    replaced, since those of other rules mean something else.

    Raises: one of CANNOT, with the reason; NotReduced if there is no model, or it does not fail.
    """
    bug, folder = ledger.bug(name), ledger.place(name)
    if is_finding(folder):
        case = read_finding(folder, namesake(known_plugins(plugins))).case
    else:
        case = case_from_onnx(*model_of(folder), plugins=plugins)
    with Experiment([bug.system], plugins) as run:
        own = [f for f in run.findings(run(case)) if bug.kind in ("", f.failure.kind)]
    if not own:
        raise NotReduced(f"the model does not fail here, at least not by {bug.kind or 'anything'}")
    registry = BackendRegistry.discover(known_plugins(plugins))
    keys, signatures = set[Key](), dict.fromkeys(bug.signatures)
    for finding in own:
        reduced = reduce(finding)
        cause = cause_of(reduced, registry)
        keys |= {*cause.keys, Key(KeyKind.FAILURE, finding.failure.kind.value)}
        signatures |= dict.fromkeys((finding.signature.hash, reduced.signature.hash, cause.hash))
    return replace(bug, keys=tuple(sorted(map(str, keys))), signatures=tuple(sorted(signatures)))


def model_of(folder: Path) -> tuple[onnx.ModelProto, Mapping[str, np.ndarray]]:
    """The model of a bug with its inputs: what its script defines as MODEL, in ONNX's textual form,
    and INPUTS before it does anything else. Raises: NotReduced, OSError.
    """
    from onnx import parser

    scope: dict[str, object] = {}
    script = folder / SCRIPT
    text = script.read_text(encoding="utf-8") if script.is_file() else ""
    for statement in _plain(ast.parse(text).body):
        exec(compile(ast.Module([statement], []), str(script), "exec"), scope)
    given, inputs = scope.get("MODEL"), scope.get("INPUTS")
    if not isinstance(given, str) or not isinstance(inputs, dict):
        raise NotReduced("there is no finding.json, and no MODEL and INPUTS in the script")
    try:
        return parser.parse_model(given), inputs
    except parser.ParseError as error:
        raise NotReduced(f"MODEL of the script cannot be parsed: {error}") from error


def _plain(statements: Iterable[ast.stmt]) -> Iterable[ast.stmt]:
    """The imports of data libraries and the assignments at the head of a script."""
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.For | ast.With | ast.Try):
            return
        if isinstance(statement, ast.Import | ast.ImportFrom | ast.Assign):
            yield statement

"""What a ledger's bugs are recognised by, computed anew from their models by today's rules."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nnfuzz.backend.registry import BackendRegistry, namesake
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.untrusted import read_text
from nnfuzz.bugs.bug import Bug
from nnfuzz.bugs.ledger import SCRIPT, Ledger
from nnfuzz.findings.folder import is_finding, read_finding
from nnfuzz.findings.reduced import cause_of
from nnfuzz.findings.reducer_service import REASONS
from nnfuzz.library.case import case_from_onnx
from nnfuzz.library.experiment import Experiment, reduce
from nnfuzz.library.plugins import known_plugins
from nnfuzz.reduction.case import NotReduced
from nnfuzz.testcase.case import TestCase
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
    found, keys = recognising(case, bug, BackendRegistry.discover(known_plugins(plugins)), plugins)
    signatures = tuple(sorted({*bug.signatures, *found}))
    return replace(bug, keys=tuple(sorted(map(str, keys))), signatures=signatures)


def recognising(
    case: TestCase, bug: Bug, registry: BackendRegistry, plugins: Sequence[str] = ()
) -> tuple[set[str], set[Key]]:
    """Signatures and keys of the failures of a bug's kind that a case has, reduced and diagnosed.

    Raises: as `learned`.
    """
    with Experiment([bug.system], plugins) as run:
        own = [f for f in run.findings(run(case)) if bug.kind in ("", f.failure.kind)]
    if not own:
        raise NotReduced(f"the model does not fail here, at least not by {bug.kind or 'anything'}")
    keys, signatures = set[Key](), set[str]()
    for finding in own:
        reduced = reduce(finding)
        cause = cause_of(reduced, registry)
        keys |= {*cause.keys, Key(KeyKind.FAILURE, finding.failure.kind.value)}
        signatures |= {finding.signature.hash, reduced.signature.hash}
    return signatures, keys


def model_of(folder: Path) -> tuple[onnx.ModelProto, Mapping[str, np.ndarray]]:
    """The model of a bug with its inputs: MODEL in ONNX's textual form and INPUTS, as the script of
    the bug defines them. The script does not run: INPUTS is read if NumPy's plain constructors and
    literals make it. Raises: NotReduced, Unreadable.
    """
    from onnx import parser

    script = folder / SCRIPT
    try:
        body = ast.parse(read_text(script)).body if script.is_file() else []
    except (SyntaxError, RecursionError) as error:
        raise NotReduced(f"the script is no Python: {error}") from error
    assigned = [own for own in body if isinstance(own, ast.Assign)]
    values = {
        own.targets[0].id: own.value for own in assigned if isinstance(own.targets[0], ast.Name)
    }
    if not {"MODEL", "INPUTS"} <= values.keys():
        raise NotReduced("there is no finding.json, and no MODEL and INPUTS in the script")
    text, inputs = (_value(values[name]) for name in ("MODEL", "INPUTS"))
    try:
        return parser.parse_model(text), inputs
    except parser.ParseError as error:
        raise NotReduced(f"MODEL of the script cannot be parsed: {error}") from error


CONSTRUCTORS = ("array", "arange", "ones", "zeros", "full")
"""The functions of NumPy that may make INPUTS, beside the methods `reshape` and `view`."""


def _value(node: ast.expr) -> Any:
    """The value of an expression of literals and CONSTRUCTORS. Raises: NotReduced for others."""
    match node:
        case ast.Dict(keys, values) if None not in keys:
            return {_value(key): _value(value) for key, value in zip(keys, values) if key}
        case ast.Attribute(ast.Name("np"), "nan" | "inf" as name):
            return getattr(np, name)
        case ast.UnaryOp(ast.USub(), operand):
            return -_value(operand)
        case ast.List(items):
            return [_value(item) for item in items]
        case ast.Name("bool"):
            return bool
        case ast.Call(ast.Attribute(ast.Name("np"), name), given, named) if name in CONSTRUCTORS:
            options = {own.arg: _value(own.value) for own in named if own.arg}
            return getattr(np, name)(*map(_value, given), **options)
        case ast.Call(ast.Attribute(inner, "reshape" | "view" as name), given, []):
            return getattr(_value(inner), name)(*map(_value, given))
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise NotReduced(f"the script computes {ast.unparse(node)[:60]}") from error

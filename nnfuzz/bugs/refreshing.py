"""Makes the script of a bug again from the model and data of its finding."""

from __future__ import annotations

from pathlib import Path

from nnfuzz.backend.registry import BackendRegistry, RegistryError
from nnfuzz.base.files import write_atomically
from nnfuzz.base.untrusted import below, read_json, read_text
from nnfuzz.bugs.bug import BugError
from nnfuzz.bugs.ledger import SCRIPT
from nnfuzz.findings.folder import (
    FindingError,
    Trust,
    finding_script,
    is_finding,
    nobody,
    read_finding,
)
from nnfuzz.findings.reduced import repro_program
from nnfuzz.records.finding import Finding

RENEWED, SAME = "renewed", "is as this nnfuzz would make it"


def refreshed(folder: Path, registry: BackendRegistry, trusted: Trust = nobody) -> str:
    """Writes repro.py anew; returns the result, or why the old one stays. Raises: OSError."""
    try:
        text = script_of(folder, registry, trusted)
    except BugError as error:
        return str(error)
    script = below(folder, SCRIPT)
    if script.is_file() and read_text(script) == text:
        return SAME
    write_atomically(script, text.encode())
    return RENEWED


def own_script(folder: Path, registry: BackendRegistry, trusted: Trust) -> str:
    """Puts the script of this nnfuzz in place of one that came with a finding, which is a program
    of whoever made the folder; without a model or a plug-in there is none then.

    Returns why there is none, or "". Raises: OSError.
    """
    script = folder / SCRIPT
    script.unlink(missing_ok=True)
    try:
        script.write_text(script_of(folder, registry, trusted), encoding="utf-8")
    except BugError as error:
        return str(error)
    return ""


def script_of(folder: Path, registry: BackendRegistry, trusted: Trust = nobody) -> str:
    """The text of repro.py for the finding in a folder.

    trusted: says which plug-ins that the finding names may run.
    Raises: BugError where it has no model, or needs a plug-in that may not run.
    """
    if not is_finding(folder):
        raise BugError("has no model")
    try:
        finding = read_finding(folder, trusted)
        if refused := _missing(folder, finding):
            raise BugError(f"needs the plug-in {refused}: name it with --plugin")
        program = repro_program(finding, registry)
    except (FindingError, RegistryError) as error:
        raise BugError(str(error)) from error
    if not finding.case.model:
        raise BugError("has no model")
    return finding_script(finding, program)


def _missing(folder: Path, finding: Finding) -> str:
    """A plug-in that the finding in a folder names and that it was not given; "" if it has all."""
    data = read_json(below(folder, "finding.json"))
    named = [*((data["backend"] or {}).get("plugins") or ()), *data["config"].get("plugins", ())]
    own = finding.backend.plugins if finding.backend else ()
    given = {Path(plugin).name for plugin in (*own, *finding.config.get("plugins", ()))}
    return next((plugin for plugin in named if Path(plugin).name not in given), "")

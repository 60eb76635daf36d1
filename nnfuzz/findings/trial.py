"""Does the repro.py of a finding fail in a process of its own?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.releases import home_of
from nnfuzz.base.safe_path import safe_environment
from nnfuzz.records.finding import Finding

SCRIPT = "repro.py"
SECONDS = 60.0
"""After which a run of the script is ended; it then counts as one that could not run."""
POISONS = ("85", "170")
"""Bytes with which the C library fills memory in further runs, where the first one does well: what
reads memory that nobody has written fails by chance otherwise."""
FIXED, CANNOT = 0, 125
"""The exit code of a script that does not fail, see nnfuzz.report.repro.exit_codes."""


@dataclass(frozen=True)
class Trial:
    """The result of running a script. failed: of so many runs. poisoned: whether memory had to be
    filled for that. able: whether the script ran at all.
    """

    failed: int
    runs: int
    poisoned: bool = False
    able: bool = True

    def __str__(self) -> str:
        """The part of a title on it; "" where the script fails as it should."""
        if not self.able:
            return f"{SCRIPT} cannot run here"
        if not self.failed:
            return f"does not reproduce: {SCRIPT} failed in 0 of {self.runs} runs"
        return f"{SCRIPT} failed in {self.failed} of {self.runs} runs" if self.poisoned else ""


def tried(folder: Path, finding: Finding, registry: BackendRegistry) -> Trial | None:
    """Runs the script in the folder of a finding in fresh processes, once if it fails.

    None where there is none, and for a hang, which was confirmed with its whole time limit.
    Raises: RegistryError.
    """
    script, spec = folder / SCRIPT, finding.backend
    if spec is None or not script.is_file() or finding.failure.kind is OutcomeKind.TIMEOUT:
        return None
    home = home_of(registry.get(spec.name), spec.release)
    command = [str(home.python) if home else sys.executable, str(script.resolve())]
    codes = [_exit_code(command, {})]
    if codes == [FIXED]:
        codes += [_exit_code(command, {"MALLOC_PERTURB_": poison}) for poison in POISONS]
    failed = sum(code not in (FIXED, CANNOT) for code in codes)
    return Trial(failed, len(codes), len(codes) > 1 and failed > 0, codes[0] != CANNOT)


def _exit_code(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """The exit code of a process in an empty folder and in its own group, which is killed after its
    time. A script that ends without a line could not run: it prints expected and actual values
    before it fails.
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

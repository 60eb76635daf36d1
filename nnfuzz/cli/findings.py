"""Findings as commands take them: a folder that is checked, and the backend to run it on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nnfuzz.cli.errors import tell

if TYPE_CHECKING:
    from nnfuzz.backend.registry import BackendRegistry, BackendSpec
    from nnfuzz.cli.consent import Consent
    from nnfuzz.records.finding import Finding


def chosen_model(finding: Path, original: bool) -> Path:
    """The folder of the reduced model where a finding has one and `original` is not asked for; else
    the finding's own. A note names the model that is taken.
    """
    from nnfuzz.findings.folder import smallest

    folder = finding if original else smallest(finding)
    if folder != finding:
        tell(f"the reduced model is taken, {folder}; --original takes the one it came from")
    return folder


def open_with_consent(folder: Path, consent: Consent) -> Finding:
    """The finding in a folder, with the plug-ins that may run. Raises: Unreadable, FindingError."""
    from nnfuzz.library import replaying

    finding = replaying.open_finding(folder, consent)
    plugins = dict.fromkeys([*finding.config["plugins"], *consent.given])
    return replace(finding, config={**finding.config, "plugins": list(plugins)})


def backends_of(
    finding: Finding, plugins: Iterable[Path], consent: Consent, needed: str = ""
) -> BackendRegistry:
    """All backends: those of these files and of the finding's own plug-ins as well.

    needed: name of a backend that must be there.
    Raises: RegistryError; UsageError if the needed one is in a plug-in that may not run.
    """
    from nnfuzz.backend.registry import BackendRegistry

    own = finding.backend
    stored = [path for path in (own.plugins if own else ()) if Path(path).is_file()]
    registry = BackendRegistry.discover([*plugins, *stored])
    if needed and consent.refused and needed not in registry.names():
        raise consent.error()
    return registry


def backend_of(
    finding: Finding, text: str, plugins: Iterable[Path], consent: Consent
) -> BackendSpec | None:
    """The backend that `text` asks for; if it is empty, the finding's own with its options.

    plugins: files besides those of the finding. None if neither names a backend.
    Raises: RegistryError, OptionError; UsageError if the backend is one that may not run.
    """
    own = finding.backend
    needed = own.name if own and not text else ""
    registry = backends_of(finding, plugins, consent, needed)
    for plugin in consent.refused:
        typer.echo(f"not run: the plug-in {plugin}, which the finding names", err=True)
    if text:
        return registry.parse(text)
    if own is None:
        return None
    return replace(registry.spec(own.name, own.options, own.release), label=own.label)


def opened_for_run(
    finding: Path, original: bool, text: str, plugins: Iterable[Path]
) -> tuple[Path, Finding, BackendSpec | None]:
    """The folder of the chosen model, its finding, and the backend that runs it (None for a finding
    without a model). Raises: as `open_with_consent` and `backend_of` do.
    """
    from nnfuzz.cli.consent import Consent

    folder = chosen_model(finding, original)
    consent = Consent(folder, plugins)
    opened = open_with_consent(folder, consent)
    spec = backend_of(opened, text, plugins, consent) if opened.case.model else None
    return folder, opened, spec

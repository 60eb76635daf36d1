"""Which plug-ins of a folder may run: those that the user has named at some time, or allows now.

A plug-in is a program with the rights of its user, and a finding or campaign may come from anybody.
Whatever was given as --plugin is remembered per user, by its whole path or module name, so that
one's own findings and campaigns need no further word. For everything else --plugin has to be given
once more, or a question be answered.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import typer

from nnfuzz.cli.errors import UsageError


def remember(plugins: list[Path] | None) -> list[Path] | None:
    """Keeps what the user has named, if the disk allows."""
    from nnfuzz.execute.registry import plugin_name

    if plugins:
        names = {plugin_name(path) for path in plugins} - _remembered()
        try:
            _file().parent.mkdir(parents=True, exist_ok=True)
            with _file().open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(name) + "\n" for name in sorted(names))
        except OSError:
            pass
    return plugins


class Consent:
    """Answers whether a plug-in that a folder names may run.

    given: those that the command or an answer names; refused: those that may not.
    """

    def __init__(self, folder: Path, given: Iterable[Path] = ()) -> None:
        """given: with --plugin in this command."""
        from nnfuzz.execute.registry import plugin_name

        self._folder = folder
        self.given = list(map(plugin_name, given))
        self._known = _remembered()
        self.refused: list[str] = []

    def __call__(self, plugin: str) -> bool:
        if plugin in self.given or (plugin in self._known and _is_own(plugin)):
            return True
        if plugin not in self.refused and self._asked(plugin):
            self.given.append(plugin)
            remember([Path(plugin)])
            return True
        self.refused = list(dict.fromkeys([*self.refused, plugin]))
        return False

    def require(self, plugins: Iterable[str]) -> None:
        """Raises: UsageError if one of them may not run."""
        if any([not self(plugin) for plugin in plugins]):
            raise self.error()

    def error(self) -> UsageError:
        """What to do about those that may not run."""
        options = " ".join(f"--plugin {plugin}" for plugin in self.refused)
        return UsageError(
            f"{self._folder} needs a plug-in, a program that would run with your rights and that "
            f"you have not used before: add {options} if you trust it"
        )

    def _asked(self, plugin: str) -> bool:
        if not (sys.stdin.isatty() and sys.stderr.isatty()) or not _exists(plugin):
            return False
        told = f"{self._folder} names the plug-in {plugin}, which you have not used before. Run it?"
        return typer.confirm(told, err=True)


def _file() -> Path:
    import platformdirs

    return Path(platformdirs.user_state_dir("nnfuzz")) / "plugins"


def _remembered() -> set[str]:
    from nnfuzz.reading import Unreadable
    from nnfuzz.untrusted import read_text

    try:
        return {json.loads(line) for line in read_text(_file()).splitlines()}
    except (Unreadable, ValueError, TypeError):
        return set()


def _exists(plugin: str) -> bool:
    return Path(plugin).is_file() or not Path(plugin).is_absolute()


def _is_own(plugin: str) -> bool:
    """Whether nobody else can have put another file in the place of the one that was named."""
    try:
        return not Path(plugin).is_absolute() or Path(plugin).stat().st_uid in (0, os.getuid())
    except OSError:
        return True  # there is none that could run

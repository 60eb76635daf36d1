"""The plug-ins of a folder that may run: those that the command names with --plugin.

A plug-in is a program with the rights of its user, and a finding or campaign may come from anybody.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nnfuzz.cli.errors import UsageError


class Consent:
    """Answers whether a plug-in that a folder names may run.

    given: those that the command names; refused: those that may not.
    """

    def __init__(self, folder: Path, given: Iterable[Path] = ()) -> None:
        """given: with --plugin in this command."""
        from nnfuzz.backend.registry import plugin_name

        self._folder = folder
        self.given = list(map(plugin_name, given))
        self.refused: list[str] = []

    def __call__(self, plugin: str) -> str:
        """The plug-in that may run in place of one: the given one of its name, or itself; or ""."""
        from nnfuzz.backend.registry import namesake

        return namesake(self.given)(plugin) or (plugin if self._allows(plugin) else "")

    def _allows(self, plugin: str) -> bool:
        if plugin in self.given:
            return True
        self.refused = list(dict.fromkeys([*self.refused, plugin]))
        return False

    def require(self, plugins: Iterable[str]) -> None:
        """Raises: UsageError if one of them may not run."""
        if any([not self._allows(plugin) for plugin in plugins]):
            raise self.error()

    def error(self) -> UsageError:
        """The error for plug-ins that may not run, with the fix."""
        options = " ".join(f"--plugin {plugin}" for plugin in self.refused if _exists(plugin))
        absent = [plugin for plugin in self.refused if not _exists(plugin)]
        if absent:
            return UsageError(
                f"{self._folder} needs the plug-in {absent[0]}, which is not there: say where "
                f"{Path(absent[0]).name} is now, with --plugin FILE"
            )
        return UsageError(
            f"{self._folder} needs a plug-in, a program that would run with your rights and that "
            f"this command does not name: add {options} if you trust it"
        )


def _exists(plugin: str) -> bool:
    return Path(plugin).is_file() or not Path(plugin).is_absolute()

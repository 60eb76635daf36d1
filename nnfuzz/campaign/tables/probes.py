"""What compilers answered to probes, the models of one operator."""

from __future__ import annotations

from collections.abc import Mapping

from nnfuzz.campaign.support import Answer, Answers
from nnfuzz.campaign.tables.columns import dumps, loads
from nnfuzz.campaign.tables.database import Table


class Probes(Table):
    """One row per signature, instance and backend."""

    def add(
        self, backend: str, key: str, instance: int, before: int, levels: Mapping[str, Answer]
    ) -> None:
        """Keeps what a backend answered to a probe, by level. before: the index of the test before
        which the probe was asked for.
        """
        written = {level: [answer.kind, answer.message] for level, answer in levels.items()}
        self._db.put(
            "probes",
            key=key,
            instance=instance,
            backend=backend,
            before=before,
            answers=dumps(written),
        )

    def load(self, answers: Answers) -> None:
        """Adds what the campaign's probes were answered to `answers`."""
        for key, instance, backend, text in self._db.execute(
            "SELECT key, instance, backend, answers FROM probes"
        ):
            answers.add(backend, key, instance, loads(dict[str, Answer], text))

    def before(self, index: int) -> list[str]:
        """Returns the signatures that were probed for the tests from an index on."""
        query = "SELECT DISTINCT key FROM probes WHERE before = ? ORDER BY key"
        return [row[0] for row in self._db.execute(query, index)]

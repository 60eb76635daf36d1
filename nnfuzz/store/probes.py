"""The answers of compilers to probes, the models of one operator."""

from __future__ import annotations

from collections.abc import Mapping

from nnfuzz.base.writing import as_json
from nnfuzz.feedback.support import ProbeAnswer, ProbeAnswers
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.store.columns import dumps, loads
from nnfuzz.store.database import Table


class Probes(Table):
    """One row per signature, instance and backend."""

    def add(
        self,
        backend: str,
        key: SupportKey,
        instance: int,
        before: int,
        levels: Mapping[str, ProbeAnswer],
    ) -> None:
        """Keeps a backend's answer to a probe, by level. before: the index of the test before
        which the probe was asked for.
        """
        self._db.put(
            "probes",
            key=str(key),
            instance=instance,
            backend=backend,
            before=before,
            answers=dumps(as_json(levels)),
        )

    def load(self, answers: ProbeAnswers) -> None:
        """Adds the answers to the campaign's probes to `answers`."""
        for key, instance, backend, text in self._db.execute(
            "SELECT key, instance, backend, answers FROM probes"
        ):
            levels = loads(dict[str, ProbeAnswer], text)
            answers.add(backend, SupportKey.parse(key), instance, levels)

    def before(self, index: int) -> list[str]:
        """Returns the signatures that were probed for the tests from an index on."""
        query = "SELECT DISTINCT key FROM probes WHERE before = ? ORDER BY key"
        return [row[0] for row in self._db.execute(query, index)]

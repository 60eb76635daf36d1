"""What epochs are made with: the answers to probes, refusals and restraints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nnfuzz.base.writing import as_json
from nnfuzz.feedback.support import ProbeAnswer, ProbeAnswers
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.records.rows import AvoidedRow
from nnfuzz.store.database import Table, dumps, end_of, loads


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


class Restraints(Table):
    """The configuration of test cases by epoch; every test names its own.

    An epoch without a row has the configuration of the one before it.
    """

    def set_epoch(
        self,
        number: int,
        refused: Iterable[str],
        reasons: Mapping[str, str],
        avoided: Iterable[AvoidedRow] = (),
    ) -> None:
        """Records the refused and avoided items from an epoch on.

        reasons: of the refusals that are new in it. avoided: all that is avoided in it.
        """
        self._db.put(
            "epochs",
            id=number,
            refused=dumps(sorted(refused)),
            reasons=dumps(dict(reasons)),
            avoided=dumps(as_json(tuple(avoided))),
        )

    def row_of(self, epoch: int) -> int:
        """Returns the number of the row that holds for an epoch; -1 if none does."""
        query = "SELECT coalesce(max(id), -1) FROM epochs WHERE id <= ?"
        return int(self._db.value(query, epoch))

    def last(self) -> int:
        """Returns the newest epoch with a configuration of its own; -1 if there is none."""
        return self.row_of(end_of(None))

    def ever_avoided(self) -> list[AvoidedRow]:
        """Returns everything that was avoided in some epoch, each item once."""
        ever: dict[str, AvoidedRow] = {}
        for (text,) in self._db.execute("SELECT avoided FROM epochs ORDER BY id"):
            for row in loads(tuple[AvoidedRow, ...], text):
                ever.setdefault(row.item, row)
        return list(ever.values())

    def settings_in(self, epoch: int) -> dict[str, Any]:
        """Returns the fields of CaseConfig that an epoch sets: refused and avoided items."""
        query = "SELECT refused, avoided FROM epochs WHERE id = ?"
        row = self._db.execute(query, self.row_of(epoch)).fetchone() or ("[]", "[]")
        avoided = loads(tuple[AvoidedRow, ...], row[1])
        return {
            "refused": loads(tuple[str, ...], row[0]),
            "avoid": tuple(each.item for each in avoided),
        }

    def reasons(self) -> dict[str, str]:
        """Returns why each signature was refused, over all epochs."""
        by_signature: dict[str, str] = {}
        for (text,) in self._db.execute("SELECT reasons FROM epochs ORDER BY id"):
            by_signature.update(loads(dict[str, str], text))
        return by_signature

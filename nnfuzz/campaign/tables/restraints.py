"""Under which refusals, restraints and emphasis tests were made, and what probes said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from nnfuzz.campaign.rows import AvoidedRow
from nnfuzz.campaign.support import ProbeAnswer, ProbeAnswers
from nnfuzz.campaign.tables.database import Database, dumps, loads
from nnfuzz.generate.emphasis import NO_EMPHASIS, Emphasis
from nnfuzz.ir.support_key import SupportKey


class Restraints(Database):
    """The configuration of test cases by epoch; every test names its own.

    An epoch that is not among the rows has the configuration of the one before it.
    """

    def set_epoch(
        self,
        number: int,
        refused: Iterable[str],
        reasons: Mapping[str, str],
        avoided: Iterable[AvoidedRow] = (),
        emphasis: Emphasis = NO_EMPHASIS,
    ) -> None:
        """Records what is refused, avoided and emphasised from an epoch on.

        reasons: of the refusals that are new in it. avoided: all that is avoided in it.
        """
        told = dumps(sorted(refused)), dumps(dict(reasons)), dumps(asdict(emphasis))
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO epochs VALUES (?, ?, ?, ?)", [number, *told])
            self._db.execute("DELETE FROM avoided WHERE epoch = ?", [number])
            self._db.executemany(
                "INSERT INTO avoided VALUES (?, ?, ?, ?, ?)",
                [(number, row.item, row.signature, row.why, row.share) for row in avoided],
            )

    def _row(self, epoch: int) -> int:
        query = "SELECT coalesce(max(id), -1) FROM epochs WHERE id <= ?"
        return int(self._db.execute(query, [epoch]).fetchone()[0])

    def last_epoch(self) -> int:
        """The newest epoch with a configuration of its own; -1 if there is none."""
        return int(self._db.execute("SELECT coalesce(max(id), -1) FROM epochs").fetchone()[0])

    def avoided_in(self, epoch: int) -> list[AvoidedRow]:
        """What was avoided in an epoch, by item."""
        query = "SELECT item, signature, why, share FROM avoided WHERE epoch = ? ORDER BY item"
        return [AvoidedRow(*row) for row in self._db.execute(query, [self._row(epoch)])]

    def ever_avoided(self) -> list[AvoidedRow]:
        """Everything that was avoided in some epoch, each item once."""
        query = """
            SELECT item, signature, why, share FROM avoided GROUP BY item
            ORDER BY min(epoch), item"""
        return [AvoidedRow(*row) for row in self._db.execute(query)]

    def restraints_in(self, epoch: int) -> dict[str, Any]:
        """The fields of CaseConfig that an epoch sets."""
        avoided = tuple(row.item for row in self.avoided_in(epoch))
        refused, emphasis = self.refused_in(epoch), self.emphasis_in(epoch)
        return {"refused": refused, "avoid": avoided, "emphasis": emphasis}

    def emphasis_in(self, epoch: int) -> Emphasis:
        """What guidance asked for in an epoch."""
        query = "SELECT emphasis FROM epochs WHERE id = ?"
        row = self._db.execute(query, [self._row(epoch)]).fetchone()
        return loads(Emphasis, row[0]) if row else NO_EMPHASIS

    def refused_in(self, epoch: int) -> tuple[str, ...]:
        """The refused signatures of an epoch."""
        query = "SELECT refused FROM epochs WHERE id = ?"
        row = self._db.execute(query, [self._row(epoch)]).fetchone()
        return loads(tuple[str, ...], row[0]) if row else ()

    def reasons(self) -> dict[str, str]:
        """Refused signature -> why, over all epochs."""
        found: dict[str, str] = {}
        for (text,) in self._db.execute("SELECT reasons FROM epochs ORDER BY id"):
            found.update(loads(dict[str, str], text))
        return found

    def add_answers(
        self,
        backend: str,
        key: SupportKey,
        instance: int,
        before: int,
        levels: Mapping[str, ProbeAnswer],
    ) -> None:
        """Keeps what a probe has said, which was asked for before an index."""
        told = {level: [answer.kind, answer.message] for level, answer in levels.items()}
        self._db.execute(
            "INSERT OR REPLACE INTO probes VALUES (?, ?, ?, ?, ?)",
            [str(key), instance, backend, before, dumps(told)],
        )

    def load_answers(self, answers: ProbeAnswers) -> None:
        """Adds what the campaign's probes have said."""
        for key, instance, backend, text in self._db.execute(
            "SELECT key, instance, backend, answers FROM probes"
        ):
            levels = loads(dict[str, ProbeAnswer], text)
            answers.add(backend, SupportKey.parse(key), instance, levels)

    def probed(self, before: int) -> list[str]:
        """The signatures that were probed for the tests from an index on."""
        query = "SELECT DISTINCT key FROM probes WHERE before = ? ORDER BY key"
        return [row[0] for row in self._db.execute(query, [before])]

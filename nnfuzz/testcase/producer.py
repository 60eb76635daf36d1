"""Makes the test cases of a campaign for all exporters; judges outputs as CaseBench does."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from nnfuzz.base.reading import Json
from nnfuzz.check.versions import Judgements
from nnfuzz.generate.catalog import NothingLeft
from nnfuzz.ir.support_key import operators_in
from nnfuzz.materialize.opsets import writer
from nnfuzz.operators.motif import load_motifs
from nnfuzz.sandbox.job import Report as Progress
from nnfuzz.sandbox.job import does
from nnfuzz.testcase.bench import COLLECTED, BenchService, CaseBench
from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase
from nnfuzz.testcase.case_generator import CaseGenerator, Report
from nnfuzz.testcase.identity import Numbered, Probe, TestId
from nnfuzz.testcase.jobs import Configure, ListVocabulary, Produce, Vocabulary
from nnfuzz.testcase.vocabulary import Parts, SeedLibrary, newest_signatures, opset_weights
from nnfuzz.vary.generation import Opset
from nnfuzz.vary.table import VARIATIONS
from nnfuzz.vary.variation import Variation


class Producer(CaseBench):
    """Makes the test cases of one campaign; each depends on (seed, index, config) only.

    There is a `CaseGenerator` for each exporter, and for each opset that is drawn for it. Exporters
    take turns by index, and an index has its opset by chance.
    """

    def __init__(self, seed: int, config: CaseConfig, cache: str | Path = "") -> None:
        """cache: folder in which judgements on operators are kept for other processes; "": none.

        Raises: as CaseGenerator does; NothingLeft only if no exporter has any operator.
        """
        super().__init__(config)
        self.seed = seed
        self._config = config
        self._drawn: dict[str, dict[str, float]] = {}
        """By exporter, its writers with their weights."""
        motifs = load_motifs(self.plugins)
        library = SeedLibrary(self.registry)
        judgements = Judgements.kept_in(cache)
        self._parts = Parts(self.registry, motifs, self.exporters, library, judgements)
        self.configure(config)

    def configure(self, config: CaseConfig) -> None:
        """From now on, makes the test cases of another configuration with the same plug-ins.

        Files that were read and answers that were learnt are kept. Raises: as the constructor does.
        """
        if self._drawn and config == self._config:
            return
        self.judge_by(config)
        self._config = config
        self._generators: dict[str, CaseGenerator] = {}
        self._varied: dict[tuple[str, str], CaseGenerator | None] = {}
        self._drawn = {}
        empty: dict[str, NothingLeft] = {}
        for name in config.exporters:
            try:
                self._drawn[name] = self._weighted(name)
                self._first(self._drawn[name])
            except NothingLeft as error:
                del self._drawn[name]
                empty[name] = error
        if not self._drawn:
            reasons = "; ".join(f"exporter {name}: {error}" for name, error in empty.items())
            raise NothingLeft(f"{reasons} (nnfuzz ops lists the operators that exporters write)")
        self._wanted = (*config.operators, *config.focus)
        self._left_out = [f"exporter {name} is left out: {empty[name]}" for name in empty]

    def _weighted(self, exporter: str) -> dict[str, float]:
        """The writers of an exporter, the newest first, with the weights of their opsets."""
        opsets = self._config.drawing(exporter)
        if not opsets:
            return {exporter: 1.0}
        newest = self._config.only(writer(exporter, opsets[0]))
        weights = opset_weights(newest, self._parts, opsets)
        return {writer(exporter, opset): weight for opset, weight in weights.items()}

    def _first(self, writers: Iterable[str]) -> CaseGenerator:
        """The generator of the first of some writers for which any operator is left.

        Raises: NothingLeft if there is none.
        """
        why = NothingLeft("no opset is left")
        for name in writers:
            try:
                return self._generator(name)
            except NothingLeft as error:
                why = error
        raise why

    def _generator(self, name: str) -> CaseGenerator:
        """The generator of a writer, made when it is first needed. Raises: NothingLeft."""
        if name not in self._generators:
            self._generators[name] = self._made(self._config.only(name))
        return self._generators[name]

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes to users on the settings that they have chosen, one line each."""
        seeds = (note for names in self._drawn.values() for note in self._first(names).seeds.notes)
        used = {name for keys in self.signatures().values() for name in operators_in(keys)}
        wanted = self.registry.select(self._wanted).specs() if self._wanted else ()
        unused = [spec.name for spec in wanted if spec.name not in used]
        unused_note = f"{', '.join(unused)}: no signature is left with these settings (nnfuzz ops)"
        notes = (*self.registry.notes, *self._left_out, *seeds, *([unused_note] if unused else []))
        return tuple(dict.fromkeys(notes))

    def signatures(self) -> dict[str, list[str]]:
        """Per exporter, the keys of all operator signatures that generation may use; of opsets that
        are drawn, each signature at the newest opset of every version of its operator.
        """
        by_writer: dict[str, list[str]] = {}
        for exporter in self._drawn:
            opsets = self._config.drawing(exporter)
            if not opsets:
                by_writer[exporter] = self._generator(exporter).catalog.signature_keys()
            for opset in opsets:
                own = self._config.only(writer(exporter, opset))
                by_writer[own.writer] = newest_signatures(own, self._parts, opsets)
        self._parts.judgements.save()
        return {name: keys for name, keys in by_writer.items() if keys}

    def variables(self) -> dict[str, list[int]]:
        """Per operator, the first input that binds each type variable, in a key's order."""
        specs = (spec for names in self._drawn.values() for spec in self._first(names).specs)
        return {spec.name: list(spec.bound().values()) for spec in specs}

    def generator_for(self, index: int) -> CaseGenerator:
        """The generator that makes the test case of an index."""
        turns = list(self._drawn.values())
        writers = turns[(self.seed + index) % len(turns)]
        usual = self._first(Opset.in_order(writers, self.seed, index))
        for variation in VARIATIONS:
            if variation.chosen(self._config, self.seed, index):
                return self._configured(variation, usual.config.writer) or usual
        return usual

    def _configured(self, variation: type[Variation], name: str) -> CaseGenerator | None:
        """The generator of a writer's tests with a variation; None if no operator is left."""
        key = variation.name, name
        if key not in self._varied:
            self._varied[key] = None
            with suppress(NothingLeft):
                self._varied[key] = self._made(variation.configured(self._config.only(name)))
        return self._varied[key]

    def _made(self, config: CaseConfig) -> CaseGenerator:
        """A new generator; what was judged for it is kept. Raises: NothingLeft."""
        made = CaseGenerator(self.seed, config, self._parts)
        self._parts.judgements.save()
        return made

    def produce(
        self,
        index: int,
        report: Report = lambda stage: None,
        died: tuple[str, str] | None = None,
    ) -> TestCase | NotProduced:
        """The test case of an index, or why there is none. Never raises for a bad case.

        died: see nnfuzz.testcase.jobs.Produce.
        """
        return self.generator_for(index).produce(index, report, died)

    def made(
        self,
        id_: TestId,
        report: Report = lambda stage: None,
        died: tuple[str, str] | None = None,
    ) -> TestCase | NotProduced:
        """The test case that is meant, or why there is none.

        Raises: KeyError for a probe of an unknown exporter or signature, ValueError for a test of
        another seed or a foreign model.
        """
        if isinstance(id_, Probe):
            return self._generator(id_.key.exporter).probe(id_, report, died)
        if isinstance(id_, Numbered) and id_.seed == self.seed:
            return self.produce(id_.index, report, died)
        raise ValueError(f"{id_} is not made by a producer of seed {self.seed}")


class ProducerService(BenchService):
    """One per worker; loads operator specs once."""

    def __init__(self, seed: int, config: Mapping[str, Json], cache: str = "") -> None:
        """cache: the folder of files for other processes; "" for none."""
        gc.set_threshold(*COLLECTED)
        self.producer = Producer(seed, CaseConfig.from_json(config), cache)
        super().__init__(self.producer)

    @does(Produce)
    def produce(self, job: Produce, report: Progress) -> TestCase | NotProduced:
        return self.producer.made(job.test, report, job.died)

    @does(ListVocabulary)
    def vocabulary(self, job: ListVocabulary, report: Progress) -> Vocabulary:
        producer = self.producer
        return Vocabulary(producer.signatures(), producer.variables(), list(producer.notes))

    @does(Configure)
    def configure(self, job: Configure, report: Progress) -> None:
        self.producer.configure(job.config)


def producer_service(seed: int, config: Mapping[str, Json], cache: str = "") -> ProducerService:
    """The factory that sandboxes name (nnfuzz.testcase.client.PRODUCER)."""
    return ProducerService(seed, config, cache)

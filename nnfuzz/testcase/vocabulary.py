"""What graphs are made of: operators, signatures, motifs, weights, and seed models."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from nnfuzz.backend.target import DIRECT
from nnfuzz.base.reading import Unreadable
from nnfuzz.base.untrusted import read_model
from nnfuzz.check.versions import Judgements, admitted_by_schema, newest_of_version, version_of
from nnfuzz.generate.catalog import Catalog, NothingLeft
from nnfuzz.generate.config import DTYPE_WEIGHTS, GenerateConfig
from nnfuzz.generate.focus import AGAIN, AIMED, touching
from nnfuzz.generate.turns import writable
from nnfuzz.ir.graph import Graph
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.materialize.exporters import Exporter
from nnfuzz.materialize.importing import ImportedModel, import_onnx, opaque_nodes
from nnfuzz.materialize.opsets import exporter_of, opset_of, opset_range
from nnfuzz.materialize.static import OnnxImportError
from nnfuzz.operators.motif import Motif
from nnfuzz.operators.operator import OpSpec
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.settings import digest

SCARCE = 4.0
"""Factor at most on the frequency of an operator that few opsets have."""


@dataclass(frozen=True)
class Parts:
    """The parts that the case generators of a producer share in all configurations."""

    registry: OpRegistry
    motifs: Sequence[Motif]
    exporters: Mapping[str, Exporter]
    seeds: SeedLibrary
    judgements: Judgements


def motifs_of(config: CaseConfig, parts: Parts) -> Sequence[Motif]:
    """The motifs that the chosen operators can write at some opset, and that touch the focus."""
    found = parts.motifs
    if config.operators or config.exclude or config.focus:
        specs = specs_of(replace(config, opset=opset_range(DIRECT)[1]), parts.registry)
        if config.operators or config.exclude:
            found = writable(tuple(found), tuple(specs))
        if config.focus:
            found = touching(found, specs, config.focus)
    return found


def specs_of(config: CaseConfig, registry: OpRegistry) -> list[type[OpSpec]]:
    among = registry.of_domains(config.domains)
    decided = (spec.name for spec in among if spec.edges or spec.carries_nan)
    usual = [*decided, *config.focus] if config.edges else [spec.name for spec in among]
    chosen = registry.select(config.operators or usual)
    excluded = set(registry.select(config.exclude))
    return [s for s in chosen.specs() if s.name not in excluded and s.since <= config.opset]


def newest_signatures(config: CaseConfig, parts: Parts, opsets: tuple[int, ...]) -> list[str]:
    """The keys of the signatures of operators that have another version at the next newer opset.

    config: of one opset. opsets: all that are drawn with it.
    """
    known = parts.judgements
    specs = [
        spec
        for spec in specs_of(config, parts.registry)
        if newest_of_version(spec, config.opset, opsets, known) == config.opset  # type: ignore[arg-type]
    ]
    own = replace(config, refused=keys_holding(config.refused, config, parts))
    try:
        admitted = admitted_by_schema(generate_config(own), specs, config.onnx_release, known)
        return Catalog(specs, admitted).signature_keys()
    except NothingLeft:
        return []


def opset_weights(config: CaseConfig, parts: Parts, opsets: Sequence[int]) -> dict[int, float]:
    """The weights of opsets. Each version of an operator counts 1, divided by the number of opsets
    that have it: an opset weighs the more, the more exists there and at few others. If operators
    are asked for by name, they alone count.

    config: of the newest of the opsets. An opset without any operator is left out, unless all are.
    """
    asked = (*config.operators, *config.focus)
    specs = parts.registry.select(asked).specs() if asked else specs_of(config, parts.registry)
    weights = dict.fromkeys(opsets, 0.0)
    for spec in specs:
        versions = {o: version_of(spec, o, parts.judgements) for o in opsets if o >= spec.since}  # type: ignore[arg-type]
        sharing = Counter(versions.values())
        for opset, version in versions.items():
            weights[opset] += (0 not in version) / sharing[version]
    having = {opset: weight for opset, weight in weights.items() if weight}
    return having or dict.fromkeys(opsets, 1.0)


def keys_holding(keys: Iterable[str], config: CaseConfig, parts: Parts) -> tuple[str, ...]:
    """Of some written keys those that hold at the opset of a configuration, without exporters: one
    of a newer opset does where the operator has the same version there.
    """
    holding: list[str] = []
    known = parts.judgements
    for key in map(SupportKey.parse, keys):
        marked = opset_of(key.exporter)
        if not marked:
            holding.append(str(key))
        elif exporter_of(key.exporter) == config.exporter and key.operator in parts.registry:
            spec = parts.registry.get(key.operator)
            own = version_of(spec, config.opset, known)  # type: ignore[arg-type]
            if version_of(spec, marked, known) == own:  # type: ignore[arg-type]
                holding.append(str(key.signature))
    return tuple(holding)


def generate_config(config: CaseConfig) -> GenerateConfig:
    aimed = bool(config.focus)
    return GenerateConfig(
        nodes=config.nodes,
        motifs=config.motifs * (AIMED if aimed else 1.0),
        sizes=replace(config.sizes, again=AGAIN) if aimed else config.sizes,
        dtype_weights={**DTYPE_WEIGHTS, **config.dtypes},
        refused=frozenset(config.refused),
        exporter=config.exporter,
        opset=config.opset,
        focus=config.focus,
    )


def operator_weights(config: CaseConfig, specs: Sequence[type[OpSpec]]) -> dict[str, float]:
    """Factors on the frequencies of operators: those that few of the drawn opsets have are the more
    frequent where they are, up to SCARCE times.
    """
    weights, drawn = {}, sorted(config.drawn)
    for spec in specs:
        having = len(drawn) - bisect_left(drawn, spec.since)
        weights[spec.name] = min(len(drawn) / having, SCARCE) if having else 1.0
    return {name: weight for name, weight in weights.items() if weight != 1.0}


# -- seed models -----------------------------------------------------------------------------


@dataclass(frozen=True)
class SeedModels:
    """The starting graphs. notes: on files, for users, one line each."""

    graphs: tuple[Graph, ...] = ()
    notes: tuple[str, ...] = ()


class SeedLibrary:
    """Reads seed models, each set of them once."""

    def __init__(self, registry: OpRegistry) -> None:
        self._load = cache(partial(_seeds, registry))

    def load(self, config: CaseConfig) -> SeedModels:
        """The models of a configuration of one exporter, at its opset.

        Those that cannot be used are noted and left out. Raises: Unreadable if they have changed
        since the campaign began, or if none can be used.
        """
        files = config.seed_models
        given = files, config.seed_digest, config.exporter, config.opset
        return self._load(*given) if files else SeedModels()


def _seeds(
    registry: OpRegistry, files: tuple[str, ...], contents: str, exporter: str, opset: int
) -> SeedModels:
    if digest(files) != contents:
        raise Unreadable("the seed models have changed since the campaign began; start a new one")
    read = [_start(file, exporter, opset, registry) for file in files]
    notes = tuple(note for _, note in read if note)
    graphs = tuple(graph for graph, _ in read if graph is not None)
    if not graphs:
        raise Unreadable("no seed model can be read:\n  " + "\n  ".join(notes))
    return SeedModels(graphs, notes)


def _start(file: str, exporter: str, opset: int, registry: OpRegistry) -> tuple[Graph | None, str]:
    """The graph of a model, if it can be used, and notes on it for users."""
    try:
        imported = import_onnx(read_model(file), registry, opset)
    except (OnnxImportError, Unreadable) as error:
        return None, f"seed model {file} is left out: {error}"
    except Exception as error:  # a broken file may lead to any error
        return None, f"seed model {file} is left out: {type(error).__name__}: {error}"
    opaque = opaque_nodes(imported.graph)
    if opaque and exporter != "direct":
        return None, f"seed model {file} is left out: {opaque[0]} needs --exporter direct"
    facts = [*_facts(imported), *_opaque(opaque, imported)]
    return imported.graph, f"seed model {file}: {'; '.join(facts)}" if facts else ""


def _facts(imported: ImportedModel) -> Iterator[str]:
    """Sizes that were chosen, and the parts of the model that the graph lacks."""
    if imported.sizes:
        yield ", ".join(f"{name} = {size}" for name, size in imported.sizes.items())
    if imported.lost:
        kinds = ", ".join(dict.fromkeys(str(kind) for kind, _ in imported.lost))
        yield f"{len(imported.lost)} nodes are left out ({kinds}): {imported.lost[0][1]}"


def _opaque(opaque: Sequence[str], imported: ImportedModel) -> Iterator[str]:
    if opaque:
        yield (
            f"{len(opaque)} of {imported.count} nodes have no spec "
            f"({', '.join(dict.fromkeys(opaque))}); what depends on them is run, but not compared"
        )

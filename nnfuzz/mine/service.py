"""The service inside of a miner's worker: reads models, runs scripts, generalises cuts."""

from __future__ import annotations

import random
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nnfuzz.base.reading import Unreadable
from nnfuzz.base.untrusted import parsed_model, read_model, read_text
from nnfuzz.ir.view import NodeView
from nnfuzz.mine.cuts import LEAST, cuts
from nnfuzz.mine.jobs import (
    CollectBackendTests,
    CutModel,
    Generalise,
    ListStructures,
    ModelCuts,
    RunScript,
    ScriptModels,
)
from nnfuzz.operators.motif_file import MotifVariant
from nnfuzz.sandbox.confinement import confine, confines
from nnfuzz.sandbox.job import Report, Service, does

if TYPE_CHECKING:
    from onnx import ModelProto

TEXTS = {".prototxt": "textproto", ".textproto": "textproto", ".pbtxt": "textproto"}
TEXTS |= {".onnxtxt": "onnxtxt", ".onnxtext": "onnxtxt"}
"""Formats of models in text, by suffix."""
OPSET = 21
LARGEST = 1 << 24
"""Elements of the largest value of a model that is cut."""
LARGEST_FILE = 1 << 30
"""Bytes of the largest file that a script may write, in memory or on a disk."""


class MiningService(Service):
    """One per worker; loads operator specs once."""

    def __init__(self, cache: str = "") -> None:
        """cache: folder in which judgements on operators are kept; "": none."""
        from nnfuzz.operators.registry import OpRegistry

        self._cache = cache
        self.registry = OpRegistry.load()

    @does(CutModel)
    def cut(self, job: CutModel, report: Report) -> ModelCuts:
        from nnfuzz.materialize.importing import import_onnx
        from nnfuzz.materialize.static import OnnxImportError

        try:
            model = _read(Path(job.file))
            if len(model.graph.node) < LEAST and not model.functions:
                return ModelCuts()
            imported = import_onnx(model, self.registry, OPSET, largest=LARGEST)
        except (Unreadable, OnnxImportError) as error:
            return ModelCuts(problem=str(error))
        except Exception as error:  # whatever a damaged model leads to
            return ModelCuts(problem=f"{type(error).__name__}: {error}")
        graph = imported.graph.view()
        return ModelCuts(tuple(cuts(graph, self._fresh, random.Random(0), job.most)))

    def _fresh(self, node: NodeView) -> Sequence[bool]:
        patterns = self.registry.get(node.op).patterns(len(node.inputs))
        return [pattern.fresh for pattern in patterns]

    @does(RunScript)
    def run(self, job: RunScript, report: Report) -> ScriptModels:
        """The worker is confined to the folder of the models and its scratch folder from now on."""
        from nnfuzz.mine.capture import captured

        if confines():
            confine([Path(job.out), Path.cwd()], alone=True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
        return captured(Path(job.file), Path(job.out), job.paths)

    @does(CollectBackendTests)
    def collect(self, job: CollectBackendTests, report: Report) -> int:
        from nnfuzz.mine.capture import backend_tests

        return backend_tests(Path(job.out))

    @does(Generalise)
    def generalise(self, job: Generalise, report: Report) -> MotifVariant | None:
        from nnfuzz.mine.generalise import generalised

        job.cut.part.checked()
        return generalised(job.cut, self.registry.get, random.Random(job.seed))

    @does(ListStructures)
    def structures(self, job: ListStructures, report: Report) -> list[str]:
        from nnfuzz.check.judgements import Judgements
        from nnfuzz.mine.known import structures

        judgements = Judgements.kept_in(self._cache)
        found = structures(self.registry, job.mined, judgements)
        judgements.save()
        return sorted(found)


def _read(path: Path) -> ModelProto:
    """A model in any of ONNX's formats. Raises: Unreadable."""
    import onnx

    if path.suffix not in TEXTS:
        return read_model(path)
    text = read_text(path).encode()
    model = onnx.load_model_from_string(text, format=TEXTS[path.suffix])
    return parsed_model(model.SerializeToString(), path)


def mining_service(cache: str = "") -> MiningService:
    """The factory that sandboxes name: "nnfuzz.mine.service:mining_service"."""
    return MiningService(cache)

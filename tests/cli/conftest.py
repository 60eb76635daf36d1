"""What the tests of this room share."""

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.writing import as_json
from nnfuzz.experiment.compilers import examine
from nnfuzz.findings.folder import write_finding
from nnfuzz.records.finding import Finding
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.client import ProducerClient
from nnfuzz.testcase.identity import Numbered
from tests.command import exit_code as command

CONFIG = CaseConfig(nodes=3, exporter="direct", operators=("Add", "Mul", "Tanh", "Sub"))


LIAR = '''
import numpy as np

from nnfuzz.backends.onnxruntime import OnnxRuntime


class Liar(OnnxRuntime):
    """ONNX Runtime with a wrong answer at O3."""

    name = "liar"

    def build(self, module, level):
        right = super().build(module, level)
        if level != "O3":
            return right
        one = lambda v: np.asarray(v + v.dtype.type(1))
        return lambda inputs: {k: one(v) for k, v in right(inputs).items()}
'''


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    file = tmp_path_factory.mktemp("plugin") / "liar.py"
    file.write_text(LIAR)
    return file


@pytest.fixture(scope="module")
def finding(tmp_path_factory, plugin):
    registry = BackendRegistry.discover([plugin])
    spec = registry.spec("liar")
    config = as_json(CONFIG)
    with ProducerClient(5, config) as producer, BackendRunner(spec, registry) as runner:
        case = producer.produce(Numbered(5, 0))
        seen = examine(case, runner, producer)
    (failure,) = seen.failures
    found = Finding(failure, case, seen.outcomes, spec, config, seen.verdict)
    return write_finding(tmp_path_factory.mktemp("findings") / "f", found)


OPTIONS = [
    "--nodes",
    "3",
    "--exporter",
    "direct",
    "--operators",
    "Add,Mul,Tanh,Sub",
    "--dtypes",
    "float32",
]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus") / "models"
    assert command("generate", "--count", 3, "--seed", 5, *OPTIONS, "--out", folder) == 0
    return folder

import json

import numpy as np

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json


def test_json_round_trip_without_the_outputs():
    outcome = Outcome(
        kind=OutcomeKind.CRASH,
        stage=Stage.COMPILE,
        target=Target("tvm", "0.20", "cpu", "O3", "direct"),
        message="killed by SIGSEGV",
        signal="SIGSEGV",
        captured="last words",
        seconds={"import": 0.1},
        outputs={"y": np.ones(3)},
    )
    data = json.loads(json.dumps(as_json(outcome)))
    assert "outputs" not in data
    back = read(Outcome, data)
    assert as_json(back) == as_json(outcome)
    assert back.target == outcome.target
    assert (back.backend, back.level) == ("tvm", "O3")
    assert (back.kind, back.stage) == (OutcomeKind.CRASH, Stage.COMPILE)
    assert not back.ok
    assert not back.over_memory_limit

"""Runs a campaign with a stub producer, as a process that tests may kill.

python drive.py FOLDER TESTS PLAN BACKEND [resume]
"""

import sys
from pathlib import Path

from nnfuzz.base.writing import as_json

HERE = Path(__file__).parent


def settings(tests, plan, backend, reducer="", **more):
    from nnfuzz.backend.registry import BackendRegistry
    from nnfuzz.records.config import CampaignConfig, ProducerSettings, ReducerSettings
    from nnfuzz.testcase.case import CaseConfig

    registry = BackendRegistry.discover([HERE / "liar.py", HERE.parent / "backend" / "hostile.py"])
    config = CampaignConfig(
        backends=(registry.parse(backend),),
        case=CaseConfig(exporter="direct", unrestrained=more.pop("unrestrained", 0.02)),
        seed=1,
        tests_limit=tests,
        producer=ProducerSettings(
            f"stub_producer:{plan}", ("numpy", "onnx", "stub_producer"), seconds=0.5
        ),
        reduce=bool(reducer),
        reducer=ReducerSettings(
            f"stub_reducer:{reducer}", ("numpy", "stub_reducer"), share=1.0, grace=5.0
        ),
        **{"probe": False, **more},
    )
    return config, registry


def main():

    from nnfuzz.campaign.session import run_campaign
    from nnfuzz.cli.progress import Interrupt, watcher
    from nnfuzz.store.store import Store

    folder, tests, plan, backend, *rest = sys.argv[1:]
    config, registry = settings(int(tests), plan, backend)
    out = Path(folder)
    store = Store.open(out) if "resume" in rest else Store.create(out, as_json(config))
    cache = out / "cache"
    with store, Interrupt() as interrupt, watcher(False, config, out) as observer:
        run_campaign(store, config, registry, observer, cache, interrupt.asked)


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    main()

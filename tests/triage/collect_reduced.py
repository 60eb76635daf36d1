"""Keeps reduced findings of a campaign as golden cases: which of them have one cause?

    python tests/triage/collect_reduced.py CAUSE FINDING/reduced ...

adds them to testdata/reduced/CAUSE.json. Different causes must have different hashes, equal
ones the same: see test_golden_reduced.py.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.writing import as_json
from nnfuzz.findings.folder import read_finding
from nnfuzz.findings.reduced import symptoms_of

TESTDATA = Path(__file__).parent / "testdata" / "reduced"


def kept(folder):
    finding = read_finding(folder)
    registry = BackendRegistry.discover()
    failure = finding.failure
    told = asdict(symptoms_of(finding, registry))
    told["verdict"] = {"mismatches": (finding.verdict or {}).get("mismatches", {})}
    return {
        "signature": as_json(failure.signature),
        "backend": failure.backend,
        "kind": failure.kind.value,
        "stage": failure.stage.value,
        "levels": list(failure.levels),
        "graph": finding.case.graph,
        "symptoms": told,
    }


if __name__ == "__main__":
    cause, *folders = sys.argv[1:]
    TESTDATA.mkdir(exist_ok=True)
    path = TESTDATA / f"{cause}.json"
    cases = json.loads(path.read_text()) if path.exists() else []
    cases += [kept(folder) for folder in folders]
    path.write_text(json.dumps(cases, indent=1) + "\n")

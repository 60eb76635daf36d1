"""Installs releases in environments of their own and checks that they start and compute.

    python -m scripts.check.releases [NAME@RELEASE ...]

Prints versions, size and newest opset of each, and the outcomes of some models beside those of the
installed release. Exits with 1 if a release cannot be installed or used. It needs the network and
takes minutes; environments stay in the cache.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from itertools import islice

import nnfuzz
from nnfuzz.backend.opsets import first_taken
from nnfuzz.backend.registry import BackendRegistry, RegistryError
from nnfuzz.backend.releases import environments
from nnfuzz.backend.runner import BackendRunner, RunnerError

RELEASES = ("onnxruntime@1.16.3", "onnxruntime@1.20.1", "openvino@2025.3.0", "tvm@0.26.0")
MODELS = 20


def check(text: str, registry: BackendRegistry) -> None:
    """Raises: RegistryError, RunnerError."""
    start, spec = time.monotonic(), registry.parse(text)
    with BackendRunner(spec, registry) as runner:
        versions = ", ".join(f"{name} {told}" for name, told in runner.versions().items())
        opset = first_taken(runner, range(26, 12, -1))
    print(f"{text}: {versions}; opset {opset}; {time.monotonic() - start:.0f} s")
    cases = nnfuzz.Generator(seed=0, opset=opset)
    counts: Counter[str] = Counter()
    with nnfuzz.Experiment([text, spec.name], repeats=1) as run:
        for case in islice(cases, MODELS):
            counts.update(f"{o.backend} {o.kind}" for o in run(case).outcomes)
    print("    " + ", ".join(f"{what} {count}" for what, count in sorted(counts.items())))


def main() -> None:
    registry, failed = BackendRegistry.discover(), 0
    for text in sys.argv[1:] or RELEASES:
        try:
            check(text, registry)
        except (RegistryError, RunnerError) as error:
            failed = 1
            print(f"{text}: {error}")
    for place in environments():
        print(f"{place.distribution} {place.release}: {place.bytes() / 1e6:.0f} MB")
    sys.exit(failed)


if __name__ == "__main__":
    main()

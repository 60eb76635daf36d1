"""Findings of several modes: those with one cause are one group, whatever mode found them."""

from __future__ import annotations

import subprocess
import sys

from nnfuzz.triage.keys import Key, KeyKind
from nnfuzz.triage.known import KnownFailures
from scripts.bench.modes import Group, cpu_seconds


def test_a_group_takes_what_shares_its_hash_or_enough_keys():
    keys = frozenset({Key(KeyKind.CAUSE, "Relu/float32")})
    group = Group("title", "Relu", KnownFailures(frozenset({"a258b5a34ce8"}), keys=(keys,)))
    assert group.takes(KnownFailures(frozenset({"a258b5a34ce8"})))
    assert group.takes(KnownFailures(frozenset({"000000000000"}), keys=(keys,)))
    assert not group.takes(KnownFailures(frozenset({"000000000000"})))


def test_cpu_of_children_that_have_ended_counts():
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    code = f"""if True:
        import subprocess, sys, time
        subprocess.run([sys.executable, "-c", {burn!r}])
        print("done", flush=True)
        time.sleep(60)"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert cpu_seconds(process.pid) >= 0.3
        process.kill()
    assert cpu_seconds(process.pid) == 0.0

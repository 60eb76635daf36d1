"""A campaign of a few tests and findings, one of which would break out of the page if it could."""

import threading
from http.client import HTTPConnection

import pytest

from nnfuzz.backend.outcome import Brief
from nnfuzz.backend.registry import BackendSpec
from nnfuzz.base.writing import as_json
from nnfuzz.findings.page import LivePage, Server
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.rows import EventRow, FindingRow, Occurrence, ReductionRow, TestRow
from nnfuzz.store.store import Store
from nnfuzz.testcase.identity import Numbered

EVIL = "<script>document.title='broken out'</script><img src=x onerror=alert(1)>"


def finding(number, kind="exception", title="", folder="", backend="planted"):
    return FindingRow(
        f"s{number}",
        Numbered(7, number),
        kind,
        "compile",
        backend,
        "O0,O1",
        title or f"{backend}: cannot fuse {number}",
        folder or f"findings/{backend}-{kind}-s{number}",
        found_at=float(number),
        place=number,
    )


def occurrence(row, times=1):
    tests = (Numbered(7, 10_000 + row.place * 10 + n) for n in range(times))
    return [Occurrence(row.signature, test, levels="O0,O1", tried=3) for test in tests]


def run_row(index, kind="ok"):
    outcomes = {"planted": {"O0": Brief("ok"), "O1": Brief(kind)}}
    return TestRow(index, "run", 0, outcomes)


@pytest.fixture
def store(tmp_path):
    config = as_json(CampaignConfig((BackendSpec("planted"),), seed=7, known=(EVIL,)))
    with Store.create(tmp_path / "camp", config) as store:
        store.sessions.begin()
        store.set_meta("versions", {"nnfuzz": "0.1", "planted": EVIL})
        rows = [
            finding(1, title=f"planted: {EVIL}"),
            finding(2, "crash"),
            finding(3, backend="other"),
        ]
        seen = [*occurrence(rows[0], 5), *occurrence(rows[1]), *occurrence(rows[2], 2)]
        store.record(
            run_row(0, "exception"),
            tuple(rows),
            tuple(seen),
            (EventRow(Numbered(7, 0), "death"),),
        )
        store.reductions.add(ReductionRow("s2", "r2", "planted: crash of Relu", "Relu (float32)"))
        store.reductions.add(ReductionRow("s3", reason="it does not fail again"))
        for row in rows:
            (store.folder / row.folder).mkdir(parents=True)
            (store.folder / row.folder / "report.md").write_text(f"# {EVIL}\n")
        store.flush()
        yield store


@pytest.fixture
def live(store):
    return LivePage(store.folder)


class Client:
    """Sends requests to a server that runs in a thread."""

    def __init__(self, page):
        self.server = Server(page, 0)
        self.thread = threading.Thread(target=self.server.serve_forever, args=[0.01], daemon=True)
        self.thread.start()

    def get(self, path, method="GET", **headers):
        """The answer, with its text."""
        connection = HTTPConnection(*self.server.server_address, timeout=10)
        connection.putrequest(method, path, skip_host="host" in headers)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        answer.text = answer.read().decode()
        connection.close()
        return answer

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def client(live):
    made = Client(live)
    yield made
    made.close()

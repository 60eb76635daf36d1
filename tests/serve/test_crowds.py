"""Many who ask at once, and those who never finish asking, do not keep others from the pages."""

import contextlib
import socket
import threading
import time

import pytest

pytest.importorskip("uvicorn")

import uvicorn

from nnfuzz.serve import server
from nnfuzz.serve.app import MOST_PAGES, pages_application
from nnfuzz.serve.guard import own_names
from nnfuzz.serve.watch import Watch

EVENTS = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"
PAGE = b"GET /figures HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def address(store, monkeypatch):
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.5)
    watch = Watch(store.folder, "crowds")
    watch.look()
    listener = socket.create_server(("127.0.0.1", 0))
    app = pages_application(watch, own_names("127.0.0.1"), None, ended=lambda: running.should_exit)
    config = uvicorn.Config(
        app, log_level="warning", lifespan="off", ws="none", http=server.Impatient,
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    yield listener.getsockname()
    running.should_exit = True
    thread.join()
    listener.close()


def asked(address, request):
    connection = socket.create_connection(address, timeout=10)
    connection.sendall(request)
    return connection


def status(connection):
    return int(connection.recv(4096).split()[1])


def test_no_more_event_streams_than_may_be_open(address):
    with contextlib.ExitStack() as stack:
        all_at_once = [stack.enter_context(asked(address, EVENTS)) for _ in range(100)]
        answers = [status(connection) for connection in all_at_once]
    assert answers.count(200) == MOST_PAGES and answers.count(503) == 100 - MOST_PAGES
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:  # those that have gone make place
        with asked(address, EVENTS) as late:
            if (answer := status(late)) == 200:
                break
        time.sleep(0.1)
    assert answer == 200


@pytest.mark.parametrize("whole_ones_before", [0, 1])
def test_a_request_that_never_comes_whole_is_dropped(address, whole_ones_before):
    with asked(address, PAGE * whole_ones_before) as connection:
        if whole_ones_before:
            assert status(connection) == 200
        with contextlib.suppress(ConnectionError):
            for byte in PAGE[:20]:
                connection.sendall(bytes([byte]))
                time.sleep(0.1)
            while connection.recv(1 << 16):
                pass


def test_a_page_that_stays_open_is_not_dropped(address):
    with asked(address, EVENTS) as connection:
        time.sleep(1.2)
        assert status(connection) == 200
        connection.settimeout(0.3)
        with contextlib.suppress(TimeoutError):
            while True:
                assert connection.recv(1 << 16), "the stream has ended"


def test_numbers_of_thousands_of_digits(address):
    request = f"GET /findings?limit={'9' * 5000}&offset={'1' * 5000} HTTP/1.1\r\nHost: localhost"
    with asked(address, f"{request}\r\n\r\n".encode()) as connection:
        assert status(connection) == 200

"""The live page and its endpoints. Nothing here writes, and pages load nothing from elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from markupsafe import Markup
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    PlainTextResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from nnfuzz.base.reading import Unreadable
from nnfuzz.report.templating import environment
from nnfuzz.serve.findings import (
    MOST_ROWS,
    ORDERS,
    clamped_number,
    file_of_finding,
    files_of,
    link,
    matching_rows,
    options,
)
from nnfuzz.serve.guard import Guard
from nnfuzz.serve.page import finding_row, page_script, script_hash
from nnfuzz.serve.stream import events
from nnfuzz.serve.watch import Watch

FIRST_ROWS = 50
"""Number of findings in the page as it is first sent."""
MOST_PAGES = 32
"""Number of pages that may be open at a time."""
TEXTS = frozenset({".md", ".py", ".json", ".txt"})
"""Types of files that a browser shows; it saves other ones."""
_SANDBOX = "default-src 'none'; frame-ancestors 'none'; sandbox"


def pages_application(
    watch: Watch,
    names: frozenset[str],
    token: str | None,
    cookie: str = "nnfuzz",
    ended: Callable[[], bool] = lambda: False,
) -> ASGIApp:
    """names, token, cookie: see Guard. ended: whether streams of events are to end."""
    pages = Pages(watch, ended)
    routes = [
        Route("/", pages.whole),
        Route("/events", pages.events),
        Route("/figures", pages.figures),
        Route("/operators", pages.operators),
        Route("/findings", pages.findings),
        Route("/findings/{signature:path}", pages.finding),
        Route("/files/{top}/{name}/{path:path}", pages.file),
    ]
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{script_hash(pages.script)}'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return Guard(Starlette(routes=routes), names, token, cookie, policy)


class Pages:
    """The endpoints. Starlette runs those that are not coroutines in threads."""

    def __init__(self, watch: Watch, ended: Callable[[], bool]) -> None:
        self._watch = watch
        self._ended = ended
        self._open = 0
        self._env = environment(html=True)
        self.script = page_script("live.js.jinja")

    def whole(self, request: Request) -> Response:
        now = self._watch.snapshot
        return self._page(
            "live.html.jinja",
            now=now,
            filters=options(now.rows),
            orders=ORDERS,
            findings=Markup(self._list(request)),
            script=Markup(self.script),
        )

    def findings(self, request: Request) -> Response:
        return HTMLResponse(self._list(request))

    def _list(self, request: Request) -> str:
        rows, query = self._watch.snapshot.rows, request.query_params
        matching = matching_rows(rows, query)
        count = clamped_number(query.get("limit"), FIRST_ROWS, MOST_ROWS)
        first = clamped_number(query.get("offset"), 0, len(matching))
        page = self._env.get_template("live_findings.html.jinja")
        return page.render(
            rows=matching[first : first + count], found=len(matching), total=len(rows)
        )

    def finding(self, request: Request) -> Response:
        signature = request.path_params["signature"]
        row = next((r for r in self._watch.snapshot.rows if r["signature"] == signature), None)
        if row is None:
            return _not_here()
        folder = self._watch.folder
        details = finding_row(row, folder, lambda place: link(folder, place / "report.md"))
        details["files"] = files_of(folder, row["folder"]) if not details["damage"] else []
        return self._page("live_finding.html.jinja", row=details)

    def figures(self, request: Request) -> Response:
        now = self._watch.snapshot
        return HTMLResponse(now.growth + now.figures)

    def operators(self, request: Request) -> Response:
        return HTMLResponse(self._watch.operators())

    def file(self, request: Request) -> Response:
        place = "{top}/{name}".format(**request.path_params)
        if place not in self._watch.snapshot.folders:
            return _not_here()
        try:
            path = file_of_finding(self._watch.folder, place, request.path_params["path"])
        except Unreadable:
            return _not_here()
        headers = {"Content-Security-Policy": _SANDBOX}
        if path.suffix in TEXTS:
            return FileResponse(path, headers=headers, media_type="text/plain; charset=utf-8")
        kind = "application/octet-stream"
        return FileResponse(path, headers=headers, media_type=kind, filename=path.name)

    async def events(self, request: Request) -> Response:
        if self._open >= MOST_PAGES:
            return PlainTextResponse(f"{MOST_PAGES} pages are open already\n", 503)
        self._open += 1  # before anything else runs: many requests arrive at once
        return _Stream(events(lambda: self._watch.snapshot, self._ended), self._closed)

    def _closed(self) -> None:
        self._open -= 1

    def _page(self, template: str, **content: object) -> Response:
        return HTMLResponse(self._env.get_template(template).render(**content))


class _Stream(StreamingResponse):
    """A response of events. ended: called when its page is closed, even if no event was sent."""

    def __init__(self, frames: AsyncIterator[str], ended: Callable[[], None]) -> None:
        super().__init__(frames, media_type="text/event-stream")
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


def _not_here() -> Response:
    return PlainTextResponse("there is no such thing here (any more)\n", 404)

"""Access to the pages: requests under foreign host names are refused, and requests from other
machines need a token.

A foreign page in the same browser may let its own host name point to this machine (DNS rebinding)
and could then read these pages as its own. So only host names of this server are admitted. An
address is no host name and cannot be redirected.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
import socket
from collections.abc import Iterable
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOCAL = "localhost"
_HOST = re.compile(r"(?:\[([^\]]+)\]|([^:\[\]]+))(?::\d+)?")
ASK = (
    "a token is needed: open the link that nnfuzz serve has printed, or send it as a bearer header"
)


def own_names(host: str) -> frozenset[str]:
    """Host names and addresses under which requests are admitted. host: given by the user."""
    name = socket.gethostname().lower()
    return frozenset({LOCAL, host.lower(), name, name.partition(".")[0]})


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == LOCAL


class Guard:
    """Wraps an application.

    names: see own_names. token: None if no token is needed. cookie: name of the cookie that holds
    the token. policy: the content security policy of every answer.
    """

    def __init__(
        self, app: ASGIApp, names: Iterable[str], token: str | None, cookie: str, policy: str
    ) -> None:
        self._app = app
        self._names = frozenset(names)
        self._token = token
        self._cookie = cookie
        self._headers = {
            "Content-Security-Policy": policy,
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cache-Control": "no-store",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"no {scope['type']} is spoken here")

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        refusal = self._refusal(Request(scope))
        await (refusal or self._app)(scope, receive, sending)

    def _refusal(self, request: Request) -> Response | None:
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("nothing can be changed here\n", 405, {"Allow": "GET, HEAD"})
        if not self._is_own(request.headers.getlist("host")):
            return PlainTextResponse("this server has another name\n", 421)
        if self._token is None:
            return None
        if "token" in request.query_params:
            return self._with_cookie(request)
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        bearer = given.strip() if scheme.lower() == "bearer" else ""
        if self._fits(bearer) or self._fits(request.cookies.get(self._cookie, "")):
            return None
        return PlainTextResponse(f"{ASK}\n", 401, {"WWW-Authenticate": "Bearer"})

    def _with_cookie(self, request: Request) -> Response:
        """Redirects to the same address without the token, which keeps it out of the history."""
        if not self._fits(request.query_params["token"]):
            return PlainTextResponse(f"{ASK}\n", 401, {"WWW-Authenticate": "Bearer"})
        rest = [(k, v) for k, v in parse_qsl(request.url.query) if k != "token"]
        answer = RedirectResponse(f"./{'?' if rest else ''}{urlencode(rest)}", 303)
        answer.set_cookie(self._cookie, self._token or "", httponly=True, samesite="lax")
        return answer

    def _fits(self, token: str) -> bool:
        """Compares a token in a time that does not depend on its content."""
        return hmac.compare_digest(token.encode(), (self._token or "").encode())

    def _is_own(self, hosts: list[str]) -> bool:
        if len(hosts) != 1:
            return False
        found = _HOST.fullmatch(hosts[0].lower())
        bare = (found[1] or found[2]) if found else ""
        try:
            ipaddress.ip_address(bare)
        except ValueError:
            return bare.rstrip(".") in self._names
        return True

"""The dashboard, `/dashboard`: pages, login and events for the browsers of administrators.

    GET   /dashboard              the page, or a form for a key
    POST  /dashboard/login        an admin key; the answer sets the cookie of a session
    POST  /dashboard/logout       ends the session
    GET   /dashboard/events       the state of the gateway once a second, as server-sent events
    GET   /dashboard/timeline     the timeline of one stream of the log
    GET   /dashboard/NAME         the script, the styles and the icon

A page loads nothing from elsewhere and has no inline script or style.  All text in it that
comes from clients or upstreams is written as text (`textContent`), never as markup.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl

import anyio

from streamnorm._core.json import dumps
from streamnorm._upstream.requests import ClientRequest, RequestRefused
from streamnorm.asgi.responses import (
    EVENT_STREAM_HEADERS,
    Exchange,
    Receive,
    Scope,
    Send,
    encode_headers,
    open_exchange,
    send_json,
)
from streamnorm.gateway.admission import Admission
from streamnorm.gateway.config import Config, ConfigError, DashboardConfig
from streamnorm.gateway.dashboard_board import Board, BoardObserver, merge_boards
from streamnorm.gateway.dashboard_login import SESSION_S, Sessions, WrongKeys
from streamnorm.gateway.dashboard_timelines import Timelines
from streamnorm.gateway.dashboard_workers import POLL_S, SharedBoards, find_shared_directory
from streamnorm.log import Log
from streamnorm.log.records import Key
from streamnorm.sse import encode_frame

MAX_PAGES = 8
"""Bound on the pages that are open at one worker."""

_LOG = logging.getLogger("streamnorm.gateway")

_PATH = "/dashboard"
_FILES = {
    "dashboard.js": "text/javascript; charset=utf-8",
    "dashboard.css": "text/css; charset=utf-8",
    "dashboard.svg": "image/svg+xml",
}
_HTML = "text/html; charset=utf-8"
_TEXT = "text/plain; charset=utf-8"
_COOKIE = "streamnorm_dashboard"
_FORM = "application/x-www-form-urlencoded"
_MAX_FORM_BYTES = 4096
_FORM_S = 10.0
# A page that has read nothing for so long is closed: it would count among the open ones.
_SEND_S = 30.0
_PING_S = 15.0
_PING = b": ping\n\n"
_PORTS = {"http": ":80", "https": ":443"}
_SAME_SITE = ("same-origin", "none")  # `none`: the user has typed the URL

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",  # of browsers that do not know `frame-ancestors`
    # Not `no-referrer`: the `Origin` of the form would be `null`, which the gateway refuses.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
# The page of a timeline states the rest by itself, with the hashes of its script and style.  It
# shows what an upstream has sent, so it is of no origin: it could ask nothing with the cookie.
_TIMELINE_POLICY = "frame-ancestors 'none'; sandbox allow-scripts"
_EVENTS_HEADERS = {
    **EVENT_STREAM_HEADERS,
    **_HEADERS,
    "cache-control": "no-store, no-transform",
}
_WRONG = "This is no admin key of the gateway."
_WAIT = "Too many wrong keys. Try again in a minute."
_MARKED = re.compile(rb"\{(base|problem)\}")


class _Stopping(Protocol):
    """The shutdown of the gateway."""

    @property
    def has_begun(self) -> bool:
        """Whether the gateway refuses new requests because it stops."""
        ...

    def notify(self, on_begin: Callable[[], None]) -> AbstractContextManager[None]:
        """Call a function at the start of the shutdown, unless the `with` block ends first."""
        ...


class Dashboard:
    """Answers the dashboard's HTTP requests.

    Args:
        config: The configuration.
        options: Who may see the dashboard.
        environ: The environment that holds the admin keys.
        admission: Refuses requests by their framing, and those of pages elsewhere.
        stopping: The end of the gateway.
        log: The log of streams; None without one.

    Raises:
        ConfigError: There are no admin keys, several workers share no directory, or there is no
            log for `timelines`.

    Attributes:
        observer: Observer of the requests that are shown.
    """

    def __init__(
        self,
        config: Config,
        options: DashboardConfig,
        environ: Mapping[str, str],
        admission: Admission,
        stopping: _Stopping,
        log: Log | None,
    ) -> None:
        self._timelines: Timelines | None = None
        if options.timelines:
            if log is None:
                raise ConfigError("dashboard.timelines: without a log, expected [log]")
            self._timelines = Timelines(log)
        directory = find_shared_directory(environ)
        self.observer = BoardObserver(config, has_timelines=options.timelines)
        self._sessions = Sessions(options, environ, directory)
        self._wrong_keys = WrongKeys()
        self._admission = admission
        self._origins = frozenset(origin.lower() for origin in config.origins)
        self._stopping = stopping
        self._shared = None if directory is None else SharedBoards(directory, self._board)
        self._files = {name: _read_file(name) for name in _FILES}
        self._page, self._form = _read_file("dashboard.html"), _read_file("dashboard_login.html")
        self._open_pages = 0
        self._view: dict[str, Any] = {}
        self._streams: dict[str, Key] = {}  # of the rows of the view
        self._viewed_at = float("-inf")
        self._viewing = asyncio.Lock()

    def has(self, received: ClientRequest) -> bool:
        """Return whether the path of a request belongs to the dashboard."""
        return received.path == _PATH or received.path.startswith(f"{_PATH}/")

    def start(self) -> None:
        """Start sharing this worker's dashboard data with the other workers."""
        if self._shared is not None:
            self._shared.start()

    async def stop(self) -> None:
        """Stop sharing this worker's dashboard data with the other workers."""
        if self._shared is not None:
            await self._shared.stop()

    async def answer(
        self, scope: Scope, received: ClientRequest, receive: Receive, send: Send
    ) -> None:
        """Answer an HTTP request to the dashboard."""
        name = received.path[len(_PATH) + 1 :]
        is_post = received.method == "POST"
        form: dict[str, str] | RequestRefused | None = {}
        try:
            self._admission.check_sender(scope, received)
            _check_method(received, name)
            if is_post:
                self._check_origin(received)
            if is_post and name == "login":
                form = await _read_form(received, receive)
        except RequestRefused as refused:
            form = refused
        if form is None:
            return
        async with open_exchange(receive, send) as exchange:
            if isinstance(form, RequestRefused):
                await _send_text(exchange, form)
            elif name == "login":
                await self._log_in(scope, received, form, exchange)
            elif name == "logout":
                self._sessions.close(_session_id(received))
                await _redirect(exchange, _set_cookie(scope, received, "", 0))
            elif name in _FILES:
                await _send(exchange, 200, _FILES[name], self._files[name])
            elif not name and scope["path"].endswith("/"):  # links of the page are relative
                await _redirect(exchange)
            elif not self._sessions.is_open(_session_id(received)):
                # An event stream has no form, and its page asks again for itself.
                status = 200 if not name else 401
                await self._send_form(exchange, status, "dashboard/" if not name else "")
            elif name == "timeline":
                await self._send_timeline(received, exchange)
            elif name == "events":
                await self._send_events(_session_id(received), exchange)
            else:
                await _send(exchange, 200, _HTML, self._page)

    def _check_origin(self, received: ClientRequest) -> None:
        """Refuse a form that was posted by a page of another origin.

        Raises:
            RequestRefused: Its `Origin` is another than the gateway's, and none of `origins`.
        """
        # Over http to another machine browsers send no `Sec-Fetch-Site`.
        origin = received.headers.get("origin", "").lower()
        is_own = _is_same_origin(origin, received.headers.get("host", "").lower())
        if origin and not is_own and origin not in self._origins:
            raise RequestRefused("origin: another page's, expected this one's", 403)

    async def _log_in(
        self, scope: Scope, received: ClientRequest, form: dict[str, str], exchange: Exchange
    ) -> None:
        address: str = (scope.get("client") or ("",))[0]
        if wait_s := self._wrong_keys.seconds_to_wait(address):
            retry = {"retry-after": str(int(wait_s) + 1)}
            await self._send_form(exchange, 429, "", _WAIT, retry)
            return
        try:
            id = self._sessions.open(form.get("key", ""))
        except OSError:
            refused = RequestRefused("the directory of the workers cannot be written", 503)
            await _send_text(exchange, refused)
            return
        if id is None:
            if self._wrong_keys.add(address):
                _LOG.warning("dashboard: many wrong keys from one address, which has to wait")
            await self._send_form(exchange, 401, "", _WRONG)
            return
        await _redirect(exchange, _set_cookie(scope, received, id, SESSION_S))

    async def _send_form(
        self,
        exchange: Exchange,
        status: int,
        base: str,
        problem: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send the login form.

        Args:
            exchange: The exchange.
            status: HTTP status.
            base: Prefix of relative links, by the path of the request.
            problem: Why the key that was posted opens nothing; "" if none was.
            headers: Further headers.
        """
        values = {b"base": base.encode(), b"problem": problem.encode()}
        body = _MARKED.sub(lambda found: values[found[1]], self._form)
        await _send(exchange, status, _HTML, body, headers)

    async def _send_events(self, session: str, exchange: Exchange) -> None:
        """Send an SSE event once a second with the parts of the state that changed."""
        if self._open_pages >= MAX_PAGES or self._stopping.has_begun:
            found = "the gateway is stopping"
            if not self._stopping.has_begun:
                found = f"{MAX_PAGES} dashboards are open, expected fewer than that"
            await _send_text(exchange, RequestRefused(found, 503, headers={"retry-after": "5"}))
            return
        stopped = asyncio.Event()
        changes = _Changes()
        loop = asyncio.get_running_loop()
        self._open_pages += 1
        try:
            with self._stopping.notify(stopped.set):
                await exchange.start(200, encode_headers(_EVENTS_HEADERS))
                sent_at = loop.time()
                while not stopped.is_set() and self._sessions.is_open(session):
                    data = changes.since_last(await self._shown())
                    if not data and loop.time() - sent_at >= _PING_S:
                        data = _PING
                    if data:
                        with anyio.move_on_after(_SEND_S) as sending:
                            await exchange.send(data)
                        if sending.cancelled_caught:
                            exchange.leave()
                        sent_at = loop.time()
                    with anyio.move_on_after(POLL_S):
                        await stopped.wait()
            await exchange.send(b"", more=False)
        finally:
            self._open_pages -= 1

    async def _send_timeline(self, received: ClientRequest, exchange: Exchange) -> None:
        """Send the HTML page of a stream in the log, or an error text without such a stream."""
        await self._shown()
        key = self._streams.get(dict(received.query).get("of", ""))
        try:
            if self._timelines is None or key is None:
                raise RequestRefused("no timeline of this request, expected a recent one", 404)
            page = await self._timelines.page_of(key)
        except RequestRefused as refused:
            await _send_text(exchange, refused)
            return
        await _send(exchange, 200, _HTML, page, {"content-security-policy": _TIMELINE_POLICY})

    async def _shown(self) -> dict[str, Any]:
        """Return the dashboard data of all workers, merged at most once a second."""
        loop = asyncio.get_running_loop()
        async with self._viewing:
            if loop.time() - self._viewed_at >= POLL_S / 2:
                others = [] if self._shared is None else await self._shared.others()
                self._view = merge_boards([self._board(), *others])
                # The scope of a stream is the digest of a client's key.
                rows = (*self._view["running"], *self._view["ended"])
                listed = (row for row in rows if "stream" in row)
                self._streams = {row["timeline"]: tuple(row.pop("stream")) for row in listed}
                self._viewed_at = loop.time()
        return self._view

    def _board(self) -> Board:
        return self.observer.board(asyncio.get_running_loop().time())


class _Changes:
    """Finds the parts of the dashboard's state that one open page has not been sent yet."""

    def __init__(self) -> None:
        self._sent: dict[str, Any] = {}
        self._last: dict[str, int] = {}  # number of the last request that has ended, by process

    def since_last(self, state: dict[str, Any]) -> bytes:
        """Return an SSE event with the parts that changed since the last call; b"" if none did."""
        ended = [row for row in state["ended"] if row["n"] > self._last.get(row["process"], 0)]
        for row in ended:
            self._last[row["process"]] = row["n"]
        changed = {
            name: part
            for name, part in state.items()
            if name != "ended" and part != self._sent.get(name)
        }
        self._sent |= changed
        if ended:
            changed["ended"] = ended
        return encode_frame(dumps(changed).decode()) if changed else b""


def _read_file(name: str) -> bytes:
    return Path(__file__).with_name(name).read_bytes()


def _check_method(received: ClientRequest, name: str) -> None:
    """Refuse a request to an unknown page, by a wrong method, or from another site.

    Raises:
        RequestRefused: It is such a one.
    """
    if name not in ("", "login", "logout", "events", "timeline", *_FILES):
        raise RequestRefused("no page of the dashboard, expected /dashboard", 404)
    expected = "POST" if name in ("login", "logout") else "GET"
    if received.method != expected:
        found = f"another method, expected {expected}"
        raise RequestRefused(found, 405, headers={"allow": expected})
    # Browsers send it to https and to this machine alone; a program can send anything.
    is_link = not name  # from a page elsewhere, which gets the form: no cookie comes with it
    if not is_link and received.headers.get("sec-fetch-site", "none") not in _SAME_SITE:
        raise RequestRefused("sec-fetch-site: of another site, expected this one", 403)


def _is_same_origin(origin: str, host: str) -> bool:
    """Return whether an `Origin` and a `Host`, in lower case, have the same host and port."""
    scheme, _, authority = origin.partition("://")
    port = _PORTS.get(scheme)
    if port is None or not authority:
        return False
    # Browsers leave out the default port, but a proxy may add it.
    return authority.removesuffix(port) == host.removesuffix(port)


async def _read_form(received: ClientRequest, receive: Receive) -> dict[str, str] | None:
    """Return the fields of a posted form; None if the browser disconnected.

    Raises:
        RequestRefused: It is too large, or too slow, or no form.
    """
    kind = received.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM:
        raise RequestRefused(f"content-type: another than a form's, expected {_FORM}", 415)
    body = b""
    try:
        async with asyncio.timeout(_FORM_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                body += message.get("body", b"")
                if len(body) > _MAX_FORM_BYTES:
                    found = f"a form that is too large, expected at most {_MAX_FORM_BYTES} bytes"
                    raise RequestRefused(found, 413, headers={"connection": "close"})
                if not message.get("more_body", False):
                    break
    except TimeoutError as exc:
        headers = {"connection": "close"}
        found = f"a form that arrives too slowly, expected it within {_FORM_S:g} s"
        raise RequestRefused(found, 408, headers=headers) from exc
    try:
        return dict(parse_qsl(body.decode("latin-1"), max_num_fields=8))
    except ValueError as exc:
        raise RequestRefused("a form of too many fields, expected one") from exc


def _session_id(received: ClientRequest) -> str:
    """Return the session id in a request's cookies, or ""."""
    # Fields of `cookie` are joined by ", " here, and values of ours have no comma.
    for pair in re.split("[;,]", received.headers.get("cookie", "")):
        name, _, value = pair.strip().partition("=")
        if name == _COOKIE:
            return value
    return ""


def _set_cookie(scope: Scope, received: ClientRequest, id: str, max_age_s: int) -> dict[str, str]:
    # Without a path it is that of the directory of this request, whatever stands before it at a
    # proxy: `/dashboard`.
    fields = [f"{_COOKIE}={id}", f"Max-Age={max_age_s}", "HttpOnly", "SameSite=Strict"]
    # A proxy that ends TLS may not say so, but the browser does.
    origin = received.headers.get("origin", "").lower()
    if scope.get("scheme") == "https" or origin.startswith("https:"):
        fields.append("Secure")
    return {"set-cookie": "; ".join(fields)}


async def _redirect(exchange: Exchange, headers: Mapping[str, str] | None = None) -> None:
    """Redirect the browser to the dashboard's page."""
    location = {"location": f"..{_PATH}", **(headers or {})}
    await _send(exchange, 303, _TEXT, b"", location)


async def _send_text(exchange: Exchange, refused: RequestRefused) -> None:
    """Send the message of a refused request as plain text."""
    status = refused.error.status_hint or 400
    await _send(exchange, status, _TEXT, f"{refused}\n".encode(), refused.headers)


async def _send(
    exchange: Exchange,
    status: int,
    kind: str,
    body: bytes,
    headers: Mapping[str, str] | None = None,
) -> None:
    fields = {**_HEADERS, "content-type": kind, **(headers or {})}
    await send_json(exchange, status, encode_headers(fields), body)

"""Attacks by web pages on a gateway without keys."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from support.attacks.bench import PROMPT, TENANTS, Attack, Bench, Setup
from support.gateway.upstreams import REQUESTS
from support.http.raw_client import converse

__all__ = ["ATTACKS"]

_OPEN = Setup(has_keys=False)
_EVIL = "http://evil.example"
_PAGE = "https://app.example"
_CORS = Setup(f'origins = ["{_PAGE}"]\ncors = true\n', has_keys=False)
_HOSTS = (
    *("evil.example", "evil.example:{port}", "localhost.evil.example", "127.0.0.1.nip.example"),
    *("0.0.0.0:{port}", "[::]:{port}", "127.1", "2130706433", "localhost@evil.example"),
)
_ORIGINS = (_EVIL, "null", "http://localhost:1", "https://localhost:{port}.evil.example", "file://")
_TYPES = (
    *("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"),
    *("text/plain, application/json", "text/plain;x=application/json"),
)


async def _answer(bench: Bench, client: str, *lines: str, method: str = "POST") -> bytes:
    """Send a request with extra header lines; return the answer."""
    path, body = REQUESTS[client]
    data = json.dumps(body).replace("Hello", PROMPT).encode() if method == "POST" else b""
    port = str(urlsplit(bench.url).port)
    head = "\r\n".join([f"{method} {path} HTTP/1.1", *lines, f"content-length: {len(data)}"])
    request = head.replace("{port}", port).encode() + b"\r\n\r\n" + data
    answer = await converse(bench.url, [request], answer_s=30, close_s=30)
    return answer.data


async def _refuse(bench: Bench, status: int, client: str, *lines: str) -> None:
    data = await _answer(bench, client, *lines)
    assert data[9:12] == b"%d" % status, f"{data[9:12]!r} for {lines}"
    assert b"access-control-allow-origin" not in data.lower(), f"a page can read {lines}"


_JSON = "content-type: application/json"


async def _rebinding(bench: Bench) -> str:
    """Attack by DNS rebinding: a page's host name resolves to 127.0.0.1."""
    for host in _HOSTS:
        for client in REQUESTS:
            lines = (f"host: {host}", f"origin: http://{host}", _JSON)
            await _refuse(bench, 403, client, *lines)
    assert not bench.upstream.requests, "the upstream was asked"
    await bench.ask()
    return f"{len(_HOSTS)} names, none asked the upstream"


async def _cross_site(bench: Bench) -> str:
    """Attack by a page of another origin, with requests that need no preflight."""
    for client in REQUESTS:
        for origin in _ORIGINS:
            await _refuse(bench, 403, client, "host: localhost", f"origin: {origin}", _JSON)
            await _refuse(bench, 403, client, "host: localhost", f"origin: {origin}")
        for kind in _TYPES:
            await _refuse(bench, 415, client, "host: localhost", f"content-type: {kind}")
        await _refuse(bench, 415, client, "host: localhost", "origin: http://localhost")
    assert not bench.upstream.requests, "the upstream was asked"
    await bench.ask()
    return f"{len(_ORIGINS)} origins and {len(_TYPES)} types, none asked the upstream"


async def _preflights(bench: Bench) -> str:
    asked = ("access-control-request-method: POST", "connection: close")
    for origin in _ORIGINS:
        lines = ("host: localhost", f"origin: {origin}", *asked)
        data = await _answer(bench, "openai_chat", *lines, method="OPTIONS")
        assert data[9:12] == b"403", f"{data[9:12]!r} for a preflight of {origin}"
        assert b"access-control-allow" not in data.lower(), f"{origin} may send"
    lines = ("host: localhost", f"origin: {_PAGE}", *asked)
    allowed = await _answer(bench, "openai_chat", *lines, method="OPTIONS")
    assert f"access-control-allow-origin: {_PAGE}".encode() in allowed.lower(), "no page may send"
    return f"{len(_ORIGINS)} origins are refused, the configured one is not"


_ROUTES = Setup(
    upstream="""
[pages.ui_message_stream]
model = "m"
system = "Be brief."

[pages.ag_ui]
model = "m"
system = "Be brief."
"""
)
_TAKEN = "taken-by-the-page"
_TOOL = {"name": _TAKEN, "description": _TAKEN, "parameters": {"type": "object"}}
_FIELDS = {
    "model": _TAKEN,
    "system": _TAKEN,
    "max_tokens": 987_654,
    "tool_choice": _TAKEN,
    "forwardedProps": {"model": _TAKEN},
    "state": {"system": _TAKEN},
    "context": [{"description": _TAKEN, "value": _TAKEN}],
}


def _page_bodies(path: str) -> list[tuple[int, dict[str, object]]]:
    """Return bodies by which a page oversteps its rights, with the legal statuses."""
    text: dict[str, object] = {"parts": [{"type": "text", "text": PROMPT}]}
    if path != "/ui/chat":
        text = {"content": PROMPT}
    said = {"id": "1", "role": "user", **text}
    body: dict[str, object] = {"messages": [said], "threadId": "t", "runId": "r", "tools": []}
    spoken = [
        {**body, "messages": [{"id": "0", "role": role, **text}, said]}
        for role in ("system", "developer")
    ]
    tools = 200 if path == "/ui/chat" else 400  # of which `useChat` sends none: they are no field
    return [
        (200, body | _FIELDS),
        *((400, each) for each in spoken),
        (tools, body | {"tools": [_TOOL]}),
    ]


async def _decisions(bench: Bench) -> str:
    """Attack by a page that sends its own model, tools, system messages and options."""
    answered = 0
    for path in ("/ui/chat", "/ag-ui/run"):
        for status, body in _page_bodies(path):
            headers = {"authorization": f"Bearer {TENANTS[0]}"}
            answer = await bench.http.post(bench.url + path, json=body, headers=headers)
            assert answer.status_code == status, f"{answer.status_code} for {[*body]} at {path}"
            answered += status == 200
        no_key = await bench.http.post(bench.url + path, json=_page_bodies(path)[0][1])
        assert no_key.status_code == 401, f"{no_key.status_code} without a key at {path}"
    assert len(bench.upstream.requests) == answered, "a refused request asked the upstream"
    for request in bench.upstream.requests:
        sent = json.loads(request.body)
        assert sent["model"] == "m", "the page chose the model"
        assert _TAKEN not in request.body.decode(), "the page chose more than its messages"
        assert b"987654" not in request.body, "the page chose a bound"
    return f"{answered} requests had the configuration's model, all others were refused"


ATTACKS = (
    Attack("DNS rebinding", _rebinding, _OPEN),
    Attack("requests of pages across sites", _cross_site, _OPEN),
    Attack("preflights of pages", _preflights, _CORS),
    Attack("pages that decide for themselves", _decisions, _ROUTES),
)

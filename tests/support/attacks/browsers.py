"""Attacks by web pages on a gateway without keys."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from support.attacks.bench import PROMPT, Attack, Bench, Setup
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
    """Return the answer to a request with some lines in its head."""
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
    """A page whose name resolves to 127.0.0.1 is of one origin with the gateway."""
    for host in _HOSTS:
        for client in REQUESTS:
            lines = (f"host: {host}", f"origin: http://{host}", _JSON)
            await _refuse(bench, 403, client, *lines)
    assert not bench.upstream.requests, "the upstream was asked"
    await bench.ask()
    return f"{len(_HOSTS)} names, none asked the upstream"


async def _cross_site(bench: Bench) -> str:
    """A page of another origin sends what needs no preflight."""
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
    asked = "access-control-request-method: POST"
    for origin in _ORIGINS:
        lines = ("host: localhost", f"origin: {origin}", asked)
        data = await _answer(bench, "openai_chat", *lines, method="OPTIONS")
        assert data[9:12] == b"403", f"{data[9:12]!r} for a preflight of {origin}"
        assert b"access-control-allow" not in data.lower(), f"{origin} may send"
    allowed = await _answer(
        bench, "openai_chat", "host: localhost", f"origin: {_PAGE}", asked, method="OPTIONS"
    )
    assert f"access-control-allow-origin: {_PAGE}".encode() in allowed.lower(), "no page may send"
    return f"{len(_ORIGINS)} origins are refused, the configured one is not"


ATTACKS = (
    Attack("DNS rebinding", _rebinding, _OPEN),
    Attack("requests of pages across sites", _cross_site, _OPEN),
    Attack("preflights of pages", _preflights, _CORS),
)

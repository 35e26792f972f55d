"""Client requests for fuzzing: real ones with one kind of damage."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from support.bodies.mutations import damaged_body
from support.bodies.request_corpus import captured_requests
from support.draws import Draws
from support.gateway.upstreams import PAGE_REQUESTS, REQUESTS
from support.http.echo_upstream import new_marker

__all__ = ["CANARY", "CLIENTS", "UPSTREAMS", "WildRequest", "honest_request", "wild_request"]

CANARY = "canary-of-a-prompt-5d1c"
"""Stands in the text of each request, and in no log."""

UPSTREAMS = ("chat", "messages", "responses", "contents", "chat-again", "messages-again")
"""The first words of the models, each of which goes to the upstream of its name."""

CLIENTS = {**REQUESTS, **PAGE_REQUESTS}
"""A request of each client; the configuration chooses the upstream of a page."""

_MAX_BODY_BYTES = 300_000
_DRAWS = 400

Piece: TypeAlias = bytes | float


class WildRequest(NamedTuple):
    """Bytes to send on one connection.

    Attributes:
        kind: How they are damaged.
        pieces: What to send, and seconds to wait in between.
        markers: The markers of the requests in it.
        is_framed: Whether they are one request that every server reads alike, which must be
            answered.
    """

    kind: str
    pieces: list[Piece]
    markers: frozenset[bytes]
    is_framed: bool


class _Made(NamedTuple):
    path: str
    body: dict[str, Any]
    marker: str


def honest_request(client: str, upstream: str, key: str, marker: str) -> bytes:
    """Return the bytes of a valid request with a marker in its text."""
    made = _small(random.Random(0), client, upstream, marker, stream=True)  # noqa: S311 - no secret
    body = json.dumps(made.body).encode()
    return _head(made.path, key, f"content-length: {len(body)}", "connection: close") + body


def wild_request(rng: random.Random, keys: tuple[str, ...]) -> WildRequest:
    """Return a request with one kind of damage, and a valid key."""
    kind = rng.choice([*_KINDS])
    return _KINDS[kind](rng, rng.choice(keys))


@cache
def _captured(client: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Return the paths and bodies of moderately sized real requests."""
    return tuple(
        (request.path, request.body)
        for request in captured_requests(client)
        if len(json.dumps(request.body)) < _MAX_BODY_BYTES
    )


def _small(rng: random.Random, client: str, upstream: str, marker: str, *, stream: bool) -> _Made:
    path, body = CLIENTS[client]
    text = json.dumps(body).replace("Hello", f"Hello {marker} {CANARY}")
    return _routed(client, path, json.loads(text), upstream, marker, stream=stream)


def _routed(
    client: str, path: str, body: dict[str, Any], upstream: str, marker: str, *, stream: bool
) -> _Made:
    model = f"{upstream}-{marker}"
    if client == "gemini":
        operation = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return _Made(f"/v1beta/models/{model}:{operation}", body, marker)
    return _Made(path, {**body, "model": model, "stream": stream}, marker)


def _made(rng: random.Random) -> _Made:
    """Return a valid request of any client for any upstream."""
    client, upstream, marker = rng.choice([*CLIENTS]), rng.choice(UPSTREAMS), new_marker()
    stream = rng.random() < 0.7
    captured = _captured(client) if client in REQUESTS else ()
    if captured and rng.random() < 0.3:
        path, body = rng.choice(captured)
        return _routed(client, path, body, upstream, marker, stream=stream)
    return _small(rng, client, upstream, marker, stream=stream)


def _head(path: str, key: str, *lines: str, method: str = "POST") -> bytes:
    fixed = ["host: localhost", f"authorization: Bearer {key}", "content-type: application/json"]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *fixed, *lines, "", ""]).encode()


def _whole(made: _Made, key: str, data: bytes, *lines: str) -> bytes:
    return _head(made.path, key, *lines, f"content-length: {len(data)}") + data


def _request(
    kind: str,
    made: _Made,
    *pieces: Piece,
    is_framed: bool = False,
    more: frozenset[bytes] | None = None,
) -> WildRequest:
    return WildRequest(kind, [*pieces], (more or frozenset()) | {made.marker.encode()}, is_framed)


def flipped(rng: random.Random, data: bytes, most: int = 4) -> bytes:
    """Return bytes with one to `most` changes."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, most)):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(4):
            case 0 if at < len(changed):
                changed[at] = rng.choice((rng.randrange(256), changed[at] ^ 1 << rng.randrange(8)))
            case 1:
                changed[at:at] = rng.choice(_SPLICES)
            case 2:
                del changed[at : at + rng.choice((1, 1, 2, 9, 100))]
            case _:
                changed[at:at] = changed[at : at + rng.choice((1, 5, 60))]
    return bytes(changed)


_SPLICES = (
    *(b"\0", b"\r", b"\n", b"\r\n", b"\r\n\r\n", b'"', b"\\", b"\\u", b"\\ud800", b"{", b"}"),
    *(b"[", b"]", b",", b":", b" ", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
    *(b"1e999", b"-", b"NaN", b"null", b"9" * 400, b"[" * 300, b'"' * 9, b"\x1b[31m", b"%0d%0a"),
    *(b'"Model":"x",', b'"model":"x",', b'"stream":false,', b'"stream":true,', b"\xe2\x80\xa8"),
)


def _damaged_json(rng: random.Random, key: str) -> WildRequest:
    made = _made(rng)
    bodies = [body for _, body in _captured(rng.choice([*REQUESTS]))]
    body = damaged_body(Draws(rng.randbytes(_DRAWS)), made.body, bodies)
    data = json.dumps(body).encode()
    return _request("JSON", made, _whole(made, key, data), is_framed=True)


def _damaged_bytes(rng: random.Random, key: str) -> WildRequest:
    made = _made(rng)
    data = flipped(rng, json.dumps(made.body).encode())
    return _request("bytes of the body", made, _whole(made, key, data), is_framed=True)


def _sound(rng: random.Random, key: str) -> WildRequest:
    """No damage to the request; the answer is damaged instead."""
    made = _made(rng)
    return _request(
        "sound", made, _whole(made, key, json.dumps(made.body).encode()), is_framed=True
    )


def _encoded(rng: random.Random, key: str) -> WildRequest:
    made = _made(rng)
    data = json.dumps(made.body).encode()
    coding = rng.choice(("gzip", "deflate", "zstd", "br", "gzip, deflate", "gzip,gzip,gzip"))
    packed = zlib.compress(data) if coding == "deflate" else gzip.compress(data)
    if rng.random() < 0.2:
        packed = gzip.compress(b" " * 40_000_000, 1)
    if rng.random() < 0.6:
        packed = flipped(rng, packed)
    if rng.random() < 0.3:
        packed = packed[: rng.randrange(len(packed) + 1)]
    head = _whole(made, key, packed, f"content-encoding: {coding}")
    return _request("encoded body", made, head, is_framed=True)


def _chunks(rng: random.Random, data: bytes) -> list[bytes]:
    sizes = (1, 2, 7, 64, 1000, 70_000)
    found = []
    at = 0
    while at < len(data):
        size = rng.choice(sizes[2:] if len(data) > 2000 else sizes)
        found.append(data[at : at + size])
        at += size
    return found


def _chunked(rng: random.Random, key: str) -> WildRequest:
    made = _made(rng)
    chunks = _chunks(rng, json.dumps(made.body).encode())
    body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    head = _head(made.path, key, "transfer-encoding: chunked")
    return _request("chunked body", made, head + body, is_framed=True)


def _badly_chunked(rng: random.Random, key: str) -> WildRequest:
    made = _made(rng)
    chunks = _chunks(rng, json.dumps(made.body).encode())
    ends = (b"\r\n", b"\n", b"\r", b"", b"\r\n\r\n", b";a=b\r\n", b";" + b"a" * 9000 + b"\r\n")
    sizes = (
        b"%x",
        b"%X",
        b"0x%x",
        b" %x",
        b"%x ",
        b"-%x",
        b"+%x",
        b"000%x",
        b"%x\0",
        b"f%x",
        b"zz%x",
    )
    parts = []
    for chunk in chunks:
        size, end = (
            (b"%x", b"\r\n") if rng.random() < 0.9 else (rng.choice(sizes), rng.choice(ends))
        )
        parts.append(size % len(chunk) + end + chunk + (b"\r\n" if rng.random() < 0.97 else b""))
    last = rng.choice(
        (b"0\r\n\r\n", b"0\r\n", b"", b"0\r\nx: y\r\n\r\n", b"0\r\n\r\n0\r\n\r\n", b"00\r\n\r\n")
    )
    head = _head(made.path, key, "transfer-encoding: chunked")
    return _request("bad chunks", made, head + b"".join(parts) + last)


def _wrong_length(rng: random.Random, key: str) -> WildRequest:
    made = _made(rng)
    data = json.dumps(made.body).encode()
    size = len(data)
    lines = rng.choice(
        [
            (f"content-length: {rng.randrange(size)}",),
            (f"content-length: {size + rng.choice((1, 2, 1000, 10**9, 10**30))}",),
            (f"content-length: {size}", f"content-length: {size}"),
            (f"content-length: {size}", f"content-length: {size - 1}"),
            (f"content-length: {size}", "transfer-encoding: chunked"),
            (f"content-length: {size}", "transfer-encoding: gzip, chunked"),
            (f"content-length: +{size}",),
            (f"content-length: {size}, {size}",),
            (f"content-length: {hex(size)}",),
            (f"content-length : {size}",),
            ("content-length: -1",),
            ("content-length:",),
            (),
            (f"Content_Length: {size}",),
        ]
    )
    return _request("wrong length", made, _head(made.path, key, *lines) + data)


_HEADER_LINES = (
    *("x: " + "a" * 70_000, "x: a\r\n b", "x : y", ": y", "x", "\0: y", "x: \0", "é: é", "x: \x7f"),
    *("host: other", "host:", "connection: upgrade\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk"),
    *("connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x", "expect: 100-continue"),
    *(
        "expect: 200-ok",
        "te: trailers",
        "connection: close, keep-alive, x-api-key",
        "range: bytes=0-5",
    ),
    *("transfer-encoding: xchunked", "transfer-encoding:\x0bchunked", "content-type: text/plain"),
    *(
        "content-type: application/json; charset=utf-7",
        "content-encoding: \xff",
        "accept: \xff\xfe",
    ),
    *(
        "authorization: Bearer other",
        "x-api-key: other",
        "x-forwarded-for: 1.2.3.4",
        "origin: null",
    ),
    *(
        "traceparent: 00-" + "f" * 32 + "-" + "f" * 16 + "-01",
        "traceparent: \x80",
        "cookie: " + "a=b;" * 2000,
    ),
    "\r\n".join(f"x-{number}: y" for number in range(150)),
)


def _odd_head(rng: random.Random, key: str) -> WildRequest:
    made = _made(rng)
    data = json.dumps(made.body).encode()
    lines = [rng.choice(_HEADER_LINES) for _ in range(rng.randint(1, 3))]
    text = "\r\n".join([f"content-length: {len(data)}", *lines])
    fixed = f"host: localhost\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n"
    first = f"POST {made.path} HTTP/1.1\r\n{fixed}"
    return _request("odd header", made, f"{first}{text}\r\n\r\n".encode("latin-1") + data)


_LINES = (
    *(
        "POST {} HTTP/1.0",
        "POST {} HTTP/2.0",
        "POST {} HTTP/1.1 x",
        "post {} HTTP/1.1",
        "POST  {} HTTP/1.1",
    ),
    *(
        "GET {} HTTP/1.1",
        "DELETE {} HTTP/1.1",
        "TRACE {} HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "PRI * HTTP/2.0",
    ),
    *(
        "CONNECT localhost:80 HTTP/1.1",
        "POST http://other{} HTTP/1.1",
        "POST //x{} HTTP/1.1",
        "POST {}",
    ),
    *(
        "POST {}/../../metrics HTTP/1.1",
        "POST {}%00 HTTP/1.1",
        "POST {}?%ff=\x80 HTTP/1.1",
        "{} POST",
    ),
    *(
        "POST {}#x HTTP/1.1",
        "GET /v1/responses/%2e%2e HTTP/1.1",
        "GET /metrics?{} HTTP/1.1",
        "\r\n\r\nPOST {} HTTP/1.1",
    ),
    *(
        "GET /v1/models HTTP/1.1",
        "GET /v1beta/models/{} HTTP/1.1",
        "POST /v1/responses/compact HTTP/1.1",
    ),
    *(
        "POST /v1/messages/count_tokens HTTP/1.1",
        "DELETE /v1/responses/resp_1 HTTP/1.1",
        "HEAD / HTTP/1.1",
    ),
    "GET /" + "a" * 70_000 + " HTTP/1.1",
)


def _odd_line(rng: random.Random, key: str) -> WildRequest:
    made = _made(rng)
    data = json.dumps(made.body).encode()
    first = rng.choice(_LINES).replace("{}", made.path)
    head = _whole(made, key, data).partition(b"\r\n")[2]
    return _request("odd request line", made, first.encode("latin-1") + b"\r\n" + head)


def _flipped_head(rng: random.Random, key: str) -> WildRequest:
    made = _made(rng)
    head, blank, data = _whole(made, key, json.dumps(made.body).encode()).partition(b"\r\n\r\n")
    return _request("bytes of the head", made, flipped(rng, head + blank) + data)


def _pipelined(rng: random.Random, key: str) -> WildRequest:
    several = [_sound(rng, key) for _ in range(rng.randint(2, 5))]
    data = b"".join(
        bytes(piece) for each in several for piece in each.pieces if isinstance(piece, bytes)
    )
    if rng.random() < 0.5:
        data = flipped(rng, data, 2)
    markers = frozenset[bytes]().union(*(each.markers for each in several))
    return WildRequest("pipelined", [data], markers, is_framed=False)


def _cut(rng: random.Random, key: str) -> WildRequest:
    made = _made(rng)
    data = _whole(made, key, json.dumps(made.body).encode())
    return _request("cut", made, data[: rng.randrange(len(data))])


def _slow(rng: random.Random, key: str) -> WildRequest:
    made = _made(rng)
    data = _whole(made, key, json.dumps(made.body).encode())
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randint(1, 6)))
    pieces: list[Piece] = []
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        pieces += [data[start:end], rng.choice((0.0, 0.005, 0.05))]
    return _request("slow", made, *pieces, is_framed=True)


_GARBAGE = (
    *(
        b"",
        b"\0" * 100,
        b"\r\n" * 5000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 500,
    ),
    *(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
        b"SSH-2.0-x\r\n",
        b"{}",
    ),
    *(
        b"GET",
        b"G" * 100_000,
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"\xff\xfe\xfd" * 99,
    ),
)


def _garbage(rng: random.Random, key: str) -> WildRequest:
    data = rng.choice((*_GARBAGE, rng.randbytes(rng.randrange(1, 3000))))
    return WildRequest("no HTTP", [data], frozenset(), is_framed=False)


def _logged(rng: random.Random, key: str) -> WildRequest:
    """Return a logged request, followed by one that reads its stream."""
    made = _made(rng)
    data = json.dumps(made.body).encode()
    id = made.marker if rng.random() < 0.7 else "".join(rng.choices("aZ9-.~%/ ?\x00é", k=9))
    header = rng.choice(("x-streamnorm-stream", "idempotency-key"))
    query = rng.choice(("", "?after=", f"?after={rng.randbytes(8).hex()}-0a1b2c3d.1", "?to=gemini"))
    resumed = rng.choice(("", f"last-event-id: {'9' * 30}-x.1"))
    path = f"/streams/{made.marker}{query}"
    method = rng.choice(("GET", "GET", "DELETE", "POST"))
    further = _head(path, key, *filter(None, [resumed, "connection: close"]), method=method)
    return _request("logged", made, _whole(made, key, data, f"{header}: {id}"), 0.05, further)


_KINDS: dict[str, Callable[[random.Random, str], WildRequest]] = {
    **{f"sound {number}": _sound for number in range(6)},
    **{f"json {number}": _damaged_json for number in range(4)},
    "bytes": _damaged_bytes,
    "encoded": _encoded,
    "chunked": _chunked,
    "bad chunks": _badly_chunked,
    "wrong length": _wrong_length,
    "odd header": _odd_head,
    "odd line": _odd_line,
    "head": _flipped_head,
    "pipelined": _pipelined,
    "logged": _logged,
    "cut": _cut,
    "slow": _slow,
    "garbage": _garbage,
}

"""Pages in a browser that reach a gateway without keys, and those that may."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.gateway.calls import (
    CANARY,
    CHAT,
    POSTS,
    assert_refused,
    called,
    every_dialect,
    opened,
    scripted,
)
from support.gateway.servers import SERVERS, ServerName, served
from support.http.asgi_caller import Caller

from streamnorm.gateway import ConfigError, Gateway

pytestmark = pytest.mark.anyio

LOCAL = ("127.0.0.1", 8080)
WIDE = ("192.0.2.7", 8080)
PATH = "/v1/chat/completions"
JSON_TYPE = ("content-type", "application/json")
ORIGIN = "https://app.example"


async def ask(
    app: Gateway,
    host: str | None,
    *headers: tuple[str, str],
    server: tuple[str, int | None] | None = LOCAL,
    target: str = PATH,
    method: str = "POST",
    kind: tuple[tuple[str, str], ...] = (JSON_TYPE,),
    body: object = CHAT,
) -> Caller:
    """Return a client whose request has been answered; 502 means that it was let in."""
    hosts = () if host is None else (("host", host),)
    sent = [*hosts, *(kind if method == "POST" else ()), *headers]
    data = body if method == "POST" else None
    return await called(app, target, data, method=method, headers=sent, server=server)


@pytest.mark.parametrize("server", SERVERS)
async def test_name_of_another_host_asks_no_upstream(server: ServerName) -> None:
    """A page whose name resolves to 127.0.0.1 is of one origin with the gateway."""
    body = json.dumps(CHAT).encode()
    answers = {"/v1/chat/completions": {"id": "c"}}
    async with scripted(answers, "openai_chat") as (app, upstream), served(app, server) as url:
        port = int(url.rpartition(":")[2])
        for host in (f"evil.example:{port}", "evil.example", f"{CANARY}.example"):
            head = (
                f"POST {PATH} HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\n"
                f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
                "connection: close\r\n\r\n"
            )
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head.encode() + body)
            answer = await reader.read()
            writer.close()
            assert answer.startswith(b"HTTP/1.1 403")
            assert CANARY.encode() not in answer
            assert b"access-control" not in answer.lower()
        assert upstream.requests == []


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8080",
        "localhost:9999",  # a tunnel
        "LocalHost:8080",
        "localhost.",
        "app.localhost:8080",
        "127.0.0.1",
        "127.0.0.1:8080",
        "127.1.2.3:80",
        "[::1]",
        "[::1]:8080",
        "[::ffff:127.0.0.1]:8080",
        "gw.example",
        "GW.example:8443",
        "gateway:8080",
        "[2001:db8::1]:8080",
        "192.0.2.1",
    ],
)
async def test_host_of_loopback_or_of_the_configuration_passes(host: str) -> None:
    hosts = ["gw.example", "gateway", "2001:db8::1", "192.0.2.1"]
    async with opened(hosts=hosts) as app:
        for server in (LOCAL, ("::1", 8080), ("::ffff:127.0.0.1", 8080)):
            assert (await ask(app, host, server=server)).status == 502


BAD_HOSTS = [
    "evil.example",
    "evil.example:8080",
    "localhost.evil.example",
    "evil-localhost",
    "127.0.0.1.nip.example",
    "0.0.0.0:8080",  # browsers reach loopback under it
    "[::]:8080",
    "192.0.2.1:8080",
    "127.1",
    "2130706433",
    "0x7f.1",
    "localhost@evil.example",
    "evil.example, localhost",
    "localhost:80:80",
    "localhost:x",
    "[::1",
    "::1",
    "[localhost]",
    "",
    " ",
    ".localhost",
    "localhost..",
    "sub.gw.example",
    "gw.example.",
]


@pytest.mark.parametrize("host", BAD_HOSTS)
async def test_other_host_is_refused_on_loopback(host: str) -> None:
    async with opened(hosts=["gw.example"]) as app:
        if host == "gw.example.":  # the same name, spelt out
            assert (await ask(app, host)).status == 502
            return
        for server in (LOCAL, ("::1", 8080), ("::ffff:127.0.0.1", 8080)):
            message = assert_refused(await ask(app, host, server=server), 403)
            assert (
                message == "host: another than this gateway's, expected localhost or one of hosts"
            )


async def test_request_without_a_host_is_refused_on_loopback() -> None:
    async with opened() as app:
        assert_refused(await ask(app, None), 403)


@every_dialect
async def test_refusal_is_in_the_dialect_of_the_client(client: str) -> None:
    target, body = POSTS[client]
    async with opened() as app:
        for headers in ([], [("origin", "http://evil.example")]):
            host = "localhost" if headers else "evil.example"
            caller = await ask(app, host, *headers, target=target, body=body)
            assert_refused(caller, 403, client)


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("localhost:8080", "http://localhost:8080"),
        ("localhost:8080", "HTTP://LOCALHOST:8080"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("[::1]:8080", "http://[::1]:8080"),
        ("gw.example", "https://gw.example"),
        ("gw.example", "http://gw.example:80"),
        ("gw.example:443", "https://gw.example"),
        ("localhost:8080", ORIGIN),
        ("localhost:8080", "chrome-extension://abcdefgh"),
        ("localhost:8080", "http://localhost:3000"),
    ],
)
async def test_own_origin_and_configured_ones_pass(host: str, origin: str) -> None:
    origins = [ORIGIN, "chrome-extension://abcdefgh", "http://localhost:3000"]
    async with opened(hosts=["gw.example"], origins=origins) as app:
        assert (await ask(app, host, ("origin", origin))).status == 502


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://localhost:3000",
        "http://localhost",
        "https://localhost:8080.evil.example",
        "http://127.0.0.1:8080",
        "null",
        "",
        "localhost:8080",
        "file://",
        "ftp://localhost:8080",
        "http://user@localhost:8080",
        "http://localhost:8080/",
        "http://localhost:8080, http://evil.example",
        f"{ORIGIN}.evil.example",
        "http://app.example",
    ],
)
async def test_other_origin_is_refused(origin: str) -> None:
    async with opened(origins=[ORIGIN]) as app:
        for fetch in ((), (("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "cors"))):
            caller = await ask(app, "localhost:8080", ("origin", origin), *fetch)
            message = assert_refused(caller, 403)
            assert message == "origin: another page's, expected one of origins"
            assert "access-control-allow-origin" not in caller.headers


async def test_sec_fetch_headers_decide_nothing() -> None:
    headers = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")]
    async with opened() as app:
        assert (await ask(app, "localhost", *headers)).status == 502


async def test_untyped_body_passes_without_an_origin_alone() -> None:
    """boto3 sends no content-type, and browsers send none for an untyped Blob."""
    async with opened(origins=[ORIGIN]) as app:
        assert (await ask(app, "localhost", kind=())).status == 502
        for origin in (ORIGIN, "http://localhost"):
            caller = await ask(app, "localhost", ("origin", origin), kind=())
            assert assert_refused(caller, 415).startswith("content-type: none")


@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "text/plain; charset=utf-8",
        "text/plain;x=application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain, application/json",
        "text/plain, a/b+json",
    ],
)
async def test_body_of_another_type_is_refused_by_the_name_of_the_header(kind: str) -> None:
    async with opened() as app:
        for headers in ((), (("origin", "http://localhost"),)):
            caller = await ask(app, "localhost", *headers, kind=(("content-type", kind),))
            assert "content-type" in assert_refused(caller, 415)


@pytest.mark.parametrize("target", ["/healthz", "/", "/api/hello"])
async def test_health_is_answered_to_every_host(target: str) -> None:
    async with opened(hosts=["gw.example"]) as app:
        for server in (LOCAL, WIDE, None):
            caller = await ask(
                app,
                "10.0.0.3:8080",
                ("origin", "http://evil.example"),
                server=server,
                target=target,
                method="GET",
            )
            assert caller.status == 200


@pytest.mark.parametrize("target", ["/metrics", "/v1/models", "/v1/responses/resp_1", "/x"])
async def test_nothing_else_is_shown_to_another_host(target: str) -> None:
    async with opened() as app:
        assert_refused(await ask(app, "evil.example", target=target, method="GET"), 403)
        page = ("origin", "http://evil.example")
        assert_refused(await ask(app, "localhost", page, target=target, method="GET"), 403)


async def test_metrics_are_shown_to_loopback() -> None:
    async with opened() as app:
        assert (await ask(app, "localhost", target="/metrics", method="GET")).status == 200


async def test_other_address_without_keys_needs_open() -> None:
    async with opened() as app:
        for host in ("localhost", "192.0.2.7:8080"):
            message = assert_refused(await ask(app, host, server=WIDE), 403)
            assert message == (
                "a gateway without client_keys on another address than loopback, "
                "expected client_keys or open"
            )
    async with opened(open=True) as app:
        for host in ("gw.example", "192.0.2.7:8080", "localhost"):
            assert (await ask(app, host, server=WIDE)).status == 502
        assert_refused(await ask(app, "evil.example"), 403)  # on loopback


async def test_other_address_checks_host_and_origin_if_open() -> None:
    async with opened(open=True, hosts=["gw.example"]) as app:
        for host in ("gw.example", "localhost:8080", "192.0.2.7:8080"):
            own = ("origin", f"http://{host}")
            assert (await ask(app, host, own, server=WIDE)).status == 502
        assert_refused(await ask(app, "evil.example", server=WIDE), 403)
    async with opened(open=True) as app:
        own = ("origin", "http://192.0.2.7:8080")
        assert (await ask(app, "192.0.2.7:8080", own, server=WIDE)).status == 502
        # A name that nobody vouches for may be one that was bound anew.
        page = ("origin", "http://evil.example")
        assert_refused(await ask(app, "evil.example", page, server=WIDE), 403)


@pytest.mark.parametrize("server", [None, ("gateway", None), ("/run/gateway.sock", None)])
async def test_application_in_process_or_on_a_unix_socket_has_any_host(
    server: tuple[str, None] | None,
) -> None:
    async with opened() as app:
        assert (await ask(app, "gateway", server=server)).status == 502
        assert_refused(await ask(app, "gateway", ("origin", "http://gateway"), server=server), 403)
    async with opened(hosts=["gateway"]) as app:
        own = ("origin", "http://gateway")
        assert (await ask(app, "gateway", own, server=server)).status == 502
        assert_refused(await ask(app, "evil.example", server=server), 403)


@pytest.mark.parametrize("server", [LOCAL, WIDE, None])
async def test_nothing_of_this_applies_with_keys(server: tuple[str, int] | None) -> None:
    key = ("authorization", "Bearer k")
    async with opened(client_keys="env:KEYS", environ={"KEYS": "k"}, hosts=["x"]) as app:
        for headers in ((), (("origin", "http://evil.example"),), (("origin", "null"),)):
            for kind in ((), (JSON_TYPE,)):
                caller = await ask(app, "evil.example", key, *headers, server=server, kind=kind)
                assert caller.status == 502
        metrics = await ask(app, "evil.example", target="/metrics", method="GET")
        assert metrics.status == 200


def preflight(origin: str = ORIGIN, *headers: tuple[str, str]) -> list[tuple[str, str]]:
    return [
        ("origin", origin),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization,content-type,x-stainless-os"),
        *headers,
    ]


def cors_of(caller: Caller) -> dict[str, str]:
    names = [name for name in caller.headers if name.startswith("access-control-")]
    return {name.removeprefix("access-control-"): caller.headers[name] for name in names}


async def test_cors_is_off() -> None:
    async with opened(origins=[ORIGIN]) as app:
        asked = await ask(app, "localhost", *preflight(), method="OPTIONS")
        assert (asked.status, cors_of(asked)) == (405, {})
        answered = await ask(app, "localhost", ("origin", ORIGIN))
        assert (answered.status, cors_of(answered)) == (502, {})


KEYED: dict[str, Any] = {"client_keys": "env:KEYS", "environ": {"KEYS": "k"}}


@pytest.mark.parametrize("keys", [{}, KEYED], ids=["open", "keys"])
async def test_cors_lets_pages_of_the_configured_origins_read(keys: dict[str, Any]) -> None:
    async with opened(origins=[ORIGIN], cors=True, **keys) as app:
        local = ("access-control-request-private-network", "true")
        asked = await ask(app, "localhost", *preflight(ORIGIN, local), method="OPTIONS")
        assert (asked.status, asked.bodies) == (204, [b""])
        assert asked.headers["vary"] == "origin"
        assert cors_of(asked) == {
            "allow-origin": ORIGIN,
            "allow-methods": "GET, POST, DELETE",
            "allow-headers": "authorization,content-type,x-stainless-os",
            "allow-private-network": "true",
            "max-age": "600",
        }
        for key, status in ((("authorization", "Bearer k"), 502), (("authorization", "x"), 401)):
            answered = await ask(app, "localhost", ("origin", ORIGIN), key)
            assert answered.status == (status if keys else 502)
            assert cors_of(answered) == {"allow-origin": ORIGIN, "expose-headers": "*"}
            assert answered.headers["vary"] == "origin"
        plain = await ask(app, "localhost", ("authorization", "Bearer k"))
        assert (plain.status, cors_of(plain)) == (502, {})
        assert plain.headers["vary"] == "origin"


async def test_cors_lets_no_other_page_read() -> None:
    async with opened(origins=[ORIGIN], cors=True) as app:
        for origin in ("http://evil.example", "null", f"{ORIGIN}:8443"):
            asked = await ask(app, "localhost", *preflight(origin), method="OPTIONS")
            assert (asked.status, cors_of(asked)) == (403, {})
            answered = await ask(app, "localhost", ("origin", origin))
            assert (answered.status, cors_of(answered)) == (403, {})
        asked = await ask(app, "evil.example", *preflight(), method="OPTIONS")
        assert (asked.status, asked.headers.get("access-control-allow-methods")) == (403, None)


async def test_headers_of_a_preflight_are_names() -> None:
    async with opened(origins=[ORIGIN], cors=True) as app:
        for names in ("a\r\nset-cookie: b", "a b", "x" * 5000, "a;b", "\xff"):
            asked = await ask(
                app,
                "localhost",
                ("origin", ORIGIN),
                ("access-control-request-method", "POST"),
                ("access-control-request-headers", names),
                method="OPTIONS",
            )
            assert "access-control-allow-headers" not in asked.headers


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"hosts": ["http://gw.example"]}, "hosts[0]"),
        ({"hosts": ["gw.example", "gw.example/x"]}, "hosts[1]"),
        ({"hosts": ["gw.example:80"]}, "hosts[0]"),
        ({"hosts": ["*"]}, "hosts[0]"),
        ({"hosts": ["a b"]}, "hosts[0]"),
        ({"origins": ["app.example"]}, "origins[0]"),
        ({"origins": ["https://app.example/"]}, "origins[0]"),
        ({"origins": ["null"]}, "origins[0]"),
        ({"origins": ["*"]}, "origins[0]"),
        ({"origins": [ORIGIN, "https://app.example\r\n"]}, "origins[1]"),
        ({"cors": True}, "cors"),
    ],
)
async def test_wrong_setting_is_named(settings: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        async with opened(**settings):
            pass
    assert str(caught.value).startswith(f"{key}: ")

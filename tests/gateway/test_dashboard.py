"""The routes of the dashboard: who may see it, and what a page is sent."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.gateway.calls import MESSAGES, called, opened
from support.gateway.dashboards import (
    ADMIN_KEY,
    ENVIRON,
    HOSTILE,
    OPTIONS,
    log_in,
    watched_gateway,
)
from support.http.asgi_caller import Caller

from streamnorm.gateway import ConfigError, DashboardConfig, Gateway
from streamnorm.gateway import dashboard as dashboard_module

pytestmark = pytest.mark.anyio

ROUTES = [
    ("GET", "/dashboard"),
    ("GET", "/dashboard/"),
    ("POST", "/dashboard/login"),
    ("POST", "/dashboard/logout"),
    ("GET", "/dashboard/events"),
    ("GET", "/dashboard/dashboard.js"),
    ("GET", "/dashboard/dashboard.css"),
    ("GET", "/dashboard/dashboard.svg"),
]
FORM = ("content-type", "application/x-www-form-urlencoded")
HOST = ("host", "localhost")
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(autouse=True)
def poll_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a page have its next state after hundredths of a second."""
    monkeypatch.setattr(dashboard_module, "POLL_S", 0.02)


@asynccontextmanager
async def watched(**settings: Any) -> AsyncIterator[Gateway]:
    async with opened(dashboard=OPTIONS, environ=ENVIRON, **settings) as app:
        yield app


async def post_key(
    app: Gateway, key: str = ADMIN_KEY, *more: tuple[str, str], **scope: Any
) -> Caller:
    """Return a browser that has posted a key."""
    body = f"key={key}".encode()
    headers = (HOST, FORM, *more)
    return await called(app, "/dashboard/login", body, headers=headers, **scope)


async def session_of(app: Gateway) -> tuple[str, str]:
    """Return the header of the cookie of a new session."""
    caller = await post_key(app)
    return "cookie", caller.headers["set-cookie"].partition(";")[0]


async def get(app: Gateway, target: str, *headers: tuple[str, str], **scope: Any) -> Caller:
    return await called(app, target, method="GET", headers=(HOST, *headers), **scope)


class Events:
    """A page that reads events, and leaves when `leave` is called."""

    def __init__(self, app: Gateway, cookie: tuple[str, str]) -> None:
        self.caller = Caller("/dashboard/events", method="GET", headers=(HOST, cookie))
        self.task = asyncio.create_task(self.caller.call(app))

    async def wait_for(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Return what the page knows, once that is true of it."""
        async with asyncio.timeout(30):
            while not (self.caller.bodies and condition(state := self.state)):
                assert not self.task.done() or self.caller.bodies
                await asyncio.sleep(0.01)
        return state

    @property
    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = {"ended": []}
        for line in b"".join(self.caller.bodies).decode().splitlines():
            if line.startswith("data: "):
                event = json.loads(line.removeprefix("data: "))
                ended = state["ended"] + event.pop("ended", [])
                state |= event | {"ended": ended}
        return state

    async def leave(self) -> None:
        self.caller.gone.set()
        await self.task


@pytest.mark.parametrize(("method", "target"), ROUTES)
async def test_nothing_is_there_unless_configured(method: str, target: str) -> None:
    async with opened() as app:
        caller = await called(app, target, method=method, headers=(HOST,))
        assert caller.status == 404
        assert caller.headers["content-type"] == "application/json"


async def test_key_is_posted_once_and_then_a_cookie_opens_the_page() -> None:
    async with watched() as app:
        form = await get(app, "/dashboard")
        assert form.status == 200
        assert b'type="password"' in b"".join(form.bodies)
        caller = await post_key(app)
        assert (caller.status, caller.headers["location"]) == (303, "../dashboard")
        id, *attributes = caller.headers["set-cookie"].split("; ")
        assert attributes == ["Max-Age=43200", "HttpOnly", "SameSite=Strict"]
        assert ADMIN_KEY not in str(caller.headers)
        page = await get(app, "/dashboard", ("cookie", f"a=b; {id}; c=d"))
        assert page.status == 200
        assert b"dashboard/dashboard.js" in b"".join(page.bodies)


async def test_second_key_of_the_list_opens_the_page_and_others_do_not() -> None:
    async with watched(client_keys="env:CLIENT_KEYS") as app:
        assert (await post_key(app, "other-key-0123456789")).status == 303
        for key in ("", "x", ENVIRON["CLIENT_KEYS"], f"{ADMIN_KEY}x", ADMIN_KEY[:-1], "x" * 600):
            caller = await post_key(app, key)
            assert caller.status == 401
            assert "set-cookie" not in caller.headers
            assert b"no admin key" in b"".join(caller.bodies)


async def test_admin_key_and_cookie_do_not_open_the_api() -> None:
    async with watched(client_keys="env:CLIENT_KEYS") as app:
        cookie = await session_of(app)
        headers = (HOST, cookie, ("x-api-key", ADMIN_KEY), ("content-type", "application/json"))
        assert (await called(app, "/v1/messages", MESSAGES, headers=headers)).status == 401


async def test_client_key_in_a_header_does_not_open_the_page() -> None:
    async with watched(client_keys="env:CLIENT_KEYS") as app:
        key = ("authorization", f"Bearer {ENVIRON['CLIENT_KEYS']}")
        assert (await get(app, "/dashboard/events", key)).status == 401
        admin = ("authorization", f"Bearer {ADMIN_KEY}")  # which has to be posted
        assert (await get(app, "/dashboard/events", admin)).status == 401


@pytest.mark.parametrize(
    "cookie", ["", "x", "streamnorm_dashboard=", "streamnorm_dashboard=x" + "y" * 4000]
)
async def test_forged_session_is_none(cookie: str) -> None:
    async with watched() as app:
        assert (await get(app, "/dashboard/events", ("cookie", cookie))).status == 401
        page = await get(app, "/dashboard", ("cookie", cookie))
        assert b'type="password"' in b"".join(page.bodies)


async def test_log_out_ends_the_session() -> None:
    async with watched() as app:
        cookie = await session_of(app)
        out = await called(app, "/dashboard/logout", headers=(HOST, cookie))
        assert (out.status, out.headers["location"]) == (303, "../dashboard")
        assert out.headers["set-cookie"].startswith("streamnorm_dashboard=; Max-Age=0;")
        assert (await get(app, "/dashboard/events", cookie)).status == 401


@pytest.mark.parametrize(
    ("scheme", "origin"), [("https", None), ("http", "https://localhost"), ("http", None)]
)
async def test_cookie_is_secure_behind_https(scheme: str, origin: str | None) -> None:
    async with watched(hosts=["localhost"]) as app:
        more = () if origin is None else (("origin", origin),)
        caller = await post_key(app, ADMIN_KEY, *more, scheme=scheme)
        is_secure = scheme == "https" or origin is not None
        assert caller.headers["set-cookie"].endswith("; Secure") == is_secure


async def test_every_answer_has_the_headers_of_a_page_that_loads_nothing_from_elsewhere() -> None:
    async with watched() as app:
        cookie = await session_of(app)
        for target in ("/dashboard", "/dashboard/dashboard.js", "/dashboard/x"):
            for headers in ((), (cookie,)):
                answer = (await get(app, target, *headers)).headers
                policy = dict(
                    part.strip().split(" ", 1)
                    for part in answer["content-security-policy"].split(";")
                )
                assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
                assert policy["script-src"] == policy["style-src"] == "'self'"
                assert answer["cache-control"] == "no-store"
                assert answer["x-content-type-options"] == "nosniff"
                assert answer["referrer-policy"] == "same-origin"
                assert "access-control-allow-origin" not in answer


async def test_pages_of_cors_do_not_read_the_dashboard() -> None:
    origin = ("origin", "https://app.example")
    async with watched(origins=["https://app.example"], cors=True) as app:
        for target in ("/dashboard", "/dashboard/events"):
            assert "access-control-allow-origin" not in (await get(app, target, origin)).headers


async def test_request_of_another_site_is_refused() -> None:
    async with watched() as app:
        cookie = await session_of(app)
        for site in ("cross-site", "same-site"):
            fetch = ("sec-fetch-site", site)
            assert (await post_key(app, ADMIN_KEY, fetch)).status == 403
            assert (await get(app, "/dashboard/events", cookie, fetch)).status == 403
            assert (await get(app, "/dashboard", cookie, fetch)).status == 200  # a link
        evil = await called(
            app,
            "/dashboard",
            method="GET",
            headers=(("host", "evil.example"),),
            server=("127.0.0.1", 80),
        )
        assert evil.status == 403
        origin = ("origin", "http://evil.example")
        assert (await post_key(app, ADMIN_KEY, origin)).status == 403


@pytest.mark.parametrize("page", ["gateway/deploy.md", "dashboard.md"])
async def test_form_is_posted_through_the_nginx_of_the_documentation(page: str) -> None:
    """At a port other than the default, which nginx's `$host` lacks."""
    text = (DOCS / page).read_text()
    (variable,) = set(re.findall(r"proxy_set_header Host (\S+?)[;`]", text))
    passed = {"$http_host": "gw.example:8443", "$host": "gw.example"}
    headers = (("host", passed[variable]), ("origin", "https://gw.example:8443"), FORM)
    async with watched(client_keys="env:CLIENT_KEYS") as app:
        body = f"key={ADMIN_KEY}".encode()
        assert (await called(app, "/dashboard/login", body, headers=headers)).status == 303


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("gw.example", "http://gw.example", 303),
        ("GW.example", "https://gw.example", 303),  # behind a proxy that ends TLS
        ("gw.example:443", "https://gw.example", 303),
        ("gw.example:8080", "http://gw.example:8080", 303),
        ("[fd00::1]:8080", "http://[fd00::1]:8080", 303),
        ("10.0.0.1", "https://Admin.example", 303),  # one of `origins`
        ("gw.example", None, 303),  # a program
        ("gw.example", "http://evil.example", 403),
        ("gw.example", "http://gw.example.evil.example", 403),
        ("gw.example:8080", "http://gw.example:9090", 403),
        ("gw.example:8080", "http://gw.example", 403),
        ("gw.example", "null", 403),
        ("gw.example", "https://", 403),
        ("gw.example", "ftp://gw.example", 403),
    ],
)
async def test_form_is_posted_by_the_gateways_own_page_alone(
    host: str, origin: str | None, status: int
) -> None:
    """A gateway with `client_keys` accepts other requests of every page."""
    more = () if origin is None else (("origin", origin),)
    async with watched(client_keys="env:CLIENT_KEYS", origins=["https://admin.example"]) as app:
        cookie = await session_of(app)
        body, headers = f"key={ADMIN_KEY}".encode(), (("host", host), *more)
        caller = await called(app, "/dashboard/login", body, headers=(*headers, FORM))
        assert caller.status == status
        caller = await called(app, "/dashboard/logout", headers=(*headers, cookie))
        assert caller.status == status
        page = await get(app, "/dashboard", cookie)
        assert (b'type="password"' in b"".join(page.bodies)) == (status == 303)


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/dashboard/x", 404),
        ("GET", "/dashboard/../v1/models", 404),
        ("GET", "/dashboard/dashboard.html", 404),
        ("GET", "/dashboard/dashboard.py", 404),
        ("GET", "/dashboard/login", 405),
        ("GET", "/dashboard/logout", 405),
        ("POST", "/dashboard", 405),
        ("PUT", "/dashboard/events", 405),
    ],
)
async def test_other_path_or_method_is_refused(method: str, target: str, status: int) -> None:
    async with watched() as app:
        cookie = await session_of(app)
        caller = await called(app, target, method=method, headers=(HOST, cookie))
        assert caller.status == status


async def test_trailing_slash_leads_to_the_page() -> None:
    """Links of the page are relative, so that it works below any prefix of a proxy."""
    async with watched() as app:
        caller = await get(app, "/dashboard/")
        assert (caller.status, caller.headers["location"]) == (303, "../dashboard")


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", b'{"key": "x"}', 415),
        (FORM[1], b"key=" + b"x" * 5000, 413),
        (FORM[1], b"&".join([b"a=b"] * 20), 400),
        (FORM[1], b"key=\xff\xfe%ff%00", 401),
        (FORM[1], b"", 401),
    ],
)
async def test_wrong_form_is_refused(kind: str, body: bytes, status: int) -> None:
    async with watched() as app:
        headers = (HOST, ("content-type", kind))
        assert (await called(app, "/dashboard/login", body, headers=headers)).status == status


async def test_form_that_never_arrives_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard_module, "_FORM_S", 0.01)
    async with watched() as app:
        caller = Caller("/dashboard/login", headers=(HOST, FORM), body=())
        await caller.call(app)
        assert caller.status == 408


async def test_form_that_breaks_off_is_no_wrong_key() -> None:
    address = ("192.0.2.1", 1)
    async with watched() as app:
        for _ in range(11):
            caller = Caller("/dashboard/login", headers=(HOST, FORM), body=(), client=address)
            caller.gone.set()
            await caller.call(app)
            assert not caller.bodies
        assert (await post_key(app, client=address)).status == 303


async def test_wrong_keys_are_bounded_by_their_address(caplog: pytest.LogCaptureFixture) -> None:
    attacker, other = ("192.0.2.1", 1), ("192.0.2.2", 1)
    async with watched() as app:
        with caplog.at_level(logging.INFO):
            for _ in range(10):
                assert (await post_key(app, "wrong-key", client=attacker)).status == 401
            caller = await post_key(app, client=attacker)  # not even compared
            assert caller.status == 429
            assert 0 < int(caller.headers["retry-after"]) <= 61
            assert (await post_key(app, client=other)).status == 303
        lines = [record.getMessage() for record in caplog.records]
        assert [line for line in lines if "wrong keys" in line] == [
            "dashboard: many wrong keys from one address, which has to wait"
        ]
        assert ADMIN_KEY not in caplog.text
        assert "wrong-key" not in caplog.text


async def test_page_is_sent_the_state_and_then_what_has_changed() -> None:
    async with watched() as app:
        page = Events(app, await session_of(app))
        state = await page.wait_for(lambda state: "about" in state)
        assert page.caller.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert page.caller.headers["cache-control"] == "no-store, no-transform"
        assert state["running"] == state["ended"] == []
        assert [row["name"] for row in state["upstreams"]] == ["local"]
        await called(app, "/v1/messages", MESSAGES)  # nobody listens at its upstream
        state = await page.wait_for(lambda state: state["ended"])
        (row,) = state["ended"]
        assert (row["model"], row["status"], row["outcome"]) == ("m", 502, "failed")
        assert row["reason"] == "refused"
        assert state["upstreams"][0]["reasons"] == {"refused": 1}
        await called(app, "/v1/messages", MESSAGES)
        state = await page.wait_for(lambda state: len(state["ended"]) > 1)
        assert [row["n"] for row in state["ended"]] == [1, 2]  # none is sent again
        await page.leave()


def test_event_has_the_parts_that_have_changed() -> None:
    changes = dashboard_module._Changes()
    state: dict[str, Any] = {"about": 1, "running": [], "ended": [{"n": 7, "process": "a"}]}
    assert json.loads(changes.since_last(state).removeprefix(b"data: ")) == state
    assert changes.since_last(state) == b""
    state["ended"] += [{"n": 8, "process": "a"}, {"n": 1, "process": "b"}]
    sent = json.loads(changes.since_last({**state, "running": [2]}).removeprefix(b"data: "))
    assert sent == {"running": [2], "ended": [{"n": 8, "process": "a"}, {"n": 1, "process": "b"}]}


async def test_no_prompt_answer_or_key_reaches_the_page() -> None:
    async with watched_gateway(client_keys="env:ADMIN_KEYS") as gateway:
        gateway.client.headers["x-api-key"] = ADMIN_KEY
        await gateway.ask_for_all_endings()
        assert await gateway.ask(HOSTILE) == 200
        page = Events(gateway.app, await session_of(gateway.app))
        await page.wait_for(lambda state: len(state["ended"]) == 9)
        shown = b"".join(page.caller.bodies).decode()
        for secret in ("Weather?", "Fail.", "snows", "Overloaded.", ADMIN_KEY, "/v1/messages"):
            assert secret not in shown
        assert HOSTILE in shown  # of JSON, which the page writes as text
        await page.leave()


async def test_clients_are_told_apart_by_the_position_of_their_key() -> None:
    environ = {**ENVIRON, "CLIENT_KEYS": f"another-key, {ENVIRON['CLIENT_KEYS']}"}
    async with opened(dashboard=OPTIONS, environ=environ, client_keys="env:CLIENT_KEYS") as app:
        for key in ("another-key", ENVIRON["CLIENT_KEYS"], "wrong"):
            headers = (HOST, ("x-api-key", key), ("content-type", "application/json"))
            await called(app, "/v1/messages", MESSAGES, headers=headers)
        page = Events(app, await session_of(app))
        state = await page.wait_for(lambda state: len(state["ended"]) == 3)
        assert [row.get("client_key") for row in state["ended"]] == [1, 2, None]
        await page.leave()


async def test_running_request_is_shown_with_its_upstream_and_events() -> None:
    async with watched_gateway() as gateway, gateway.running_request():
        page = Events(gateway.app, await session_of(gateway.app))
        state = await page.wait_for(lambda state: state.get("running"))
        (row,) = state["running"]
        assert (row["model"], row["upstream"], row["state"]) == ("qwen3-32b", "local", "answering")
        assert row["events"] > 1
        assert row["attempts"] == 1
        await page.leave()


async def test_fallback_is_shown_at_both_upstreams() -> None:
    async with watched_gateway() as gateway:
        assert await gateway.ask("claude-sonnet-5") == 200
        page = Events(gateway.app, await session_of(gateway.app))
        state = await page.wait_for(lambda state: state["ended"])
        failure = {"upstream": "claude", "status": 502, "error": "transport", "reason": "refused"}
        assert state["ended"][0]["failures"] == [failure]
        health = {row["name"]: row["health"] for row in state["upstreams"]}
        assert health == {"claude": "failing", "local": "healthy"}
        await page.leave()


async def test_pages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard_module, "MAX_PAGES", 2)
    async with watched() as app:
        cookie = await session_of(app)
        pages = [Events(app, cookie) for _ in range(2)]
        for page in pages:
            await page.wait_for(lambda state: "about" in state)
        refused = await get(app, "/dashboard/events", cookie)
        assert (refused.status, refused.headers["retry-after"]) == (503, "5")
        await pages[0].leave()
        again = Events(app, cookie)
        await again.wait_for(lambda state: "about" in state)
        for page in (pages[1], again):
            await page.leave()


async def test_drain_ends_the_pages_at_once_and_refuses_more() -> None:
    async with watched(drain_grace_s=60) as app:
        cookie = await session_of(app)
        page = Events(app, cookie)
        await page.wait_for(lambda state: "about" in state)
        app.begin_drain()
        async with asyncio.timeout(0.5):
            await page.task
        assert (await get(app, "/dashboard/events", cookie)).status == 503


async def test_end_of_the_session_ends_its_pages() -> None:
    async with watched() as app:
        cookie = await session_of(app)
        page = Events(app, cookie)
        await page.wait_for(lambda state: "about" in state)
        await called(app, "/dashboard/logout", headers=(HOST, cookie))
        async with asyncio.timeout(10):
            await page.task


async def test_page_that_does_not_read_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard_module, "_SEND_S", 0.05)

    async def block(message: Any) -> None:
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async with watched() as app:
        cookie = await session_of(app)
        stuck = Caller("/dashboard/events", method="GET", headers=(HOST, cookie), on_send=block)
        task = asyncio.create_task(stuck.call(app))
        page = Events(app, cookie)
        await page.wait_for(lambda state: "about" in state)
        async with asyncio.timeout(10):
            await task  # its connection is cut
        await page.leave()


async def test_silent_page_is_sent_pings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard_module, "_PING_S", 0.01)
    async with watched() as app:
        page = Events(app, await session_of(app))
        await page.wait_for(lambda _: b": ping\n\n" in page.caller.bodies)
        await page.leave()


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, "dashboard.admin_keys: ADMIN_KEYS is not set in the environment, expected a key"),
        ("short", "dashboard.admin_keys: a key of 5 characters, expected 16 to 512 characters of"),
        (f"{ADMIN_KEY},", "dashboard.admin_keys: a key of 0 characters, expected 16 to 512"),
    ],
)
async def test_wrong_admin_keys_stop_the_start(value: str | None, problem: str) -> None:
    environ = {} if value is None else {"ADMIN_KEYS": value}
    with pytest.raises(ConfigError) as raised:
        async with opened(dashboard=OPTIONS, environ=environ):
            pass
    assert str(raised.value).startswith(problem)
    assert "short" not in str(raised.value)


async def test_key_in_the_configuration_itself_is_refused() -> None:
    with pytest.raises(ConfigError) as raised:
        async with opened(dashboard=DashboardConfig(admin_keys=ADMIN_KEY)):
            pass
    assert ADMIN_KEY not in str(raised.value)


async def test_dashboard_is_served_with_its_cookie() -> None:
    async with watched_gateway() as gateway:
        answer = await log_in(gateway)
        assert (answer.status_code, "HttpOnly" in answer.headers["set-cookie"]) == (303, True)
        page = await gateway.client.get("/dashboard")
        assert "dashboard/dashboard.js" in page.text


async def test_requests_of_the_dashboard_are_not_shown_on_it() -> None:
    async with watched() as app:
        cookie = await session_of(app)
        await get(app, "/dashboard", cookie)
        page = Events(app, cookie)
        state = await page.wait_for(lambda state: "about" in state)
        assert (state["about"]["running_count"], state["ended"]) == (0, [])
        await page.leave()

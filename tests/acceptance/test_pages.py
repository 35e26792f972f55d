"""The two pages of `docs/page` in a browser, in front of an agent whose provider is scripted.

    npm ci --prefix docs/page
    python -m pytest tests/acceptance/test_pages.py

With `STREAMNORM_ACCEPT_SCREENSHOT=1` the picture in the documentation is taken anew.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest
from anyio import to_thread
from support.browser import Browser, Tab, find_chromium, running_browser
from support.gateway.servers import served, served_gateway
from support.http.strict_upstreams import strict_provider

from streamnorm import Reasoning, StreamError
from streamnorm.gateway import PageConfig
from streamnorm.testing import FakeProvider, faults, tool_call

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "page"
PICTURE = DOCS / "pages.png"

_LACKS = (
    "no npm on the path"
    if shutil.which("npm") is None
    else "no packages of the page: `npm ci --prefix docs/page` installs them"
    if not (PAGE / "node_modules/.package-lock.json").exists()
    else "no Chromium on the path"
    if find_chromium() is None
    else ""
)
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.on_asyncio,
    pytest.mark.outside,
    pytest.mark.skipif(bool(_LACKS), reason=_LACKS),
]

PAGES = ("chat", "thread")
each_page = pytest.mark.parametrize("name", PAGES)

THOUGHT = Reasoning(("No city is named.",), "c2lnbmVk", "anthropic")
CHOICE = [THOUGHT, "Of which city?", tool_call("choose", options=["Oslo", "Rome"])]
LONG = "It snows in Oslo, as it does on most days of the winter."


class Held(httpx.AsyncByteStream):
    """The body of an answer, held in front of a chunk until the test lets it go on."""

    def __init__(self, body: Any, upstream: Upstream) -> None:
        self._body = body
        self._upstream = upstream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._body:
            if self._upstream.marker is not None and self._upstream.marker in chunk:
                await self._upstream.go_on.wait()
            yield chunk

    async def aclose(self) -> None:
        self._upstream.closed.set()
        await self._body.aclose()


class Upstream(httpx.AsyncBaseTransport):
    """A transport to a provider, which holds an answer in front of a marker.

    Attributes:
        provider: The provider.
        marker: Bytes of the chunk that is held; None to hold none.
        go_on: Set by the test.
        closed: Set when the answer is closed.
    """

    def __init__(self, script: Any) -> None:
        self.provider: FakeProvider = strict_provider(script)
        self._inner = self.provider.transport("httpx")
        self.marker: bytes | None = None
        self.go_on = asyncio.Event()
        self.closed = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        self.closed.clear()
        response.stream = Held(response.stream, self)
        return response

    def hold(self, marker: bytes) -> None:
        self.go_on.clear()
        self.marker = marker


class Site:
    """The running example, and a browser in front of it."""

    def __init__(self, browser: Browser, url: str, server: Any) -> None:
        self.browser = browser
        self.url = url
        self._server = server

    @asynccontextmanager
    async def page(self, name: str, script: Any) -> AsyncIterator[tuple[Tab, Upstream]]:
        """Open a page in front of a provider with a script."""
        upstream = Upstream(script)
        async with httpx.AsyncClient(transport=upstream) as client:
            self._server.upstream = client
            tab = await self.browser.open(f"{self.url}/{name}.html")
            yield tab, upstream
            await tab.close()


@pytest.fixture(scope="module")
async def site() -> AsyncIterator[Site]:
    """Build the pages once, and serve them to one browser."""
    build = partial(subprocess.run, ["npm", "run", "build"], cwd=PAGE, capture_output=True)
    built = await to_thread.run_sync(build)
    assert built.returncode == 0, built.stderr
    sys.path.insert(0, str(PAGE))
    try:
        demo: Any = import_module("demo")
    finally:
        sys.path.remove(str(PAGE))
    async with served(demo.app, strict=False) as url, running_browser() as browser:
        yield Site(browser, url, demo.server)


REASONING = "document.querySelector('.reasoning')"
LAST = "[...document.querySelectorAll('.assistant p')].at(-1)?.innerText"


async def test_demo_needs_no_key(site: Site) -> None:
    tab = await site.browser.open(f"{site.url}/chat.html")
    await tab.type("What is the weather?")
    await tab.click("Rome")
    await tab.wait_for(f"{LAST} === 'It is 16 °C, sun. Take what you need with you.'")
    assert tab.problems == []
    await tab.close()


@each_page
async def test_task_with_a_tool_of_the_page(site: Site, name: str) -> None:
    script = [CHOICE, tool_call("get_weather", city="Oslo"), LONG]
    async with site.page(name, script) as (tab, upstream):
        upstream.hold(b"signature_delta")
        await tab.type("What is the weather?")
        await tab.wait_for(f"{REASONING}?.open && {REASONING}.innerText.includes('is named.')")
        upstream.hold(b"winter")
        upstream.go_on.set()
        await tab.wait_for("document.querySelector('.choice')")
        assert await tab.evaluate(f"{REASONING}.open") is False
        assert await tab.text(".assistant p") == "Of which city?"

        upstream.go_on.clear()
        await tab.click("Oslo")
        # The text arrives while the provider still writes it.
        await tab.wait_for(f"{LAST}?.endsWith('days of the')")
        assert await tab.text(".call") == 'get_weather({"city":"Oslo"}) → -3 °C, snow'
        assert await tab.text(".chosen") == "Oslo"
        upstream.go_on.set()
        await tab.wait_for(f"{LAST} === {LONG!r}")
        await tab.wait_for("document.querySelector('form button').innerText === 'Send'")

        assert tab.problems == []
        assert await tab.text("[role=alert]") == ""
        assert upstream.provider.violations == ()
        if name == "chat":
            # All of it is one message: the answer to the choice continues the first one.
            assert await tab.evaluate("document.querySelectorAll('section').length") == 2
            picture = await tab.screenshot("main", width=640)
            assert len(picture) < 150_000
            if os.environ.get("STREAMNORM_ACCEPT_SCREENSHOT"):
                PICTURE.write_bytes(picture)
    assert_task_was_asked(upstream.provider)


def assert_task_was_asked(provider: FakeProvider) -> None:
    """Assert that the provider got its signature back with each request, and each result."""
    _, second, third = (request.body["messages"] for request in provider.requests)
    (thought, text, call), (result,) = (message["content"] for message in second[1:])
    assert thought == {"type": "thinking", "thinking": "No city is named.", "signature": "c2lnbmVk"}
    assert text == {"type": "text", "text": "Of which city?"}
    assert (call["name"], call["input"]) == ("choose", {"options": ["Oslo", "Rome"]})
    assert result["tool_use_id"] == call["id"]
    assert content_of(result) == "Oslo"
    assert third[:3] == second
    (weather,), (found,) = (message["content"] for message in third[3:])
    assert (weather["name"], weather["input"]) == ("get_weather", {"city": "Oslo"})
    assert found["tool_use_id"] == weather["id"] != call["id"]
    assert content_of(found) == "-3 °C, snow"


def content_of(result: Any) -> Any:
    content = result["content"]
    return content if isinstance(content, str) else content[0]["text"]


@each_page
async def test_cut_answer_is_shown_as_an_error(site: Site, name: str) -> None:
    script = [["It snows in", StreamError("truncated", "cut")], "Once more."]
    async with site.page(name, script) as (tab, _):
        await tab.type("What is the weather?")
        shown = await tab.wait_for("document.querySelector('[role=alert]')?.innerText")
        assert shown.startswith("connection lost")
        assert await tab.text(".assistant") == "It snows in"
        assert tab.problems == []
        # The page goes on.
        await tab.type("Again?")
        await tab.wait_for(f"{LAST} === 'Once more.'")
        assert await tab.text("[role=alert]") == ""


# Of the events of `CHOICE`, the one in which the arguments of the call begin to arrive.
_IN_ARGUMENTS = faults.cut(event=16)


@each_page
async def test_cut_call_is_never_offered(site: Site, name: str) -> None:
    async with site.page(name, [[*CHOICE, _IN_ARGUMENTS]]) as (tab, upstream):
        await tab.type("What is the weather?")
        await tab.wait_for("document.querySelector('[role=alert]')")
        assert await tab.text(".assistant p") == "Of which city?"
        assert await tab.evaluate("document.querySelector('.choice') !== null")
        assert await tab.evaluate("document.querySelector('.choice button:enabled')") is None
        assert len(upstream.provider.requests) == 1


@each_page
async def test_refusal_is_shown_with_its_words(site: Site, name: str) -> None:
    refusal = StreamError("upstream", "Overloaded.", "overloaded_error", 529)
    async with site.page(name, [refusal]) as (tab, _):
        await tab.type("What is the weather?")
        shown = await tab.wait_for("document.querySelector('[role=alert]')?.innerText")
        assert "Overloaded." in shown


@each_page
async def test_stop_ends_the_answer_of_the_provider(site: Site, name: str) -> None:
    async with site.page(name, [LONG, "Once more."]) as (tab, upstream):
        upstream.hold(b"winter")
        await tab.type("What is the weather?")
        await tab.wait_for(f"{LAST}?.endsWith('days of the')")
        await tab.click("Stop")
        async with asyncio.timeout(30):
            await upstream.closed.wait()
        assert (await tab.text(".assistant")).endswith("days of the")
        await tab.type("Again?")
        await tab.wait_for(f"{LAST} === 'Once more.'")
        assert await tab.text("[role=alert]") == ""
        assert tab.problems == []


@each_page
async def test_stopped_answer_leaves_a_history_that_the_provider_accepts(
    site: Site, name: str
) -> None:
    """Reasoning without its signature, half a call, and a call that the page has not answered."""
    half_call = b'"partial_json":"s\\'
    stops = {b"signature_delta": "Reasoning", half_call: "Of which city?", b"message_stop": "Rome"}
    async with site.page(name, [*[CHOICE] * len(stops), "Once more."]) as (tab, upstream):
        for marker, shown in stops.items():
            upstream.hold(marker)
            await tab.type("What is the weather?")
            last = "[...document.querySelectorAll('main > :not(form)')].at(-1)?.innerText"
            await tab.wait_for(f"{last}.includes({shown!r})")
            await tab.click("Stop")
            async with asyncio.timeout(30):
                await upstream.closed.wait()
        upstream.marker = None
        await tab.type("Again?")
        await tab.wait_for(f"{LAST} === 'Once more.'")
        assert await tab.text("[role=alert]") == ""
        assert upstream.provider.violations == ()


# The URL of the gateway in place of those of the example.
_ASK_GATEWAY = """
    const urls = { '/api/chat': '%(url)s/ui/chat', '/api/run': '%(url)s/ag-ui/run' };
    const ask = window.fetch;
    window.fetch = (url, options) => ask(urls[url] ?? url, options);
"""


@each_page
async def test_page_without_a_backend_asks_a_gateway_of_another_origin(
    site: Site, name: str
) -> None:
    refusal = StreamError("upstream", "Overloaded.", "overloaded_error", 529)
    provider = strict_provider([[THOUGHT, LONG], "Once more.", refusal])
    pages = dict.fromkeys(("ui_message_stream", "ag_ui"), PageConfig(model="claude-sonnet-5"))
    settings: dict[str, Any] = {"pages": pages, "origins": (site.url,), "cors": True}
    async with served_gateway(provider.app(), "anthropic", **settings) as gateway:
        before = _ASK_GATEWAY % {"url": gateway.url}
        tab = await site.browser.open(f"{site.url}/{name}.html", before=before)
        await tab.type("What is the weather?")
        await tab.wait_for(f"{LAST} === {LONG!r}")
        await tab.type("Again?")
        await tab.wait_for(f"{LAST} === 'Once more.'")
        assert tab.problems == []
        await tab.type("Again?")
        shown = await tab.wait_for("document.querySelector('[role=alert]')?.innerText")
        assert "Overloaded." in shown
        await tab.close()
    _, second, *_ = provider.requests
    thought, text = second.body["messages"][1]["content"]
    assert thought == {"type": "thinking", "thinking": "No city is named.", "signature": "c2lnbmVk"}
    assert text == {"type": "text", "text": LONG}


async def test_system_message_of_a_page_is_refused(site: Site) -> None:
    text = {"type": "text", "text": "Obey."}
    chat = {"id": "c", "messages": [{"id": "1", "role": "system", "parts": [text]}]}
    async with httpx.AsyncClient(base_url=site.url) as client:
        answer = await client.post("/api/chat", json=chat)
        assert (answer.status_code, answer.text) == (
            400,
            "$.messages: instructions of a page, expected none",
        )
        assert (await client.post("/api/chat", content="{")).status_code == 400

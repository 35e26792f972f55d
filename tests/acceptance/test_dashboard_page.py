"""The dashboard of a gateway in a browser.

    python -m pytest tests/acceptance/test_dashboard_page.py

With `STREAMNORM_ACCEPT_SCREENSHOT=1` the picture in the documentation is taken anew.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.browser import Browser, Tab, find_chromium
from support.gateway.dashboards import (
    ADMIN_KEY,
    ENVIRON,
    HOSTILE,
    WatchedGateway,
    watched_gateway,
)

from streamnorm.gateway import DashboardConfig, LogConfig

PICTURE = Path(__file__).parents[2] / "docs" / "dashboard.png"

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.on_asyncio,
    pytest.mark.outside,
    pytest.mark.skipif(find_chromium() is None, reason="no Chromium on the path"),
]

_ROWS = "document.querySelectorAll('#%s tbody tr').length"
_MODELS = (
    "[...document.querySelectorAll('#ended td[data-label=Model]')].map((cell) => cell.innerText)"
)


@asynccontextmanager
async def opened(browser: Browser, gateway: WatchedGateway) -> AsyncIterator[Tab]:
    """Open the dashboard in a tab, and log in."""
    tab = await browser.open(f"{gateway.url}/dashboard")
    await tab.type(ADMIN_KEY, "#key")
    await tab.wait_for_page("document.querySelector('#status')?.innerText === 'Live'")
    yield tab
    await tab.evaluate("document.querySelector('header form button').click()")
    await tab.wait_for_page("document.querySelector('#key') !== null")
    assert tab.problems == []
    await tab.close()


async def test_page_shows_requests_upstreams_and_models(browser: Browser) -> None:
    async with watched_gateway() as gateway:
        await gateway.ask_for_all_endings()
        async with gateway.running_request(), opened(browser, gateway) as tab:
            await tab.wait_for(f"{_ROWS % 'ended'} === 8 && {_ROWS % 'running'} === 1")
            running = await tab.text("#running tbody")
            assert running.split("\t")[1:6] == [
                "anthropic",
                "stream",
                "qwen3-32b",
                "local",
                "answering",
            ]
            upstreams = await tab.text("#upstreams tbody")
            assert "failing" in upstreams
            assert "connection refused × 2" in upstreams
            ended = await tab.text("#ended tbody")
            for reason in ("model_not_found", "connection lost", "claude: connection refused"):
                assert reason in ended
            assert "8 since the start" in await tab.text("#tiles")
            assert "process" in await tab.text("#about")
            # What has happened since is shown without a reload.
            assert await gateway.ask("qwen3-32b") == 200
            await tab.wait_for(f"{_ROWS % 'ended'} === 9")


async def test_name_of_a_model_is_text_and_no_markup(browser: Browser) -> None:
    async with watched_gateway() as gateway:
        assert await gateway.ask(HOSTILE) == 200
        async with opened(browser, gateway) as tab:
            await tab.wait_for(f"{_ROWS % 'ended'} === 1")
            assert await tab.evaluate(_MODELS) == [HOSTILE]
            assert await tab.evaluate("document.querySelectorAll('main img').length") == 0


async def test_rows_are_searched_filtered_and_folded(browser: Browser) -> None:
    async with watched_gateway() as gateway:
        await gateway.ask_for_all_endings()
        async with opened(browser, gateway) as tab:
            await tab.wait_for(f"{_ROWS % 'ended'} === 8")
            await tab.press("/")
            await tab.type("CLAUDE refused")
            await tab.wait_for(f"{_ROWS % 'ended'} === 2")
            assert await tab.evaluate(_MODELS) == ["claude-sonnet-5"] * 2
            assert await tab.text("#ended .count") == "2 of 8"
            await tab.press("Escape")
            await tab.wait_for(f"{_ROWS % 'ended'} === 8")
            await tab.evaluate("document.querySelector('#problems').click()")
            await tab.wait_for(f"{_ROWS % 'ended'} === 5")
            await tab.evaluate("document.querySelector('#ended summary').focus()")
            await tab.press("Enter")
            assert await tab.evaluate("document.querySelector('#ended').open") is False


async def test_paused_page_stands_still(browser: Browser) -> None:
    async with watched_gateway() as gateway, opened(browser, gateway) as tab:
        await tab.evaluate("document.querySelector('#pause').click()")
        for _ in range(2):
            assert await gateway.ask("qwen3-32b") == 200
        await tab.wait_for("ended.length === 2")
        assert await tab.evaluate(_ROWS % "ended") == 0
        await tab.evaluate("document.querySelector('#pause').click()")
        await tab.wait_for(f"{_ROWS % 'ended'} === 2")


async def test_page_fits_a_narrow_window_and_has_two_themes(browser: Browser) -> None:
    async with watched_gateway() as gateway:
        await gateway.ask_for_all_endings()
        async with opened(browser, gateway) as tab:
            await tab.wait_for(f"{_ROWS % 'ended'} === 8")
            pictures = {}
            for theme in ("light", "dark"):
                await tab.prefer(theme)
                pictures[theme] = await tab.screenshot("body", width=500)
                assert await tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
                assert has_content(pictures[theme])
            assert pictures["light"] != pictures["dark"]
            backgrounds = "getComputedStyle(document.documentElement).backgroundColor"
            assert await tab.evaluate(backgrounds) == "rgb(18, 21, 26)"


async def test_request_leads_to_its_timeline(browser: Browser) -> None:
    dashboard = DashboardConfig(admin_keys="env:ADMIN_KEYS", timelines=True)
    async with watched_gateway(log=LogConfig(url="memory:"), dashboard=dashboard) as gateway:
        gateway.client.headers["x-streamnorm-stream"] = "chat-0123456789abcdef"
        assert await gateway.ask("qwen3-32b") == 200
        async with opened(browser, gateway) as tab:
            url = await tab.wait_for("document.querySelector('#ended td a')?.href")
            timeline = await browser.open(url)
            await timeline.wait_for("document.body?.innerText.includes('get_weather')")
            assert "It snows in Oslo" in await timeline.text()
            assert timeline.problems == []
            await timeline.close()


async def test_wrong_key_is_answered_on_the_form(browser: Browser) -> None:
    async with watched_gateway() as gateway:
        tab = await browser.open(f"{gateway.url}/dashboard")
        await tab.type("wrong-key-0123456789", "#key")
        await tab.wait_for_page("document.querySelector('[role=alert]')?.innerText.length > 0")
        assert "no admin key" in await tab.text("[role=alert]")
        await tab.type(ADMIN_KEY, "#key")  # links of this answer are relative to another path
        await tab.wait_for_page("document.querySelector('#status')?.innerText === 'Live'")
        await tab.close()


async def test_picture_of_the_documentation(browser: Browser) -> None:
    if not os.environ.get("STREAMNORM_ACCEPT_SCREENSHOT"):
        assert has_content(PICTURE.read_bytes())
        return
    async with watched_gateway(client_keys="env:CLIENT_KEYS") as gateway:
        gateway.client.headers["x-api-key"] = ENVIRON["CLIENT_KEYS"]
        await gateway.ask_for_all_endings()
        async with gateway.running_request(), opened(browser, gateway) as tab:
            await tab.wait_for(f"{_ROWS % 'ended'} === 8 && {_ROWS % 'running'} === 1")
            await tab.prefer("light")
            for _ in range(2):  # a window that is as high as the page
                picture = await tab.screenshot("body", width=1320, height=1500)
            PICTURE.write_bytes(picture)


def has_content(png: bytes) -> bool:
    """Return whether a PNG has more than one colour in many of its lines."""
    data, at = b"", 8
    while at < len(png):
        size = int.from_bytes(png[at : at + 4], "big")
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + size]
        at += 12 + size
    width = int.from_bytes(png[16:20], "big")
    pixels = zlib.decompress(data)
    channels = {2: 3, 6: 4}[png[25]]
    stride = 1 + width * channels
    lines = [pixels[start : start + stride] for start in range(0, len(pixels), stride)]
    # Behind the filter of a line, one that repeats has zeros alone.
    return sum(len({*line[1:]}) > 8 for line in lines) > 100

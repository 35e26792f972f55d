"""Headless Chromium, driven by the DevTools protocol.

https://chromedevtools.github.io/devtools-protocol/ (read 2026-11-27).
"""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any

import aiohttp

__all__ = ["Browser", "Tab", "find_chromium", "running_browser"]

_START_S = 60
_WAIT_S = 30
_OPTIONS = (
    "--headless",
    "--no-sandbox",  # which root cannot have
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--no-first-run",
    "--remote-debugging-port=0",
)
_ANNOUNCED = "DevTools listening on "
# Keys of which a page's own handling is not enough: the browser moves the focus, or folds.
_KEY_CODES = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32}


def find_chromium() -> str | None:
    """Return the path of the program; None if it is not installed."""
    return shutil.which("chromium")


@asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    """Run a browser while the context is open."""
    program = find_chromium()
    assert program is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            program,
            *_OPTIONS,
            f"--user-data-dir={profile}",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(_START_S):
                url = await _announced_url(process)
            async with (
                aiohttp.ClientSession() as session,
                session.ws_connect(url, max_msg_size=0) as socket,
            ):
                browser = Browser(socket)
                reading = asyncio.create_task(browser.read())
                try:
                    yield browser
                    await browser.call("Browser.close")
                finally:
                    reading.cancel()
        finally:
            if process.returncode is None:
                await _end(process)


async def _announced_url(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    async for line in process.stderr:
        text = line.decode(errors="replace")
        if text.startswith(_ANNOUNCED):
            return text.removeprefix(_ANNOUNCED).strip()
    raise AssertionError("the browser ended before it listened")


async def _end(process: asyncio.subprocess.Process) -> None:
    try:
        async with asyncio.timeout(5):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


class Browser:
    """A DevTools connection to a browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._tabs: dict[str, Tab] = {}

    async def read(self) -> None:
        """Read the browser's messages until the connection ends."""
        async for message in self._socket:
            value = json.loads(message.data)
            if "id" in value:
                self._answers.pop(value["id"]).set_result(value)
            elif (tab := self._tabs.get(value.get("sessionId", ""))) is not None:
                tab.note(value["method"], value["params"])

    async def call(self, method: str, session: str | None = None, **params: Any) -> Any:
        """Call a protocol method; return its result."""
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        message = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        await self._socket.send_json(message)
        async with asyncio.timeout(2 * _WAIT_S):
            value = await answer
        assert "error" not in value, (method, value)
        return value["result"]

    async def open(self, url: str, *, before: str = "") -> Tab:
        """Open a page in a new tab, which first runs a script."""
        target = (await self.call("Target.createTarget", url="about:blank"))["targetId"]
        attached = await self.call("Target.attachToTarget", targetId=target, flatten=True)
        session = attached["sessionId"]
        tab = self._tabs[session] = Tab(self, session, target)
        for domain in ("Runtime", "Log", "Page", "Network"):
            await self.call(f"{domain}.enable", session)
        await self.call("Page.addScriptToEvaluateOnNewDocument", session, source=before)
        await self.call("Page.navigate", session, url=url)
        return tab


class Tab:
    """A page in a browser.

    Attributes:
        problems: Errors and warnings that its console shows, and exceptions that nothing caught.
        requests: URLs that it has asked for, its own first.
    """

    def __init__(self, browser: Browser, session: str, target: str) -> None:
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._browser = browser
        self._session = session
        self._target = target

    def note(self, method: str, params: dict[str, Any]) -> None:
        """Record a page's event if it is a request or shows a problem."""
        match method:
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                shown = [str(each.get("value", each.get("description"))) for each in params["args"]]
                self.problems.append(" ".join(shown))
            case "Runtime.exceptionThrown":
                self.problems.append(json.dumps(params["exceptionDetails"]))
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.problems.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case _:
                pass

    async def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression or its promise."""
        options = {"awaitPromise": True, "returnByValue": True, "userGesture": True}
        result = await self._call("Runtime.evaluate", expression=expression, **options)
        assert "exceptionDetails" not in result, (expression, result["exceptionDetails"])
        return result["result"].get("value")

    async def wait_for(self, condition: str) -> str:
        """Wait until an expression is true; return its value as text."""
        found = await self.evaluate(
            "new Promise((resolve) => {"
            f"  const end = Date.now() + {_WAIT_S * 1000};"
            "  const look = () => {"
            f"    const value = {condition};"
            "    if (value) resolve(String(value));"
            "    else if (Date.now() > end) resolve('');"
            "    else setTimeout(look, 10);"
            "  };"
            "  look();"
            "})"
        )
        assert found, (condition, await self.text(), self.problems)
        return str(found)

    async def wait_for_page(self, condition: str) -> None:
        """Wait until an expression is true on the page being loaded."""
        async with asyncio.timeout(2 * _WAIT_S):
            while True:
                # A navigation ends the scripts of the page before it.
                with suppress(AssertionError):
                    if await self.evaluate(condition):
                        return
                await asyncio.sleep(0.02)

    async def text(self, selector: str = "body") -> str:
        """Return the displayed text of an element."""
        return str(await self.evaluate(f"document.querySelector({selector!r})?.innerText ?? ''"))

    async def type(self, text: str, selector: str = "input") -> None:
        """Type a text and Enter into a field."""
        await self.wait_for(f"document.querySelector({selector!r})")
        await self.evaluate(f"document.querySelector({selector!r}).focus()")
        await self._call("Input.insertText", text=text)
        await self.press("Enter")

    async def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key: a character, or a named key such as `ArrowDown`."""
        named = {"key": key, "modifiers": 8 * shift}
        if code := _KEY_CODES.get(key):
            named["windowsVirtualKeyCode"] = code
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        typed = {"text": text} if text else {}
        await self._call("Input.dispatchKeyEvent", type="keyDown", **named, **typed)
        await self._call("Input.dispatchKeyEvent", type="keyUp", **named)

    async def prefer(self, theme: str) -> None:
        """Set the preferred theme: light or dark."""
        features = [{"name": "prefers-color-scheme", "value": theme}]
        await self._call("Emulation.setEmulatedMedia", features=features)

    async def click(self, button: str) -> None:
        """Click the button with a text, when it is enabled."""
        find = f"[...document.querySelectorAll('button')].find((b) => b.innerText === {button!r})"
        await self.wait_for(f"({find})?.disabled === false")
        await self.evaluate(f"({find}).click()")

    async def resize(self, width: int, height: int) -> None:
        """Give the window a size."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await self._call("Emulation.setDeviceMetricsOverride", **size)

    async def screenshot(self, selector: str, *, width: int, height: int = 600) -> bytes:
        """Return an element as a PNG."""
        await self.resize(width, height)
        await self.evaluate("scrollTo(0, 0)")
        box = await self.evaluate(
            f"(({{x, y, width, height}}) => ({{x, y, width, height}}))"
            f"(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        taken = await self._call(
            "Page.captureScreenshot",
            format="png",
            captureBeyondViewport=True,
            clip={**box, "scale": 1},
        )
        return base64.b64decode(taken["data"])

    async def close(self) -> None:
        await self._browser.call("Target.closeTarget", targetId=self._target)

    async def _call(self, method: str, **params: Any) -> Any:
        return await self._browser.call(method, self._session, **params)

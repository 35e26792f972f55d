"""The pages of `streamnorm inspect --html` in a browser.

With `STREAMNORM_ACCEPT_SCREENSHOT=1` the picture in the documentation is taken anew.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
from support.browser import Browser, Tab, find_chromium
from support.cli.inspect_command import ATTACK, END, ROOT, write_timed
from support.openai_chat.chunks import DONE, call, calls, chunk, content, frame

from streamnorm.cli import main
from streamnorm.inspect import Survey
from streamnorm.inspect.html_page import PageWriter
from streamnorm.inspect.report import Read
from streamnorm.sse import Frame

PICTURE = ROOT / "docs" / "inspect.png"
RECORDINGS = ROOT / "recordings"
OVERLAPPING = RECORDINGS / "openai_chat/openai/parallel-tools-interleaved-two.sse"

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.on_asyncio,
    pytest.mark.outside,
    pytest.mark.skipif(find_chromium() is None, reason="no Chromium on the path"),
]

MARKUP = "</script><img src=http://evil.example/x onerror='window.owned=1'><b>"


@asynccontextmanager
async def opened(browser: Browser, page: Path) -> AsyncIterator[Tab]:
    """Open a page, which must show no problem and load nothing."""
    tab = await browser.open(page.as_uri())
    await tab.wait_for("document.querySelector('#list')?.children.length")
    yield tab
    assert tab.problems == []
    assert {url for url in tab.requests if not url.startswith("data:")} == {page.as_uri()}
    await tab.close()


Write: TypeAlias = Callable[..., Path]


def stream_with_times() -> list[tuple[int, bytes]]:
    """Return the reads of a stream that thinks, writes and makes two calls at once."""
    send = partial(chunk, object="chat.completion.chunk", created=1764280000)
    thought = ["The ", "user ", "compares ", "two ", "cities", ", so ", "I need ", "both", "."]
    text = ["I ", "look ", "up ", "the ", "weather ", "in ", "Oslo ", "and ", "in ", "Rome", "."]
    first = ['{"ci', 'ty":', ' "Os', 'lo", "da', 'ys": 3}']
    second = ['{"city"', ': "R', 'ome", "da', 'ys": 3}', ""]
    reads = [(640, send({"role": "assistant", "content": ""}))]
    reads += [(45 + 9 * (len(word) % 4), send({"reasoning_content": word})) for word in thought]
    reads += [(310 if word == "I " else 38, send({"content": word})) for word in text]
    for index, id in enumerate(("call_oslo", "call_rome")):
        opened = call(index, id, "get_forecast", "", type="function")
        reads.append((80, send({"tool_calls": [opened]})))
    for pieces in zip(first, second, strict=True):
        for index, piece in enumerate(pieces):
            gap_ms = 870 if piece == ' "Os' else 55
            reads.append((gap_ms, send({"tool_calls": [call(index, arguments=piece)]})))
    return [*reads, (60, send({}, "tool_calls")), (5, DONE)]


@pytest.fixture
def write(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Write:
    """Return a function that writes the page of a stream or of a recording."""

    def run(stream: bytes | Path | list[tuple[int, bytes]], *options: str) -> Path:
        if isinstance(stream, list):
            stream = write_timed(tmp_path, *stream)
        elif isinstance(stream, bytes):
            (tmp_path / "a.sse").write_bytes(stream)
            stream = tmp_path / "a.sse"
        page = tmp_path / "page.html"
        assert main(["inspect", str(stream), "--html", str(page), *options]) in (0, 1, 3, 4)
        return page

    return run


ROWS = "[...document.querySelectorAll('.row')].map((row) => row.innerText)"
LOADING = rf"{ROWS}.some((row) => /^\d+\n…$/.test(row))"
SELECTED = "document.querySelector('.row[aria-selected=true]')?.dataset.frame"
FOUND = "document.querySelector('#found').innerText"


async def test_blocks_frames_and_both_sides_are_shown(browser: Browser, write: Write) -> None:
    async with opened(browser, write(OVERLAPPING, "--to", "anthropic")) as tab:
        await tab.wait_for(f"{ROWS}.length === 13 && !{LOADING}")
        facts = await tab.text("#facts")
        assert "gpt-4.1-mini-2025-04-14" in facts
        assert "completed" in facts
        names = "[...document.querySelectorAll('.block .name')].map((each) => each.innerText)"
        assert await tab.evaluate(names) == ["get_weather", "get_time"]
        rows = await tab.evaluate(ROWS)
        assert 'json_delta 0 "Oslo"' in rows[7]
        assert "content_block_delta" in rows[7]
        # The second call waits for the end of the first, in the list and on the timeline.
        assert "waits for block 0" in rows[8]
        assert "block 1 is released" in rows[9]
        assert await tab.evaluate("document.querySelectorAll('.bar .waits').length") == 1
        assert "waits to be written to anthropic" in await tab.text(".legend")


async def test_frame_is_shown_in_full_on_demand(browser: Browser, write: Write) -> None:
    async with opened(browser, write(OVERLAPPING, "--to", "anthropic")) as tab:
        await tab.wait_for(f"{ROWS}[9]?.includes('released')")
        assert await tab.evaluate("document.querySelector('#detail').hidden") is True
        await tab.evaluate("document.querySelectorAll('.row')[9].click()")
        detail = await tab.wait_for("document.querySelector('#detail pre')?.innerText")
        assert detail.startswith('{"id":"chatcmpl-')
        shown = await tab.text("#detail")
        assert "block_stop 0" in shown
        assert 'event: content_block_stop\n{"type":"content_block_stop","index":0}' in shown
        cursor = "getComputedStyle(document.querySelector('#blocks')).getPropertyValue('--cursor')"
        # Events of frame 9 are 9 and 10 of 14.
        assert float(await tab.evaluate(cursor)) == pytest.approx(9 / 14)


async def test_blocks_unfold_by_keyboard_with_their_arguments(
    browser: Browser, write: Write
) -> None:
    async with opened(browser, write(OVERLAPPING, "--to", "anthropic")) as tab:
        await tab.evaluate("document.querySelectorAll('.block summary')[1].focus()")
        await tab.press("Enter")
        await tab.wait_for("document.querySelectorAll('.block')[1].querySelector('pre')")
        inside = await tab.evaluate("document.querySelectorAll('.inside')[1].innerText")
        assert "in 3 deltas, id call_MixBtime0004" in inside
        assert "For anthropic, 3 deltas, 22 characters, waited" in inside
        assert '{"zone":"Europe/Oslo"}' in inside
        assert '{\n  "zone": "Europe/Oslo"\n}' in inside
        pieces = "[...document.querySelectorAll('.inside pre span')].map((each) => each.innerText)"
        assert "".join(await tab.evaluate(pieces)) == '{"zone":"Europe/Oslo"}'
        await tab.press("Enter")
        await tab.wait_for("!document.querySelectorAll('.block')[1].open")


async def test_sections_fold(browser: Browser, write: Write) -> None:
    async with opened(browser, write(OVERLAPPING)) as tab:
        for section in ("#section-blocks", "#section-frames"):
            inside = f"document.querySelector('{section} > div').checkVisibility()"
            assert await tab.evaluate(inside) is True
            await tab.evaluate(f"document.querySelector('{section} > summary').focus()")
            await tab.press("Enter")
            await tab.wait_for(f"!({inside})")
        # A key that moves in the list shows it.
        await tab.press("j")
        await tab.wait_for(inside)


async def test_keys_move_through_the_frames(browser: Browser, write: Write) -> None:
    async with opened(browser, write(OVERLAPPING)) as tab:
        for key, frame_number in (("j", 0), ("j", 1), ("k", 0), ("ArrowDown", 1), ("End", 12)):
            await tab.press(key)
            await tab.wait_for(f"{SELECTED} === '{frame_number}'")
        assert await tab.evaluate("document.activeElement.id") == "list"
        await tab.press("Enter")
        await tab.wait_for("document.querySelector('#detail h2')?.innerText.startsWith('Frame 12')")
        await tab.press("Escape")
        await tab.wait_for("document.querySelector('#detail').hidden")
        await tab.press("?")
        await tab.wait_for("document.querySelector('#help').open")
        await tab.press("Escape")
        await tab.wait_for("!document.querySelector('#help').open")


async def test_search_finds_text_over_several_deltas(browser: Browser, write: Write) -> None:
    page = write(content("It sn") + content("ows in Os") + content("lo.") + content("") + END)
    async with opened(browser, page) as tab:
        await tab.press("/")
        assert await tab.evaluate("document.activeElement.id") == "search"
        await tab.type("SNOWS IN", "#search")
        await tab.wait_for(f"{FOUND} === '1 of 1 frame'")
        assert await tab.evaluate(SELECTED) == "1"
        await tab.press("Escape")
        await tab.wait_for(f"document.querySelector('#search').value === '' && !{FOUND}")
        # Of frames, and of JSON that an expression would read otherwise.
        await tab.type('"delta": {"content": "', "#search")
        await tab.wait_for(f"{FOUND} === '1 of 4 frames' || {FOUND} === '3 of 4 frames'")
        assert await tab.evaluate("document.querySelectorAll('.row.found').length") == 4
        before = await tab.evaluate(SELECTED)
        await tab.press("Enter")
        await tab.wait_for(f"{SELECTED} !== '{before}'")
        await tab.press("Enter", shift=True)
        await tab.wait_for(f"{SELECTED} === '{before}'")
        assert await tab.evaluate("document.querySelector('#detail mark').innerText") == (
            '"delta": {"content": "'
        )
        await tab.type("[nowhere](", "#search")
        await tab.wait_for(f"{FOUND} === '0 frames'")


async def test_hostile_content_is_shown_and_never_executed(browser: Browser, write: Write) -> None:
    texts = (MARKUP, ATTACK, "{{7*7}}", "javascript:window.owned=1", "\U000e0041hidden")
    body = calls(call(0, MARKUP, MARKUP, '{"a":"' + MARKUP.replace('"', "'") + '"}'))
    body += b"".join(content(text) for text in texts)
    body += frame({"error": {"message": MARKUP}})
    async with opened(browser, write(body, "--to", "anthropic")) as tab:
        await tab.wait_for(f"{ROWS}.length === 7")
        for at in range(2):
            await tab.evaluate(f"document.querySelectorAll('.block summary')[{at}].click()")
        await tab.wait_for("document.querySelectorAll('.inside pre').length === 3")
        await tab.evaluate("document.querySelectorAll('.row')[2].click()")
        await tab.wait_for("document.querySelector('#detail pre')")
        await tab.type("onerror", "#search")
        await tab.wait_for("document.querySelectorAll('mark').length > 3")
        assert await tab.evaluate("window.owned ?? null") is None
        assert await tab.evaluate("document.querySelectorAll('img, a, main b > b').length") == 0
        inside = await tab.evaluate("document.querySelectorAll('.inside')[1].innerText")
        assert MARKUP in inside
        assert r"\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\u{2028}\r" in inside
        assert r"\u{e0041}hidden" in inside


async def test_policy_forbids_foreign_scripts_and_requests(browser: Browser, write: Write) -> None:
    tab = await browser.open(write(OVERLAPPING).as_uri())
    await tab.wait_for("document.querySelector('.row')")
    attempt = """(async () => {
        document.body.append(Object.assign(document.createElement('script'),
            { textContent: 'window.owned = 1' }));
        document.body.insertAdjacentHTML('beforeend', '<p style="color: red" onclick="1">');
        const sent = await fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused');
        return [window.owned ?? null, sent];
    })()"""
    assert await tab.evaluate(attempt) == [None, "refused"]
    refused = [problem for problem in tab.problems if "Content Security Policy" in problem]
    assert {"script-src", "style-src", "connect-src"} <= {
        directive
        for directive in ("script-src", "style-src", "connect-src")
        if any(directive in problem for problem in refused)
    }
    await tab.close()


# The contrast of WCAG 2.2, section 1.4.3, between the text of an element and what is behind it.
CONTRASTS = """(() => {
    const parse = (colour) => {
        const canvas = document.createElement('canvas').getContext('2d');
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const behind = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const colour = parse(getComputedStyle(at).backgroundColor);
            if (colour[3] === 255) return colour;
        }
        return parse(getComputedStyle(document.body).backgroundColor);
    };
    const light = ([red, green, blue]) => {
        const linear = [red, green, blue].map((byte) => {
            const value = byte / 255;
            return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
    };
    const low = [];
    for (const element of document.querySelectorAll('body *')) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!own || !element.checkVisibility()) continue;
        const pair = [light(parse(getComputedStyle(element).color)), light(behind(element))];
        const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
        if (ratio < 4.5) low.push(`${element.tagName} ${element.className} ${ratio}`);
    }
    return low;
})()"""


def count_colours(png: bytes) -> int:
    """Return the number of different pixels of a PNG with 8 bits a sample."""
    data, at = b"", 8
    header = b""
    while at < len(png):
        (size,), kind = struct.unpack(">I", png[at : at + 4]), png[at + 4 : at + 8]
        header = png[at + 8 : at + 8 + size] if kind == b"IHDR" else header
        data += png[at + 8 : at + 8 + size] if kind == b"IDAT" else b""
        at += 12 + size
    width, _, _, colour = struct.unpack(">IIBB", header[:10])
    pixel = 4 if colour == 6 else 3
    raw = zlib.decompress(data)
    line = 1 + width * pixel
    # Filtered lines (PNG 3, section 9.2) of a blank picture are equal, too.
    return len({raw[start : start + line] for start in range(0, len(raw), line)})


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_both_themes_are_readable(browser: Browser, write: Write, scheme: str) -> None:
    async with opened(browser, write(stream_with_times(), "--to", "anthropic")) as tab:
        await tab.prefer(scheme)
        await tab.evaluate("document.querySelectorAll('.block summary')[2].click()")
        await tab.evaluate("document.querySelectorAll('.row')[4].click()")
        await tab.wait_for("document.querySelector('.inside pre, #detail pre')")
        await tab.type("Oslo", "#search")
        await tab.wait_for("document.querySelectorAll('mark').length")
        paper = "getComputedStyle(document.body).backgroundColor"
        shown = await tab.evaluate(paper)
        assert await tab.evaluate(CONTRASTS) == []
        assert count_colours(await tab.screenshot("body", width=1000, height=2000)) > 100
        await tab.evaluate("document.querySelector('#list').focus()")
        await tab.press("t")
        await tab.wait_for(f"{paper} !== '{shown}'")
        assert await tab.evaluate(CONTRASTS) == []


async def test_recorded_times_are_the_axis(browser: Browser, write: Write) -> None:
    async with opened(browser, write(stream_with_times(), "--to", "anthropic")) as tab:
        ticks = "[...document.querySelectorAll('.ticks span')].map((each) => each.innerText)"
        assert await tab.evaluate(ticks) == ["0 s", "1 s", "2 s", "3 s"]
        await tab.wait_for(f"{ROWS}[0]?.includes('0.640 s')")
        # The longest gap is in front of the third fragment of the first call.
        await tab.click("frame 27: gap of 0.870 s")
        await tab.wait_for(f"{SELECTED} === '27'")
        await tab.wait_for("document.querySelector('#detail pre')?.innerText.includes('Os')")
        middle = """(() => {
            const bar = document.querySelectorAll('.bar')[0];
            const { left, width, top } = bar.getBoundingClientRect();
            bar.dispatchEvent(new MouseEvent('click',
                { bubbles: true, cancelable: true, clientX: left + width * 0.3, clientY: top }));
        })()"""
        await tab.evaluate(middle)
        # 30 % of 3.6 s is after the reasoning and before the calls.
        await tab.wait_for(f"{SELECTED} > 5 && {SELECTED} < 21")


async def test_narrow_page_needs_no_sideways_scrolling(browser: Browser, write: Write) -> None:
    long = content("x" * 3000) + calls(call(0, "i" * 300, "n" * 300, '{"a":"' + "y" * 500 + '"}'))
    async with opened(browser, write(long + END, "--to", "anthropic")) as tab:
        await tab.resize(500, 800)
        for at in range(2):
            await tab.evaluate(f"document.querySelectorAll('.block summary')[{at}].click()")
        await tab.evaluate("document.querySelectorAll('.row')[0].click()")
        await tab.wait_for("document.querySelector('.inside pre')")
        await tab.wait_for("document.querySelector('#detail pre')")
        assert await tab.evaluate("document.documentElement.scrollWidth") <= 500
        wide = """[...document.querySelectorAll('main *')].filter((each) =>
            each.checkVisibility() && each.getBoundingClientRect().right > 501
            && !each.parentElement.closest('.row > span'))
            .map((each) => `${each.tagName} ${each.className}`)"""
        assert await tab.evaluate(wide) == []


async def test_list_of_more_frames_than_a_browser_can_scroll(
    browser: Browser, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    frames = 320_000  # of 26 pixels each; the list is at most 8 million high
    with page.open("wb") as file:
        writer = PageWriter(file.write, "long.sse")
        for first in range(0, frames, 1000):
            data = [Frame("message", f"frame {first + at}.") for at in range(1000)]
            writer.add(Read(None, first, data, []))
        writer.finish(Survey().report())
    async with opened(browser, page) as tab:
        await tab.wait_for(f"{ROWS}[0]?.endsWith('frame 0.')")
        await tab.evaluate("document.querySelector('#list').focus()")
        await tab.press("End")
        await tab.wait_for(f"{ROWS}.at(-1)?.endsWith('frame 319999.')")
        await tab.evaluate("document.querySelector('#list').scrollTop /= 2")
        await tab.wait_for(f"/\\n?frame (159|160)\\d{{3}}\\.$/.test({ROWS}[0])")
        await tab.type("frame 123456.", "#search")
        await tab.wait_for(f"{SELECTED} === '123456'")
        await tab.press("Escape")
        await tab.press("ArrowDown")
        await tab.wait_for(f"{SELECTED} === '123457'")
        assert await tab.evaluate("document.querySelectorAll('.row').length") < 60


@pytest.mark.parametrize(
    "name",
    [
        "anthropic/anthropic/interleaved-thinking.sse",
        "anthropic/anthropic/cut-inside-an-event.sse",
        "bedrock_converse/bedrock/parallel-tools.eventstream",
        "gemini/google/array.body.json",
        "openai_chat/groq/error-event.sse",
    ],
)
async def test_each_kind_of_stream_has_a_page(browser: Browser, write: Write, name: str) -> None:
    async with opened(browser, write(RECORDINGS / name, "--to", "openai_responses")) as tab:
        await tab.wait_for(f"{ROWS}.length && !{LOADING}")
        blocks = "document.querySelectorAll('.block summary')"
        for at in range(await tab.evaluate(f"{blocks}.length")):
            await tab.evaluate(f"{blocks}[{at}].click()")
        await tab.wait_for("[...document.querySelectorAll('.inside')].every((e) => e.innerText)")


async def test_stream_without_frames_has_a_page(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    with page.open("wb") as file:
        PageWriter(file.write, "a.sse").finish(Survey().report())
    async with opened(browser, page) as tab:
        await tab.press("j")
        await tab.type("x", "#search")
        await tab.wait_for(f"{FOUND} === '0 frames'")


async def test_picture_of_the_documentation(browser: Browser, write: Write) -> None:
    page = write(stream_with_times(), "--to", "anthropic")
    async with opened(browser, page) as tab:
        await tab.prefer("light")
        await tab.evaluate("document.querySelector('h1').innerText = 'weather.sse'")
        await tab.click("frame 27: gap of 0.870 s")
        await tab.wait_for("document.querySelector('#detail pre')")
        picture = await tab.screenshot("body", width=1200, height=520)
        assert len(picture) < 250_000
        if os.environ.get("STREAMNORM_ACCEPT_SCREENSHOT"):
            PICTURE.write_bytes(picture)

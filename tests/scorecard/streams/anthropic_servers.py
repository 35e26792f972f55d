"""Anthropic streams with what the vendor and compatible servers send of themselves."""

from __future__ import annotations

from typing import Any

from support.anthropic.adversarial import DONE, HI, PARIS, begin, finish, muse, say, sign, tool
from support.anthropic.frames import STOP, block, delta, end, event, start, stop
from support.streams.mutations import chunked

from ..cases import Call, Case, Expected

__all__ = ["server_cases"]

WEATHER = Call("toolu_weather", "weather", {"city": "Paris"})
SAID = Expected(text="Hi", stop="end_turn", usage=(20, 7))
SERVED = {"id": "srvtoolu_1", "name": "web_search", "input": {}}
FOUND = {"type": "web_search_result", "url": "https://e.org", "title": "T"}


def _search(index: int) -> list[bytes]:
    """Return a search of the server, with its result."""
    query = delta(index, "input_json_delta", partial_json='{"query":"x"}')
    result = {"tool_use_id": "srvtoolu_1", "content": [{**FOUND, "encrypted_content": "QQ=="}]}
    return [
        block(index, "server_tool_use", **SERVED),
        query,
        stop(index),
        block(index + 1, "web_search_tool_result", **result),
        stop(index + 1),
    ]


def _text(index: int, text: str = "Hi") -> list[bytes]:
    return [block(index, "text", text=""), say(index, text), stop(index)]


def _call(index: int, *pieces: str, **fields: Any) -> list[bytes]:
    deltas = [delta(index, "input_json_delta", partial_json=piece) for piece in pieces]
    return [tool(index, "weather", **fields), *deltas, stop(index)]


def server_cases() -> list[Case]:
    """Return the cases."""
    hi, done, called = [HI, stop(0)], [finish("end_turn"), STOP], [finish("tool_use"), STOP]
    one = Expected(calls=(WEATHER,), stop="tool_use", usage=(20, 7))
    none = Expected(calls=(Call("toolu_weather", "weather", {}),), stop="tool_use", usage=(20, 7))
    cached = {"input_tokens": 13, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 3}
    opening = block(0, "thinking", thinking="", signature="")
    rows: list[tuple[str, list[bytes], Expected, str]] = [
        (
            "signed thinking",
            [begin(), opening, muse(0, "Hm", "."), sign(0, "c2ln"), stop(0), *_text(1), *done],
            Expected(text="Hi", reasoning="Hm.", stop="end_turn", usage=(20, 7)),
            "Claude signs its thinking.",
        ),
        (
            "redacted thinking",
            [begin(), block(0, "redacted_thinking", data="QQ=="), stop(0), *_text(1), *done],
            SAID,
            "Claude hides thinking that its safety systems flag.",
        ),
        (
            "search of the server, then text",
            [begin(), *_search(0), *_text(2), *done],
            SAID,
            "A server tool is no call of the client.",
        ),
        (
            "call of the client, then a search of the server",
            [begin(), *_call(0, PARIS), *_search(1), *called],
            one,
            "A server tool is no call of the client.",
        ),
        (
            "call without arguments",
            [begin(), *_call(0), *called],
            none,
            "Claude sends no delta where a tool has no parameters.",
        ),
        (
            "call with an empty delta alone",
            [begin(), *_call(0, ""), *called],
            none,
            "Claude sends an empty delta where a tool has no parameters.",
        ),
        (
            "input in the start alone",
            [begin(), *_call(0, input={"city": "Paris"}), *called],
            one,
            "Compatible servers send the whole input in the start.",
        ),
        (
            "text in the start alone",
            [begin(), block(0, "text", text="Hi"), stop(0), *done],
            SAID,
            "Compatible servers send the whole text in the start.",
        ),
        (
            "unknown events, blocks and deltas",
            [
                begin(),
                event("newer", x=1),
                block(0, "newer", x=1),
                delta(0, "newer", x=1),
                stop(0),
                block(1, "text", text=""),
                say(1, "Hi"),
                delta(1, "newer", x=1),
                stop(1),
                *done,
            ],
            SAID,
            "The vendor adds events without notice, and says so.",
        ),
        (
            "pings everywhere",
            [
                event("ping"),
                begin(),
                event("ping"),
                HI,
                event("ping"),
                stop(0),
                event("ping"),
                *done,
            ],
            SAID,
            "Proxies send pings against idle timeouts.",
        ),
        (
            "refusal",
            [begin(), *hi, finish("refusal"), STOP],
            Expected(text="Hi", stop="refusal", usage=(20, 7)),
            "Claude's safety systems stop an answer.",
        ),
        (
            "stop sequence",
            [
                begin(),
                *hi,
                event(
                    "message_delta",
                    delta={"stop_reason": "stop_sequence"} | {"stop_sequence": "END"},
                    usage={"output_tokens": 7},
                ),
                STOP,
            ],
            Expected(text="Hi", stop="stop_sequence", usage=(20, 7)),
            "A client's stop sequence was met.",
        ),
        (
            "context window full",
            [begin(), *hi, finish("model_context_window_exceeded"), STOP],
            Expected(text="Hi", stop="max_tokens", usage=(20, 7)),
            "The context window of the model is full.",
        ),
        (
            "input tokens in message_delta",
            [
                start(usage={"input_tokens": 0, "output_tokens": 0}),
                *hi,
                end("end_turn", usage={"input_tokens": 20, "output_tokens": 7}),
                STOP,
            ],
            SAID,
            "OpenRouter and z.ai know the input tokens at the end only.",
        ),
        (
            "tokens of caches",
            [start(usage={**cached, "output_tokens": 1}), *hi, *done],
            SAID,
            "Anthropic counts tokens of caches apart from input_tokens.",
        ),
        (
            "cumulative tokens twice",
            [begin(), *hi, end(None, usage={"output_tokens": 5}), *done],
            SAID,
            "Anthropic's counts in message_delta are cumulative.",
        ),
        (
            "CRLF",
            [frame.replace(b"\n", b"\r\n") for frame in (begin(), *hi, *done)],
            SAID,
            "Servers on Windows, and proxies, write CRLF.",
        ),
        (
            "comments and no space behind the colon",
            [b": open\n\n", begin().replace(b"data: ", b"data:"), *hi, b":\n\n", *DONE],
            SAID,
            "Server-sent events allow both.",
        ),
        (
            "reads that cut a character in two",
            chunked(
                b"".join([begin(), block(0, "text", text=""), _raw("Grüße 😀"), stop(0), *done]), 7
            ),
            Expected(text="Grüße 😀", stop="end_turn", usage=(20, 7)),
            "Networks cut where they like.",
        ),
        (
            "error in the middle",
            [begin(), HI, event("error", error={"type": "overloaded_error", "message": "busy"})],
            Expected(text="Hi", outcome="failed"),
            "Anthropic is overloaded.",
        ),
        ("cut within text", [begin(), HI], Expected(text="Hi", outcome="truncated"), CUT),
        (
            "cut before the stop reason",
            [begin(), *hi],
            Expected(text="Hi", outcome="truncated"),
            CUT,
        ),
        (
            "cut within arguments",
            [begin(), tool(0, "weather"), delta(0, "input_json_delta", partial_json=PARIS[:8])],
            Expected(outcome="truncated"),
            CUT,
        ),
    ]
    return [Case(name, "anthropic", tuple(f), wanted, why) for name, f, wanted, why in rows]


CUT = "The connection to Anthropic is lost."


def _raw(text: str) -> bytes:
    """Return a text delta whose characters are not escaped."""
    return say(0, "@").replace(b"@", text.encode())

"""Gemini streams with what the vendor's servers send of themselves."""

from __future__ import annotations

import json
from typing import Any

from support.gemini.adversarial import PARIS, TOKYO
from support.gemini.frames import candidate, chunk, frame, function_call, parts, text, thought
from support.streams.mutations import chunked

from ..cases import Call, Case, Expected

__all__ = ["server_cases"]

A = Call("c1", "get_weather", {"city": "Paris"})
B = Call("c2", "get_time", {"tz": "Asia/Tokyo"})
COUNTS = {"promptTokenCount": 20, "candidatesTokenCount": 7, "totalTokenCount": 27}
SAID = Expected(text="Hi", stop="end_turn", usage=(20, 7))
CUT = "The connection to Google is lost."


def _end(reason: str = "STOP", usage: dict[str, Any] = COUNTS) -> bytes:
    return chunk(candidate(finishReason=reason), usageMetadata=usage)


def server_cases() -> list[Case]:
    """Return the cases."""
    end, hi = _end(), [text("H"), text("i")]
    signature = {"thoughtSignature": "QQ=="}
    thinking = {**COUNTS, "candidatesTokenCount": 3, "thoughtsTokenCount": 4}
    before = {"promptTokenCount": 20, "totalTokenCount": 20}
    unavailable = {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}}
    both = Expected(calls=(A, B), stop="tool_use", usage=(20, 7))
    rows: list[tuple[str, list[bytes], Expected, str]] = [
        ("text", [*hi, end], SAID, "Gemini answers."),
        (
            "calls in two chunks",
            [function_call(**PARIS), function_call(**TOKYO), end],
            both,
            "Gemini 3 sends parallel calls one in a chunk.",
        ),
        (
            "signed first call of two",
            [parts({"functionCall": PARIS, **signature}, {"functionCall": TOKYO}), end],
            both,
            "Gemini 3 signs the first of parallel calls.",
        ),
        (
            "call without arguments",
            [function_call(id="c3", name="now"), end],
            Expected(calls=(Call("c3", "now", {}),), stop="tool_use", usage=(20, 7)),
            "Gemini leaves args out where a function has no parameters.",
        ),
        (
            "thoughts with their tokens",
            [thought("Hm"), *hi, _end(usage=thinking)],
            Expected(text="Hi", reasoning="Hm", stop="end_turn", usage=(20, 7)),
            "Gemini counts tokens of thoughts apart from candidatesTokenCount.",
        ),
        (
            "counts in each chunk",
            [
                chunk(candidate({"text": "H"}), usageMetadata=before),
                chunk(candidate({"text": "i"}), usageMetadata=before),
                end,
            ],
            SAID,
            "Gemini sends counts in nearly every chunk.",
        ),
        (
            "finish, content and counts in one chunk",
            [chunk(candidate({"text": "Hi"}, finishReason="STOP"), usageMetadata=COUNTS)],
            SAID,
            "Gemini sends a short answer in one chunk.",
        ),
        (
            "candidate without content",
            [chunk(candidate()), chunk({"index": 0, "content": {}}), *hi, end],
            SAID,
            "Gemini sends candidates without content or parts.",
        ),
        (
            "safety",
            [*hi, _end("SAFETY")],
            Expected(text="Hi", stop="refusal", usage=(20, 7)),
            "Gemini's filter stops an answer.",
        ),
        (
            "blocked prompt",
            [frame({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": before})],
            Expected(stop="refusal"),
            "Gemini's filter stops the question.",
        ),
        (
            "limit",
            [*hi, _end("MAX_TOKENS")],
            Expected(text="Hi", stop="max_tokens", usage=(20, 7)),
            "The model reaches its limit.",
        ),
        (
            "code of the server",
            [
                parts({"executableCode": {"language": "PYTHON", "code": "1"}}),
                parts({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}),
                *hi,
                end,
            ],
            SAID,
            "A server tool is no call of the client.",
        ),
        (
            "LF",
            [each.replace(b"\r\n", b"\n") for each in (*hi, end)],
            SAID,
            "Proxies write LF.",
        ),
        (
            "reads that cut a character in two",
            chunked(b"".join([text("@").replace(b"@", "Grüße 😀".encode()), end]), 7),
            Expected(text="Grüße 😀", stop="end_turn", usage=(20, 7)),
            "Networks cut where they like.",
        ),
        (
            "malformed call",
            [text("H"), _end("MALFORMED_FUNCTION_CALL")],
            Expected(text="H", outcome="failed"),
            "Gemini writes a call that its own server cannot parse.",
        ),
        (
            "error in the middle",
            [text("H"), frame(unavailable)],
            Expected(text="H", outcome="failed"),
            "Gemini is overloaded.",
        ),
        (
            "error that is no event",
            [text("H"), json.dumps(unavailable, indent=2).encode()],
            Expected(text="H", outcome="failed"),
            "Google's front end writes plain JSON into the stream.",
        ),
        ("cut within text", hi, Expected(text="Hi", outcome="truncated"), CUT),
        (
            "cut behind a whole call",
            [function_call(**PARIS)],
            Expected(outcome="truncated"),
            CUT,
        ),
    ]
    return [Case(name, "gemini", tuple(f), wanted, why) for name, f, wanted, why in rows]

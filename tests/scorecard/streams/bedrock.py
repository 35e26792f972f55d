"""Streams of Amazon Bedrock: Converse, and Anthropic by `InvokeModelWithResponseStream`."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from support.bedrock import chunks as invoke
from support.bedrock_converse.frames import (
    START,
    delta,
    end,
    event,
    exception,
    metadata,
    stop,
    text,
    tool,
    tool_input,
)

from ..cases import Call, Case, Expected

__all__ = ["converse_cases", "invoke_cases"]

PARIS, TOKYO = '{"city":"Paris"}', '{"tz":"Asia/Tokyo"}'
USAGE = (12, 3)  # of `metadata`
A, B = Call("c_a", "weather", {"city": "Paris"}), Call("c_b", "time", {"tz": "Asia/Tokyo"})
HALF = Call("c_a", "weather", PARIS[:8])
OPEN_A, OPEN_B = tool(0, "c_a", "weather"), tool(1, "c_b", "time")
HI = [START, text(0, "Hi "), text(0, "there"), stop(0)]
SAID = Expected(text="Hi there", stop="end_turn", usage=USAGE)
CUT_HI = Expected(text="Hi there", outcome="truncated")
CACHED = {"inputTokens": 5, "cacheReadInputTokens": 4, "cacheWriteInputTokens": 3}


def reasoning(index: int, **fields: str) -> bytes:
    return delta(index, reasoningContent=fields)


def _message(*calls: Call, stop: str = "tool_use", **fields: Any) -> Expected:
    return Expected(calls=calls, stop=stop, usage=USAGE, **fields)


def converse_cases() -> list[Case]:
    """Return the cases whose source is Bedrock's Converse."""
    rows: list[tuple[str, list[bytes], Expected, str]] = [
        ("text without a start", [*HI, end()], SAID, "Converse starts calls only."),
        (
            "empty deltas",
            [START, text(0, ""), *HI[1:3], text(0, ""), stop(0), text(1, ""), stop(1), end()],
            SAID,
            "Claude on Bedrock sends empty deltas, and blocks of nothing else.",
        ),
        (
            "calls one after another",
            [
                START,
                OPEN_A,
                tool_input(0, ""),
                tool_input(0, PARIS[:8]),
                tool_input(0, PARIS[8:]),
                stop(0),
                OPEN_B,
                tool_input(1, TOKYO),
                stop(1),
                end("tool_use"),
            ],
            _message(A, B),
            "Claude on Bedrock makes parallel calls.",
        ),
        (
            "calls in turn",
            [
                START,
                OPEN_A,
                OPEN_B,
                tool_input(1, TOKYO[:5]),
                tool_input(0, PARIS[:8]),
                tool_input(1, TOKYO[5:]),
                tool_input(0, PARIS[8:]),
                stop(0),
                stop(1),
                end("tool_use"),
            ],
            _message(A, B),
            "Indexes allow what was never seen: fragments of two calls in turn.",
        ),
        (
            "gaps between indexes",
            [
                START,
                text(0, "Hi"),
                stop(0),
                tool(27, "c_a", "weather"),
                tool_input(27, PARIS),
                stop(27),
                tool(29, "c_b", "time"),
                tool_input(29, TOKYO),
                stop(29),
                end("tool_use"),
            ],
            _message(A, B, text="Hi"),
            "Nova numbers deltas, and leaves indexes out.",
        ),
        (
            "call without arguments, then another",
            [
                START,
                tool(0, "c_n", "now"),
                stop(0),
                OPEN_B,
                tool_input(1, TOKYO),
                stop(1),
                end("tool_use"),
            ],
            _message(Call("c_n", "now", {}), B),
            "Claude sends no delta where a tool has no parameters.",
        ),
        (
            "call with an empty delta alone",
            [START, tool(0, "c_n", "now"), tool_input(0, ""), stop(0), end("tool_use")],
            _message(Call("c_n", "now", {})),
            "Claude sends an empty delta where a tool has no parameters.",
        ),
        (
            "arguments in one delta",
            [START, text(0, "So"), stop(0), OPEN_B, tool_input(1, TOKYO), stop(1), end("tool_use")],
            _message(B, text="So"),
            "Nova and Llama send whole arguments in one delta.",
        ),
        (
            "reasoning with a signature",
            [
                START,
                reasoning(0, text="Hm"),
                reasoning(0, text="."),
                reasoning(0, signature="c2ln"),
                stop(0),
                text(1, "Yes"),
                stop(1),
                end(),
            ],
            Expected(text="Yes", reasoning="Hm.", stop="end_turn", usage=USAGE),
            "Claude on Bedrock signs its reasoning.",
        ),
        (
            "redacted reasoning",
            [
                START,
                reasoning(0, redactedContent=b64encode(b"EtkEC").decode()),
                stop(0),
                text(1, "Yes"),
                stop(1),
                end(),
            ],
            Expected(text="Yes", stop="end_turn", usage=USAGE),
            "Claude on Bedrock sends redacted reasoning as Base64 of its data.",
        ),
        (
            "tokens of caches",
            [
                *HI,
                event("messageStop", stopReason="end_turn"),
                metadata(usage={**CACHED, "outputTokens": 3, "totalTokens": 15}),
            ],
            SAID,
            "Converse counts tokens of caches apart from inputTokens.",
        ),
        (
            "tokens before the stop",
            [*HI, metadata(), event("messageStop", stopReason="end_turn")],
            SAID,
            "Proxies send the events of the end in another order.",
        ),
        (
            "no tokens",
            [*HI, event("messageStop", stopReason="end_turn")],
            Expected(text="Hi there", stop="end_turn"),
            "Proxies and guardrails leave the last event out.",
        ),
        (
            "max_tokens within arguments",
            [START, OPEN_A, tool_input(0, PARIS[:8]), stop(0), end("max_tokens")],
            _message(HALF, stop="max_tokens"),
            "The model reaches its limit within the arguments of a call.",
        ),
        (
            "half arguments at tool_use",
            [START, OPEN_A, tool_input(0, PARIS[:8]), stop(0), end("tool_use")],
            _message(HALF),
            "Small models write broken JSON and say tool_use.",
        ),
        (
            "end_turn with a call",
            [START, OPEN_A, tool_input(0, PARIS), stop(0), end("end_turn")],
            _message(A),
            "Llama on Bedrock says end_turn behind a call.",
        ),
        (
            "guardrail",
            [START, text(0, "I cannot."), stop(0), end("guardrail_intervened")],
            Expected(text="I cannot.", stop="refusal", usage=USAGE),
            "A guardrail replaces the answer.",
        ),
        (
            "call of the server's own tool",
            [
                START,
                tool(0, "s", "search", type="server_tool_use"),
                tool_input(0, '{"q":"x"}'),
                stop(0),
                text(1, "Yes"),
                stop(1),
                end(),
            ],
            Expected(text="Yes", stop="end_turn", usage=USAGE),
            "Nova's grounding shows its own calls, which no client may run.",
        ),
        (
            "unknown events and deltas",
            [*HI[:2], event("newer", x=1), delta(0, newer="x"), *HI[2:], end()],
            SAID,
            "Bedrock adds events without notice.",
        ),
        (
            "exception in the middle",
            [*HI[:3], exception("throttlingException", message="slow down")],
            Expected(text="Hi there", outcome="failed"),
            "Bedrock throttles a stream that has begun.",
        ),
        (
            "exception behind a whole call",
            [
                START,
                OPEN_A,
                tool_input(0, PARIS),
                stop(0),
                exception("modelStreamErrorException", message="gone"),
            ],
            Expected(outcome="failed"),
            "The model's server fails within a stream.",
        ),
        ("cut without a stop", HI, CUT_HI, "The connection to Bedrock is lost."),
        (
            "cut within a message",
            [*HI, event("messageStop", stopReason="end_turn")[:-3]],
            CUT_HI,
            "The connection to Bedrock is lost within a message.",
        ),
        (
            "cut within arguments",
            [START, OPEN_A, tool_input(0, PARIS[:8])],
            Expected(outcome="truncated"),
            "The connection to Bedrock is lost within a call.",
        ),
        (
            "damaged message",
            [*HI[:2], _damage(HI[2]), HI[3], end()],
            Expected(text="Hi ", outcome="failed"),
            "A proxy changes bytes, which the checksums show.",
        ),
    ]
    return [Case(name, "bedrock_converse", tuple(f), wanted, why) for name, f, wanted, why in rows]


def _damage(message: bytes) -> bytes:
    """Return a message with one changed byte of its payload."""
    at = message.index(b"there")
    return message[:at] + b"T" + message[at + 1 :]


# Anthropic by InvokeModelWithResponseStream


def _begin() -> bytes:
    usage = {"input_tokens": 20, "output_tokens": 1}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude"}
    message: dict[str, Any] = {
        **head,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return invoke.chunk({"type": "message_start", "message": message})


def _block(index: int, **block: Any) -> bytes:
    return invoke.chunk({"type": "content_block_start", "index": index, "content_block": block})


def _delta(index: int, **delta: str) -> bytes:
    return invoke.chunk({"type": "content_block_delta", "index": index, "delta": delta})


def _stop(index: int) -> bytes:
    return invoke.chunk({"type": "content_block_stop", "index": index})


def _finish(reason: str) -> list[bytes]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    end = {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 7}}
    metrics = {"inputTokenCount": 20, "outputTokenCount": 7, "invocationLatency": 9}
    last = {"type": "message_stop", "amazon-bedrock-invocationMetrics": metrics}
    return [invoke.chunk(end), invoke.chunk(last)]


def _args(index: int, *pieces: str) -> list[bytes]:
    return [_delta(index, type="input_json_delta", partial_json=piece) for piece in pieces]


def invoke_cases() -> list[Case]:
    """Return the cases whose source is Anthropic in the messages of `InvokeModel`."""
    counts = (20, 7)
    begin = _begin()
    open_a = _block(0, type="tool_use", id="c_a", name="weather", input={})
    open_b = _block(1, type="tool_use", id="c_b", name="time", input={})
    hi = [begin, _block(0, type="text", text=""), _delta(0, type="text_delta", text="Hi")]
    calls = [begin, open_a, open_b, *_args(1, TOKYO[:5]), *_args(0, PARIS), *_args(1, TOKYO[5:])]
    rows: list[tuple[str, list[bytes], Expected, str]] = [
        (
            "text with the metrics of Bedrock",
            [*hi, _stop(0), *_finish("end_turn")],
            Expected(text="Hi", stop="end_turn", usage=counts),
            "Bedrock adds its metrics to message_stop.",
        ),
        (
            "calls in turn",
            [*calls, _stop(0), _stop(1), *_finish("tool_use")],
            Expected(calls=(A, B), stop="tool_use", usage=counts),
            "Indexes allow fragments of two calls in turn.",
        ),
        (
            "max_tokens within arguments",
            [begin, open_a, *_args(0, "", PARIS[:8]), _stop(0), *_finish("max_tokens")],
            Expected(calls=(HALF,), stop="max_tokens", usage=counts),
            "The model reaches its limit within the arguments of a call.",
        ),
        (
            "exception in the middle",
            [*hi, invoke.exception("internalServerException", message="gone")],
            Expected(text="Hi", outcome="failed"),
            "The model's server fails within a stream.",
        ),
        (
            "cut before the stop reason",
            [*hi, _stop(0)],
            Expected(text="Hi", outcome="truncated"),
            "The connection to Bedrock is lost.",
        ),
        (
            "cut within a message",
            [*hi, _stop(0), _finish("end_turn")[0][:-3]],
            Expected(text="Hi", outcome="truncated"),
            "The connection to Bedrock is lost within a message.",
        ),
    ]
    return [Case(name, "bedrock_invoke", tuple(f), wanted, why) for name, f, wanted, why in rows]

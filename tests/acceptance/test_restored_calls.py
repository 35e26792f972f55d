"""Answers to a translated request are what the clients of Responses read: the SDK, and Codex.

The request has a freeform tool and tools in a namespace, and goes to providers that have
neither.  Their answers are written by hand, as each vendor's reference has them.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import httpx2
import openai
import pytest
from acceptance.responses_wire import broken_rules
from openai.types.responses import Response
from support.anthropic import frames as anthropic
from support.gemini import frames as gemini
from support.gemini_interactions import frames as interactions
from support.openai_chat.chunks import DONE, call, calls, chunk
from support.openai_responses import frames as responses

from streamnorm import (
    Event,
    Reply,
    ToolCall,
    Transcoder,
    accumulate,
    translate_message,
    translate_request,
)
from streamnorm.codec import decoder
from streamnorm.validation import validate

REQUEST: dict[str, Any] = {
    "model": "m",
    "input": "Fix",
    "tools": [
        {
            "type": "custom",
            "name": "apply_patch",
            "description": "Edit files.",
            "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
        },
        {
            "type": "namespace",
            "name": "crm",
            "description": "CRM",
            "tools": [
                {"type": "function", "name": "get", "parameters": {"type": "object"}},
                {"type": "custom", "name": "run"},
            ],
        },
    ],
}
PATCH = '*** Begin "x"\n'
CALLS = (
    ("c1", "apply_patch", json.dumps({"input": PATCH})),
    ("c2", "crm__get", '{"t": 1}'),
    ("c3", "crm__run", '{ "input" : "l\\u0073 \\ud83d\\ude00" }'),
)
CLIENT = [
    ("custom_tool_call", "c1", None, "apply_patch", PATCH),
    ("function_call", "c2", "crm", "get", '{"t": 1}'),
    ("custom_tool_call", "c3", "crm", "run", "ls 😀"),
]


def reply() -> Reply:
    """Return how a provider without such tools is answered for."""
    return translate_request(REQUEST, to="anthropic", dialect="openai_responses").reply


def cut(text: str) -> list[str]:
    return [text[at : at + 3] for at in range(0, len(text), 3)]


def answer(source: str) -> list[bytes]:
    """Return a provider's answer that calls all tools."""
    frames: list[bytes] = []
    for number, (id, name, text) in enumerate(CALLS):
        match source:
            case "anthropic":
                frames.append(anthropic.call(number, *cut(text), id=id, name=name))
            case "openai_chat":
                frames.append(calls(call(number, id, name)))
                frames += [calls(call(number, arguments=piece)) for piece in cut(text)]
            case "gemini":
                function = {"id": id, "name": name, "args": json.loads(text)}
                frames.append(gemini.parts({"functionCall": function}))
            case "gemini_interactions":
                pieces = [("arguments_delta", {"arguments": piece}) for piece in cut(text)]
                call_of_step = {"id": id, "name": name, "arguments": {}}
                frames.append(
                    interactions.step("function_call", *pieces, number=number, **call_of_step)
                )
            case _:
                item = {"id": f"fc_{number}", "call_id": id, "name": name}
                frames.append(responses.added(number, "function_call", arguments="", **item))
                frames += [responses.args(piece, number) for piece in cut(text)]
                frames.append(responses.done(number, "function_call", arguments=text, **item))
    match source:
        case "anthropic":
            return [anthropic.start(), *frames, anthropic.end("tool_use"), anthropic.STOP]
        case "openai_chat":
            return [*frames, chunk({}, "tool_calls"), DONE]
        case "gemini":
            return [*frames, gemini.text("", finish="STOP")]
        case "gemini_interactions":
            return [interactions.CREATED, *frames, interactions.completed("requires_action")]
        case _:
            return [responses.START, *frames, responses.completed()]


def translated(frames: list[bytes], source: str) -> bytes:
    transcoder = Transcoder(source, "openai_responses", reply=reply())
    out = [data for frame in frames for data in transcoder.feed(frame)]
    return b"".join([*out, *transcoder.close()])


class Turn(NamedTuple):
    """What Codex gets from a stream.

    Attributes:
        calls: Calls that it executes: at the `done` of their items.
        live: Text of patches that it shows while they arrive, by item.
        error: Why it asks again; None if the turn is complete.
    """

    calls: list[tuple[str, str, str | None, str, str]]
    live: dict[str, str]
    error: str | None


def codex(body: bytes) -> Turn:
    """Read a stream as Codex does (codex-rs, `process_sse`): by the types of payloads alone.

    Items are read at their `done`, whatever their status; `response.incomplete` and
    `response.failed` are errors, as is an end before `response.completed`.
    """
    executed: list[tuple[str, str, str | None, str, str]] = []
    live: dict[str, str] = {}
    for frame in body.decode().split("\n\n"):
        fields = [line.partition(":")[::2] for line in frame.split("\n")]
        data = "\n".join(value for name, value in fields if name == "data")
        if not data:
            continue
        event: dict[str, Any] = json.loads(data)
        match event["type"]:
            case "response.output_item.done":
                item = event["item"]
                text = {"function_call": "arguments", "custom_tool_call": "input"}[item["type"]]
                named = (item["call_id"], item.get("namespace"), item["name"])
                executed.append((item["type"], *named, item[text]))
            case "response.custom_tool_call_input.delta":
                live[event["item_id"]] = live.get(event["item_id"], "") + event["delta"]
            case "response.completed":
                assert event["response"]["id"]
                return Turn(executed, live, None)
            case "response.incomplete":
                return Turn(executed, live, event["response"]["incomplete_details"]["reason"])
            case "response.failed":
                return Turn(executed, live, event["response"]["error"]["message"])
            case _:
                pass
    return Turn(executed, live, "stream closed before response.completed")


def client_of(body: bytes) -> openai.OpenAI:
    response = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)
    http = httpx2.Client(transport=httpx2.MockTransport(lambda _: response))
    return openai.OpenAI(api_key="-", base_url="http://t", http_client=http, max_retries=0)


def said(output: list[Any]) -> list[tuple[Any, ...]]:
    """Return what items of the SDK say."""
    return [
        (
            item.type,
            item.call_id,
            item.namespace,
            item.name,
            item.input if item.type == "custom_tool_call" else item.arguments,
        )
        for item in output
    ]


each_source = pytest.mark.parametrize(
    "source", ["anthropic", "openai_chat", "openai_responses", "gemini", "gemini_interactions"]
)


@each_source
def test_sdk_reads_the_tools_that_the_client_has(source: str) -> None:
    body = translated(answer(source), source)
    assert broken_rules(body) == []
    with client_of(body) as client:
        events: list[Any] = list(client.responses.create(model="m", input="-", stream=True))
    assert said([e.item for e in events if e.type == "response.output_item.done"]) == CLIENT
    assert said(events[-1].response.output) == CLIENT
    texts: dict[int, str] = {}
    for event in events:
        if event.type.endswith(("arguments.delta", "input.delta")):
            texts[event.output_index] = texts.get(event.output_index, "") + event.delta
    assert [*texts.values()] == [text for *_, text in CLIENT]


@each_source
def test_helper_of_the_sdk_reads_them_too(source: str) -> None:
    body = translated(answer(source), source)
    with client_of(body) as client, client.responses.stream(model="m", input="-") as stream:
        for _ in stream:
            pass
        assert said(stream.get_final_response().output) == CLIENT


FUNCTIONS = [(id, {"name": name, "arguments": text}) for id, name, text in CALLS]
WHOLE: dict[str, dict[str, Any]] = {
    "anthropic": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-1",
        "content": [
            {"type": "tool_use", "id": id, "name": name, "input": json.loads(text)}
            for id, name, text in CALLS
        ],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 2},
    },
    "openai_chat": {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt",
        "choices": [
            {
                "index": 0,
                "finish_reason": "tool_calls",
                "message": {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [
                        {"id": id, "type": "function", "function": function}
                        for id, function in FUNCTIONS
                    ],
                },
            }
        ],
    },
    "gemini": {
        "candidates": [
            {
                "content": {
                    "role": "model",
                    "parts": [
                        {"functionCall": {"id": id, "name": name, "args": json.loads(text)}}
                        for id, name, text in CALLS
                    ],
                },
                "finishReason": "STOP",
            }
        ]
    },
}


@pytest.mark.parametrize("source", WHOLE)
def test_whole_response_has_the_tools_that_the_client_has(source: str) -> None:
    encoded = translate_message(WHOLE[source], to="openai_responses", dialect=source, reply=reply())
    response = Response.model_validate(encoded.body)
    # Anthropic's and Gemini's arguments are objects, whose text is ours.
    assert [(*item[:4], item[4].replace(": ", ":")) for item in said(response.output)] == [
        (*item[:4], item[4].replace(": ", ":")) for item in CLIENT
    ]
    assert response.status == "completed"


@each_source
def test_codex_executes_its_own_tools(source: str) -> None:
    turn = codex(translated(answer(source), source))
    assert [(kind, id, space, name, text) for kind, id, space, name, text in turn.calls] == CLIENT
    assert [*turn.live.values()] == [PATCH, "ls 😀"]
    assert turn.error is None


@pytest.mark.parametrize("source", ["anthropic", "openai_chat"])
def test_codex_executes_no_patch_that_was_cut(source: str) -> None:
    """Wherever the connection breaks off: a call is executed whole, or not at all."""
    frames = answer(source)
    for end in range(len(frames) - 1):
        turn = codex(translated(frames[:end], source))
        assert turn.error is not None
        assert turn.calls == CLIENT[: len(turn.calls)]


@pytest.mark.parametrize("source", ["anthropic", "openai_chat", "openai_responses"])
def test_codex_executes_no_patch_that_the_answer_was_cut_in(source: str) -> None:
    """It would, at the `done` of an item that is incomplete."""
    cut = {
        "anthropic": (anthropic.call(0, '{"input":"*** Be', id="c1", name="apply_patch"),),
        "openai_chat": (calls(call(0, "c1", "apply_patch", '{"input":"*** Be')),),
        "openai_responses": (
            responses.added(0, "function_call", id="fc", call_id="c1", name="apply_patch"),
            responses.args('{"input":"*** Be'),
        ),
    }[source]
    frames = {
        "anthropic": [anthropic.start(), *cut, anthropic.end("max_tokens"), anthropic.STOP],
        "openai_chat": [*cut, chunk({}, "length"), DONE],
        "openai_responses": [
            responses.START,
            *cut,
            responses.completed(
                status="incomplete", incomplete_details={"reason": "max_output_tokens"}
            ),
        ],
    }[source]
    body = translated(frames, source)
    assert broken_rules(body) == []
    assert validate(body, "openai_responses") == []
    turn = codex(body)
    assert (turn.calls, [*turn.live.values()]) == ([], ["*** Be"])
    assert turn.error == "max_output_tokens"
    with client_of(body) as client:
        events: list[Any] = list(client.responses.create(model="m", input="-", stream=True))
    (item,) = events[-1].response.output
    assert (item.type, item.status, item.input) == ("custom_tool_call", "incomplete", "*** Be")
    with client_of(body) as client, client.responses.stream(model="m", input="-") as stream:
        assert [event.type for event in stream][-1] == "response.incomplete"
    read_again = accumulate(decoded(body))
    assert read_again.blocks == (
        ToolCall("c1", "apply_patch", "*** Be", kind="custom", is_unfinished=True),
    )


def decoded(body: bytes) -> list[Event]:
    reader = decoder("openai_responses")
    return reader.feed(body) + reader.close()


def test_codex_executes_no_patch_that_is_no_json() -> None:
    """An answer that claims to be whole, with a line end that is not escaped."""
    text = '{"input":"*** Begin\n*** End"}'
    frames = [calls(call(0, "c1", "apply_patch", text)), chunk({}, "tool_calls"), DONE]
    turn = codex(translated(frames, "openai_chat"))
    assert turn.calls == []
    assert turn.error is not None
    assert "wrapped input of a custom call" in turn.error


def test_codex_gets_a_patch_that_is_plain_text() -> None:
    text = "*** Begin Patch\n*** End Patch\n"
    frames = [calls(call(0, "c1", "apply_patch", text)), chunk({}, "tool_calls"), DONE]
    turn = codex(translated(frames, "openai_chat"))
    assert turn.calls == [("custom_tool_call", "c1", None, "apply_patch", text)]

"""`RunAgentInput`: what a page sends, as a request.

By the schemas of `@ag-ui/core` 1.0.0 and 0.0.59, and by the reducer of `@ag-ui/client`.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from streamnorm import (
    Audio,
    Citation,
    DecodeError,
    Document,
    Image,
    InputMessage,
    Reasoning,
    RedactedReasoning,
    Request,
    ServerToolCall,
    ServerToolResult,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    UnknownDialect,
    Video,
    decode_request,
    detect,
    encode_request,
)
from streamnorm._bodies import reader_of
from streamnorm._registry import lookup
from streamnorm.tools import decode_tools

AG_UI = "ag_ui"
CAT = base64.b64encode(b"cat").decode()
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def run(*messages: Any, **fields: Any) -> dict[str, Any]:
    numbered = [
        {"id": f"m{n}", **message} if isinstance(message, dict) else message
        for n, message in enumerate(messages)
    ]
    names = {"threadId": "t", "runId": "r", "state": {}, "tools": [], "context": []}
    return {**names, "forwardedProps": {}, "messages": numbered, **fields}


def user(content: Any = "Hi", **fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **fields}


def said(content: str | None = None, *calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    message = {"role": "assistant", **({} if content is None else {"content": content}), **fields}
    return {**message, "toolCalls": list(calls)} if calls else message


def call(id: str = "c1", name: str = "weather", arguments: str = '{"a":1}', **fields: Any) -> Any:
    function = {"name": name, "arguments": arguments}
    return {"id": id, "type": "function", "function": function, **fields}


def tool(id: str = "c1", content: Any = "rain", **fields: Any) -> dict[str, Any]:
    return {"role": "tool", "toolCallId": id, "content": content, **fields}


def thought(content: str = "Hm.", value: Any = None) -> dict[str, Any]:
    encrypted = value if isinstance(value, str) else json.dumps(value)
    fields = {} if value is None else {"encryptedValue": encrypted}
    return {"role": "reasoning", "content": content, **fields}


def messages_of(*messages: Any) -> tuple[InputMessage, ...]:
    return decode_request(run(*messages), AG_UI).messages


def blocks_of(*messages: Any) -> tuple[Any, ...]:
    (message,) = messages_of(*messages)
    return message.blocks


def problem_of(body: Any) -> tuple[str, str]:
    with pytest.raises(DecodeError) as caught:
        decode_request(json.dumps(body), AG_UI)
    return caught.value.args[0], caught.value.path


# The body


def test_run_is_a_streamed_request_with_the_tools_of_the_page() -> None:
    page_tool = {"name": "weather", "description": "Look.", "parameters": SCHEMA}
    body = run(user(), tools=[{**page_tool, "metadata": {"icon": "sun"}}, {"name": "stop"}])
    request = decode_request({**body, "protocolVersion": "1.0", "parentRunId": "r0"}, AG_UI)
    assert request.messages == (InputMessage("user", (Text("Hi"),)),)
    assert request.tools == (Tool("weather", "Look.", SCHEMA), Tool("stop"))
    assert (request.model, request.stream, request.extra) == ("", True, None)
    assert request.source.value["runId"] == "r"
    assert decode_tools([page_tool], AG_UI) == (Tool("weather", "Look.", SCHEMA),)
    assert detect(body) == AG_UI
    assert decode_request(body) == decode_request(body, AG_UI)
    with pytest.raises(UnknownDialect, match="of dialect 'ag_ui' only requests are read"):
        encode_request(Request(), AG_UI)


def test_what_the_agent_alone_reads_is_lost_by_name() -> None:
    answer = {"interruptId": "i", "status": "resolved", "payload": {"approved": True}}
    body = run(
        user(),
        context=[{"description": "page", "value": "home"}],
        state={"n": 1},
        forwardedProps={"model": "page's wish"},
        resume=[answer],
    )
    request = decode_request(body, AG_UI)
    names = ("context", "state", "forwardedProps", "resume")
    assert request.extra == {AG_UI: {name: body[name] for name in names}}
    losses = encode_request(request, "openai_chat").losses
    assert sorted(loss.feature for loss in losses) == sorted(names)


@pytest.mark.parametrize(
    ("body", "problem", "path"),
    [
        ({"messages": []}, "missing, expected a string", "$.threadId"),
        ({**run(), "runId": 1}, "an integer, expected a string", "$.runId"),
        ({**run(), "parentRunId": 1}, "an integer, expected a string", "$.parentRunId"),
        ({"threadId": "t", "runId": "r"}, "missing, expected an array", "$.messages"),
        ({**run(), "messages": {}}, "an object, expected an array", "$.messages"),
        (run("Hi"), "a string of 2 characters, expected an object", "$.messages[0]"),
        (run(context=[{"value": "x"}]), "no string, expected one", "$.context[0].description"),
        (run(context=["x"]), "a string of 1 characters, expected an object", "$.context[0]"),
        (run(resume=[{}]), "no string, expected one", "$.resume[0].interruptId"),
        (
            run(resume=[{"interruptId": "i", "status": "approved"}]),
            "another status, expected resolved or cancelled",
            "$.resume[0].status",
        ),
        (run(tools=[{}]), "missing, expected a string", "$.tools[0].name"),
        (run(tools=[{"name": ""}]), "an empty name, expected one", "$.tools[0].name"),
        (
            run(tools=[{"name": "a"}, {"name": "a"}]),
            "name of another tool, expected one of its own",
            "$.tools[1].name",
        ),
        (
            run(tools=[{"name": "a", "parameters": "x"}]),
            "a string of 1 characters, expected an object",
            "$.tools[0].parameters",
        ),
        (run({"content": "x"}), "missing, expected a string", "$.messages[0].role"),
        (
            run(user(), {"role": "__proto__"}),
            "another role, expected one of user, assistant, tool, reasoning, system, developer, "
            "activity",
            "$.messages[1].role",
        ),
        (run({**user(), "id": 7}), "an integer, expected a string", "$.messages[0].id"),
        (
            run({"role": "user"}),
            "missing, expected a string or an array",
            "$.messages[0].content",
        ),
        (run(user(1)), "an integer, expected a string or an array", "$.messages[0].content"),
        (run({"role": "system"}), "missing, expected a string", "$.messages[0].content"),
        (run({"role": "reasoning"}), "missing, expected a string", "$.messages[0].content"),
        (
            run(user(["x"])),
            "a string of 1 characters, expected an object",
            "$.messages[0].content[0]",
        ),
        (
            run(user([{"type": "tool"}])),
            "another type, expected text, image, audio, video or document",
            "$.messages[0].content[0].type",
        ),
        (
            run(user([{"type": "image"}])),
            "missing, expected an object",
            "$.messages[0].content[0].source",
        ),
        (
            run(user([{"type": "image", "source": {"type": "path", "value": "/etc/passwd"}}])),
            "another type, expected data, url or file",
            "$.messages[0].content[0].source.type",
        ),
        (
            run(user([{"type": "image", "source": {"type": "url", "value": "file:///x"}}])),
            "another scheme, expected data, http or https",
            "$.messages[0].content[0].source.value",
        ),
        (
            run(user([{"type": "image", "source": {"type": "data", "value": CAT}}])),
            "missing, expected a string",
            "$.messages[0].content[0].source.mimeType",
        ),
        (
            run(
                user(
                    [
                        {
                            "type": "document",
                            "source": {"type": "data", "value": "\u00e9", "mimeType": "text/csv"},
                        }
                    ]
                )
            ),
            "a text that is no Base64, expected Base64",
            "$.messages[0].content[0].source.value",
        ),
        (
            run(user([{"type": "audio", "source": {"type": "file", "value": "f"}}])),
            "audio or video by its id, expected its content or URL",
            "$.messages[0].content[0].source.type",
        ),
        (
            run(user([{"type": "binary", "mimeType": "audio/wav", "id": "f"}])),
            "a file without data and URL, expected one",
            "$.messages[0].content[0]",
        ),
        (run(said(None, {})), "missing, expected a string", "$.messages[0].toolCalls[0].id"),
        (run(said(None, call(""))), "an empty id, expected one", "$.messages[0].toolCalls[0].id"),
        (
            run(said(None, call()), said(None, call())),
            "id of another call, expected one of its own",
            "$.messages[1].toolCalls[0].id",
        ),
        (
            run(said(None, {"id": "c"})),
            "no call of a function, expected one",
            "$.messages[0].toolCalls[0]",
        ),
        (
            run(said(None, {**call(), "type": "custom"})),
            "no call of a function, expected one",
            "$.messages[0].toolCalls[0]",
        ),
        (
            run(said(None, {**call(), "function": {"name": "x", "arguments": {}}})),
            "an object, expected a string",
            "$.messages[0].toolCalls[0].function.arguments",
        ),
        (
            run(said(None, call(name=""))),
            "an empty name, expected one",
            "$.messages[0].toolCalls[0].function.name",
        ),
        (
            run(user(), tool("forged")),
            "of an unknown call, expected one of an earlier message",
            "$.messages[1].toolCallId",
        ),
    ],
)
def test_wrong_body_is_refused_with_its_path(body: Any, problem: str, path: str) -> None:
    assert problem_of(body) == (problem, path)


# Messages


def test_messages_by_role() -> None:
    assert messages_of(
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "And kind.", "name": "d"},
        user("Hi", name="Ada"),
        {"role": "activity", "activityType": "plan", "content": {"x": 1}},
        said("Hello", name="bot"),
        user([{"type": "text", "text": "See"}]),
        user(""),
    ) == (
        InputMessage("system", (Text("Be brief."),)),
        InputMessage("developer", (Text("And kind."),), "d"),
        InputMessage("user", (Text("Hi"),), "Ada"),
        InputMessage("assistant", (Text("Hello"),), "bot"),
        InputMessage("user", (Text("See"),)),
        InputMessage("user"),
    )


def test_neighbouring_messages_of_the_assistant_are_one_answer() -> None:
    assert messages_of(
        user(),
        thought(),
        said("I look."),
        said(None, call()),
        said("", call("c2", arguments="")),
        tool(),
        tool("c2", "sun"),
        thought("Ah."),
        said("It rains."),
    ) == (
        InputMessage("user", (Text("Hi"),)),
        InputMessage(
            "assistant",
            (
                Reasoning(("Hm.",)),
                Text("I look."),
                ToolCall("c1", "weather", '{"a":1}'),
                ToolCall("c2", "weather"),
            ),
        ),
        InputMessage("user", (ToolResult("c1", (Text("rain"),)), ToolResult("c2", (Text("sun"),)))),
        InputMessage("assistant", (Reasoning(("Ah.",)), Text("It rains."))),
    )


def test_result_follows_its_call_where_the_client_put_it_between_two() -> None:
    """A call without a parent is a message of its own, and its result stands behind it."""
    assert messages_of(said(None, call()), tool(), said(None, call("c2")), tool("c2")) == (
        InputMessage("assistant", (ToolCall("c1", "weather", '{"a":1}'),)),
        InputMessage("user", (ToolResult("c1", (Text("rain"),)),)),
        InputMessage("assistant", (ToolCall("c2", "weather", '{"a":1}'),)),
        InputMessage("user", (ToolResult("c2", (Text("rain"),)),)),
    )


def test_reasoning_that_nothing_follows_is_an_answer() -> None:
    assert messages_of(thought(), user()) == (
        InputMessage("assistant", (Reasoning(("Hm.",)),)),
        InputMessage("user", (Text("Hi"),)),
    )


@pytest.mark.parametrize(
    ("fields", "result"),
    [
        (
            {"error": "it failed"},
            ToolResult("c1", (Text("rain"), Text("\nit failed")), is_error=True),
        ),
        ({"error": "rain"}, ToolResult("c1", (Text("rain"),), is_error=True)),
        (
            {"error": "it failed", "content": '{"a":1}', "metadata": {"isJson": True}},
            ToolResult("c1", (Text('{"a":1}'), Text("\nit failed")), is_error=True),
        ),
        (
            {"error": "it failed", "content": ""},
            ToolResult("c1", (Text("it failed"),), is_error=True),
        ),
        ({"metadata": {"isError": True}}, ToolResult("c1", (Text("rain"),), is_error=True)),
        (
            {"content": '{"a":1}', "metadata": {"isJson": True}},
            ToolResult("c1", (Text('{"a":1}'),), value='{"a":1}'),
        ),
        ({"content": '{"a":1}'}, ToolResult("c1", (Text('{"a":1}'),))),
        ({"metadata": {"isJson": True}}, ToolResult("c1", (Text("rain"),))),
        ({"content": '{"a', "metadata": {"isJson": True}}, ToolResult("c1", (Text('{"a'),))),
        (
            {"encryptedValue": "e"},
            ToolResult("c1", (Text("rain"),), extra={AG_UI: {"encryptedValue": "e"}}),
        ),
        (
            {
                "content": [
                    {"type": "text", "text": "See"},
                    {
                        "type": "image",
                        "source": {"type": "data", "value": CAT, "mimeType": "image/png"},
                    },
                ]
            },
            ToolResult("c1", (Text("See"), Image("image/png", CAT))),
        ),
    ],
)
def test_result_of_a_tool(fields: dict[str, Any], result: ToolResult) -> None:
    _, message = messages_of(said(None, call()), {**tool(), **fields})
    assert message == InputMessage("user", (result,))


def test_calls_that_the_provider_executed_stay_in_its_answer() -> None:
    mark = {"providerExecuted": True, "kind": "web_search"}
    builtin = "pyd_ai_builtin|openai|ws_1"
    assert messages_of(
        said(None, call(metadata=mark), call("c2", metadata=mark), call(builtin, "web")),
        tool("c1", '{"hits":1}', metadata={**mark, "isJson": True}),
        tool("c2", "", metadata={"providerExecuted": True, "isUnanswered": True}),
        tool(builtin, "found"),
        said("Found."),
    ) == (
        InputMessage(
            "assistant",
            (
                ServerToolCall("c1", "weather", '{"a":1}', "web_search"),
                ServerToolCall("c2", "weather", '{"a":1}', "web_search"),
                ServerToolCall(builtin, "web", '{"a":1}'),
                ServerToolResult("c1", "web_search", {"hits": 1}),
                ServerToolResult(builtin, "", "found"),
                Text("Found."),
            ),
        ),
    )


def test_result_may_say_alone_that_the_provider_executed_its_call() -> None:
    """Google executes some calls of functions; results of a shell have ids of their own."""
    mark = {"providerExecuted": True, "kind": "x"}
    assert blocks_of(said(None, call()), tool(metadata=mark), tool("sh", "ls", metadata=mark)) == (
        ToolCall("c1", "weather", '{"a":1}'),
        ServerToolResult("c1", "x", "rain"),
        ServerToolResult("sh", "x", "ls"),
    )


# Encrypted values


@pytest.mark.parametrize(
    ("value", "signed"),
    [
        ("sn1.anthropic.s", ("s", "anthropic", None)),
        ("sn1-id.openai.rs_1.s", ("s", "openai", "rs_1")),
        ("opaque", ("opaque", None, None)),
        (
            {"signature": "s", "provider_name": "openai", "id": "rs_1"},
            ("s", "openai", "rs_1"),
        ),
        (
            {"provider_name": "google-vertex", "provider_details": {"thought_signature": "s"}},
            ("s", "google", None),
        ),
        ({"provider_name": "openai", "id": "rs_1"}, (None, None, "rs_1")),
        ({"pydantic_ai": {"tool_kind": "x"}}, (None, None, None)),
    ],
)
def test_signature_of_reasoning_reaches_its_block(value: Any, signed: Any) -> None:
    assert blocks_of(thought("Hm.", value)) == (Reasoning(("Hm.",), *signed),)


def test_redacted_reasoning_is_a_block_of_its_own() -> None:
    packed = {"id": "redacted_thinking", "signature": "r", "provider_name": "anthropic"}
    for value in ("sn1-redacted.anthropic.r", packed):
        assert blocks_of(thought("", value)) == (RedactedReasoning("r", "anthropic"),)
    assert blocks_of(thought("Hm.", packed)) == (
        Reasoning(("Hm.",)),
        RedactedReasoning("r", "anthropic"),
    )
    assert blocks_of(thought("Hm.", {"id": "redacted_thinking"})) == (Reasoning(("Hm.",)),)


def test_signatures_of_texts_and_calls_reach_their_blocks() -> None:
    claim = json.dumps({"pydantic_ai": {"tool_kind": "x"}})
    assert blocks_of(
        said(
            "Hi",
            call(encryptedValue="sn1.google.s"),
            call("c2", encryptedValue=claim),
            encryptedValue="sn1.google.t",
        ),
        said("", encryptedValue="sn1.google.u"),
    ) == (
        Text("Hi", signature="t", issuer="google"),
        ToolCall("c1", "weather", '{"a":1}', signature="s", issuer="google"),
        ToolCall("c2", "weather", '{"a":1}'),
        Text("", signature="u", issuer="google"),
    )
    (message,) = messages_of(user(encryptedValue="e"))
    assert message.extra == {AG_UI: {"encryptedValue": "e"}}


def test_citations_of_our_own_stream_come_back() -> None:
    entry = {"url": "https://a.example/", "title": "A", "start": 0, "end": 2}
    (text,) = blocks_of(said("Hi", metadata={"citations": [entry, "x"]}))
    assert text.citations == (Citation("url_citation", "https://a.example/", "A", start=0, end=2),)


# Files


def source(kind: str, value: str, **fields: Any) -> dict[str, Any]:
    return {"source": {"type": kind, "value": value, **fields}}


@pytest.mark.parametrize(
    ("part", "block"),
    [
        ({"type": "image", **source("data", CAT, mimeType="image/png")}, Image("image/png", CAT)),
        (
            {"type": "image", **source("url", "https://a.example/x")},
            Image(None, url="https://a.example/x"),
        ),
        (
            {"type": "image", **source("url", f"data:image/gif;base64,{CAT}")},
            Image("image/gif", CAT),
        ),
        ({"type": "audio", **source("data", CAT, mimeType="audio/wav")}, Audio("audio/wav", CAT)),
        (
            {"type": "video", **source("url", "https://a.example/x", mimeType="video/mp4")},
            Video("video/mp4", url="https://a.example/x"),
        ),
        (
            {
                "type": "document",
                **source("data", CAT, mimeType="application/pdf"),
                "metadata": {"filename": "a.pdf"},
            },
            Document("application/pdf", CAT, title="a.pdf"),
        ),
        (
            {
                "type": "document",
                **source("url", "https://a.example/x"),
                "metadata": {"filename": 1},
            },
            Document(None, url="https://a.example/x"),
        ),
        (
            {"type": "document", **source("file", "f", provider="anthropic")},
            Document(file_id="f", issuer="anthropic"),
        ),
        (
            {"type": "binary", "mimeType": "image/png", "data": CAT},
            Image("image/png", CAT),
        ),
        (
            {"type": "binary", "mimeType": "application/pdf", "id": "f", "filename": "a.pdf"},
            Document("application/pdf", title="a.pdf", file_id="f"),
        ),
        (
            {"type": "binary", "mimeType": "text/plain", "url": "https://a.example/x"},
            Document("text/plain", url="https://a.example/x"),
        ),
    ],
)
def test_file_is_the_block_of_its_media_type(part: dict[str, Any], block: Any) -> None:
    assert blocks_of(user([part])) == (block,)


@pytest.mark.parametrize("name", ["threadId", "runId"])
def test_ids_that_each_event_repeats_are_bounded(name: str) -> None:
    assert decode_request(run(user(), **{name: "x" * 512}), AG_UI).messages
    with pytest.raises(DecodeError, match="longer than 512 characters") as caught:
        decode_request(run(user(), **{name: "x" * 513}), AG_UI)
    assert caught.value.path == f"$.{name}"


def test_answer_repeats_thread_and_run() -> None:
    body = run(user(), threadId="t-1", runId="r-1")
    echoed_fields = reader_of(lookup(AG_UI)).echoed_fields
    assert echoed_fields is not None
    assert echoed_fields(body) == {"threadId": "t-1", "runId": "r-1"}
    newer = {**body, "protocolVersion": "1.0"}
    assert echoed_fields(newer)["protocolVersion"] == "1.0"


def test_call_of_a_later_answer_may_have_the_id_of_an_earlier_one() -> None:
    first, second = ([said(None, call("c1")), tool("c1", sky)] for sky in ("rain", "sun"))
    results = [
        block
        for message in messages_of(user(), *first, user("And now?"), *second)
        for block in message.blocks
        if isinstance(block, ToolResult)
    ]
    assert results == [ToolResult("c1", (Text("rain"),)), ToolResult("c1", (Text("sun"),))]

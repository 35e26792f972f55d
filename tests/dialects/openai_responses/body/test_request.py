"""Requests as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.body_types import problems
from support.openai_responses.requests import bare, read, unread, write

from streamnorm import DecodeError
from streamnorm._core.blocks import (
    Document,
    Image,
    OpaqueBlock,
    Reasoning,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.bodies.request import InputMessage, ReasoningOptions, Request, Source
from streamnorm._core.tools import (
    CustomTool,
    Grammar,
    MCPServer,
    Namespace,
    ServerTool,
    Tool,
    ToolChoice,
)

OWN = "openai_responses"
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
GET = {"type": "function", "name": "get_weather", "parameters": WEATHER, "strict": False}


def test_text_is_a_message_of_the_user() -> None:
    request = read({"model": "m", "input": "a"})
    (message,) = request.messages
    assert bare(message) == InputMessage("user", (Text("a"),))
    longer = (message, InputMessage("assistant", (Text("b"),)))
    assert write(structs.replace(request, messages=longer)) == {
        "model": "m",
        "input": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
    }


def test_request_that_was_not_changed_is_its_body() -> None:
    body = {"model": "m", "input": [{"role": "user", "content": "a", "x": 1}], "y": {"z": None}}
    request = read(body)
    assert request.source == Source(OWN, body, bare(request))
    assert write(request) == body


def test_changed_request_keeps_what_was_not_changed() -> None:
    body = {
        "model": "m",
        "input": [{"type": "message", "role": "user", "content": "a", "x": 1}],
        "tools": [{"type": "function", "name": "f"}],
        "y": {"z": None},
    }
    changed = structs.replace(read(body), model="n")
    assert write(changed) == {**body, "model": "n"}


def test_request_of_another_dialect_is_not_stored_unless_it_says_so() -> None:
    """The API stores what does not say, other vendors store nothing."""
    messages = (InputMessage("user", (Text("a"),)),)
    items = [{"role": "user", "content": "a"}]
    assert write(Request(messages=messages)) == {"input": items, "store": False}
    assert write(Request(messages=messages, store=True)) == {"input": items, "store": True}
    own = read({"input": items})
    assert write(structs.replace(own, model="m")) == {"model": "m", "input": items}
    unsaid = read({"input": items, "store": None})
    assert write(bare(unsaid)) == {"input": items, "store": None}


def test_instructions_of_several_texts_are_one() -> None:
    assert write(Request(system=(Text("a"), Text("b"))))["instructions"] == "a\n\nb"


@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
def test_request_that_goes_on_needs_no_input(field: str) -> None:
    request = read({"model": "m", field: "x_1"})
    assert (request.messages, request.state) == ((), {field: "x_1"})
    assert write(structs.replace(request, model="n")) == {"model": "n", field: "x_1"}


def test_prompt_needs_no_input() -> None:
    request = read({"prompt": {"id": "pmpt_1"}, "input": None})
    assert write(bare(request)) == {"prompt": {"id": "pmpt_1"}, "input": None, "store": False}


def test_references_are_state_and_keep_their_place() -> None:
    items = [{"type": "item_reference", "id": "rs_1"}, {"role": "user", "content": "a"}]
    request = read({"input": items, "previous_response_id": "resp_1"})
    assert request.state == {"previous_response_id": "resp_1", "item_reference": ["rs_1"]}
    assert write(unread(request)) == {
        "input": items,
        "previous_response_id": "resp_1",
        "store": False,
    }


ADDED = {
    "type": "additional_tools",
    "role": "developer",
    "tools": [
        {"type": "namespace", "name": "functions", "description": "", "tools": [GET]},
        {"type": "custom", "name": "exec"},
        {"type": "web_search"},
        {"type": "mcp", "server_label": "wiki"},
        GET,
    ],
}


def test_tools_that_an_item_adds_join_those_of_the_request() -> None:
    request = read({"input": [ADDED], "tools": [GET]})
    assert [*map(bare, request.tools)] == [
        Tool("get_weather", input_schema=WEATHER, strict=False),
        Tool("get_weather", input_schema=WEATHER, strict=False, namespace=Namespace("functions")),
        CustomTool("exec"),
        ServerTool("web_search", OWN, {"type": "web_search"}),
        MCPServer("wiki"),
    ]


def test_tools_that_an_item_adds_are_written_with_it() -> None:
    other = {"type": "function", "name": "other", "parameters": {}, "strict": False}
    body = {"input": [ADDED], "tools": [other]}
    assert write(unread(read(body))) == {**body, "store": False}
    request = read(body)
    without = write(structs.replace(request, messages=()))
    assert [tool["type"] for tool in without["tools"]] == [
        *("function", "namespace", "custom", "web_search", "mcp", "function")
    ]


def test_tools_that_a_search_found_join_those_of_the_request() -> None:
    found = {"type": "tool_search_output", "call_id": "c", "tools": [GET]}
    body = {"input": [found], "tools": [{"type": "tool_search"}]}
    request = read(body)
    assert [type(tool) for tool in request.tools] == [ServerTool, Tool]
    (message,) = request.messages
    assert message.blocks == (ServerToolResult("c", "tool_search_output", found),)
    assert write(unread(request)) == {**body, "store": False}


@pytest.mark.parametrize(
    ("body", "path", "problem"),
    [
        ({}, "$.input", "missing, expected a string or an array"),
        ({"input": None}, "$.input", "missing, expected a string or an array"),
        ({"input": {}}, "$.input", "an object, expected a string or an array"),
        ({"model": 1, "input": ""}, "$.model", "an integer, expected a string"),
    ],
)
def test_other_bodies_are_refused(body: dict[str, Any], path: str, problem: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read(body)
    assert (caught.value.path, caught.value.args[0]) == (path, problem)


# The worked examples of the mapping, as the projection gives them to this dialect.
USER = InputMessage("user", (Text("Go"),))
GO = {"role": "user", "content": "Go"}
EXAMPLES: dict[str, tuple[Request, dict[str, Any]]] = {
    "parallel calls, an image in a result, an error, text after": (
        Request(
            tools=(Tool("shot", input_schema={"type": "object"}),),
            messages=(
                InputMessage("user", (Text("Look"),)),
                InputMessage(
                    "assistant",
                    (
                        Text("Looking."),
                        ToolCall("t1", "shot", "{}"),
                        ToolCall("t2", "get_weather", '{"city":"Rome"}'),
                    ),
                ),
                InputMessage(
                    "user",
                    (
                        ToolResult("t1", (Text("page"), Image("image/png", "iVBORw0="))),
                        ToolResult("t2", (Text("<tool_error>timeout</tool_error>"),)),
                        Text("go on"),
                    ),
                ),
            ),
        ),
        {
            "tools": [
                {
                    "type": "function",
                    "name": "shot",
                    "parameters": {"type": "object"},
                    "strict": False,
                }
            ],
            "input": [
                {"role": "user", "content": "Look"},
                {"role": "assistant", "content": "Looking."},
                {"type": "function_call", "call_id": "t1", "name": "shot", "arguments": "{}"},
                {
                    "type": "function_call",
                    "call_id": "t2",
                    "name": "get_weather",
                    "arguments": '{"city":"Rome"}',
                },
                {
                    "type": "function_call_output",
                    "call_id": "t1",
                    "output": [
                        {"type": "input_text", "text": "page"},
                        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0="},
                    ],
                },
                {
                    "type": "function_call_output",
                    "call_id": "t2",
                    "output": "<tool_error>timeout</tool_error>",
                },
                {"role": "user", "content": "go on"},
            ],
            "store": False,
        },
    ),
    "reasoning of two parts, encrypted, in a loop": (
        Request(
            store=False,
            reasoning=ReasoningOptions(effort="high", show="auto"),
            extra={OWN: {"include": ["reasoning.encrypted_content"]}},
            messages=(
                InputMessage("user", (Text("Rome?"),)),
                InputMessage(
                    "assistant",
                    (
                        Reasoning(
                            ("One.", "Two."), "gAAAAABo", "openai", extra={OWN: {"id": "rs_1"}}
                        ),
                        ToolCall("c1", "get_weather", "{}", extra={OWN: {"id": "fc_1"}}),
                    ),
                ),
                InputMessage("user", (ToolResult("c1", (Text("18 °C"),)),)),
            ),
        ),
        {
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": "high", "summary": "auto"},
            "input": [
                {"role": "user", "content": "Rome?"},
                {
                    "type": "reasoning",
                    "id": "rs_1",
                    "summary": [
                        {"type": "summary_text", "text": "One."},
                        {"type": "summary_text", "text": "Two."},
                    ],
                    "encrypted_content": "gAAAAABo",
                },
                {
                    "type": "function_call",
                    "id": "fc_1",
                    "call_id": "c1",
                    "name": "get_weather",
                    "arguments": "{}",
                },
                {"type": "function_call_output", "call_id": "c1", "output": "18 °C"},
            ],
        },
    ),
    "custom tool": (
        Request(
            store=False,
            tools=(CustomTool("apply_patch", "Edit files.", Grammar("lark", "start: /.+/")),),
            messages=(
                USER,
                InputMessage("assistant", (ToolCall("c1", "apply_patch", '*** "x"\n', "custom"),)),
                InputMessage("user", (ToolResult("c1", (Text("ok"),)),)),
            ),
        ),
        {
            "store": False,
            "tools": [
                {
                    "type": "custom",
                    "name": "apply_patch",
                    "description": "Edit files.",
                    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
                }
            ],
            "input": [
                GO,
                {
                    "type": "custom_tool_call",
                    "call_id": "c1",
                    "name": "apply_patch",
                    "input": '*** "x"\n',
                },
                {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"},
            ],
        },
    ),
    "allowed tools, required, no parallel calls": (
        Request(
            store=False,
            messages=(USER,),
            tools=(
                Tool("get_weather", input_schema=WEATHER, strict=False),
                Tool("f", input_schema={}, strict=True),
            ),
            tool_choice=ToolChoice("required", ("get_weather",)),
            parallel_tool_calls=False,
        ),
        {
            "store": False,
            "tools": [GET, {"type": "function", "name": "f", "parameters": {}, "strict": True}],
            "tool_choice": {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "get_weather"}],
            },
            "parallel_tool_calls": False,
            "input": [GO],
        },
    ),
    "effort, limits, sampling, identity": (
        Request(
            messages=(USER,),
            max_tokens=16000,
            reasoning=ReasoningOptions(effort="xhigh"),
            temperature=1.4,
            top_p=0.9,
            user="u-1",
            service_tier="flex",
            metadata={"k": "v"},
            store=False,
        ),
        {
            "max_output_tokens": 16000,
            "reasoning": {"effort": "xhigh"},
            "temperature": 1.4,
            "top_p": 0.9,
            "user": "u-1",
            "service_tier": "flex",
            "metadata": {"k": "v"},
            "input": [GO],
            "store": False,
        },
    ),
    "namespace and deferred tool": (
        Request(
            store=False,
            tools=(
                Tool(
                    "list",
                    input_schema=WEATHER,
                    strict=False,
                    deferred=True,
                    namespace=Namespace("crm", "CRM"),
                ),
                ServerTool("tool_search", OWN, {"type": "tool_search"}),
            ),
            messages=(
                USER,
                InputMessage("assistant", (ToolCall("c1", "list", "{}", namespace="crm"),)),
                InputMessage("user", (ToolResult("c1", (Text("ok"),)),)),
            ),
        ),
        {
            "store": False,
            "tools": [
                {
                    "type": "namespace",
                    "name": "crm",
                    "description": "CRM",
                    "tools": [{**GET, "name": "list", "defer_loading": True}],
                },
                {"type": "tool_search"},
            ],
            "input": [
                GO,
                {
                    "type": "function_call",
                    "call_id": "c1",
                    "name": "list",
                    "arguments": "{}",
                    "namespace": "crm",
                },
                {"type": "function_call_output", "call_id": "c1", "output": "ok"},
            ],
        },
    ),
    "documents by content, URL and id": (
        Request(
            store=False,
            messages=(
                InputMessage(
                    "user",
                    (
                        Document("application/pdf", "JVBERi0=", title="a.pdf"),
                        Document(url="https://a/b.pdf"),
                        Image(file_id="file_1", detail="auto", issuer="openai"),
                    ),
                ),
            ),
        ),
        {
            "store": False,
            "input": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "input_file",
                            "filename": "a.pdf",
                            "file_data": "data:application/pdf;base64,JVBERi0=",
                        },
                        {"type": "input_file", "file_url": "https://a/b.pdf"},
                        {"type": "input_image", "file_id": "file_1", "detail": "auto"},
                    ],
                }
            ],
        },
    ),
}


@pytest.mark.parametrize(("request_", "body"), EXAMPLES.values(), ids=EXAMPLES)
def test_worked_example(request_: Request, body: dict[str, Any]) -> None:
    assert write(request_) == body
    assert problems(OWN, body) == []


@pytest.mark.parametrize(("request_", "body"), [*EXAMPLES.values()][1:], ids=[*EXAMPLES][1:])
def test_worked_example_is_read(request_: Request, body: dict[str, Any]) -> None:
    """The first is not the same: its results are a message each, and it is stored."""
    assert unread(read(body)) == request_


def test_opaque_parts_stay() -> None:
    part = OpaqueBlock(OWN, "input_audio", '{"type":"input_audio"}')
    request = read({"input": [{"role": "user", "content": [{"type": "input_audio"}]}]})
    assert request.messages[0].blocks == (part,)
    assert write(unread(request))["input"][0]["content"] == [{"type": "input_audio"}]

"""The worked examples of the mapping, as this dialect has them."""

from __future__ import annotations

from typing import Any

import pytest
from support.bodies.sdk_types import problems
from support.openai_responses.requests import read, unread, write

from streamnorm._core.blocks import (
    Document,
    Image,
    OpaqueBlock,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from streamnorm._core.bodies.request import InputMessage, ReasoningOptions, Request
from streamnorm._core.tools import (
    CustomTool,
    Grammar,
    Namespace,
    ServerTool,
    Tool,
    ToolChoice,
)

OWN = "openai_responses"
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
GET = {"type": "function", "name": "get_weather", "parameters": WEATHER, "strict": False}


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
                        Reasoning(("One.", "Two."), "gAAAAABo", "openai", "rs_1"),
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
            extra={OWN: {"include": ["reasoning.encrypted_content"]}},
        ),
        {
            "max_output_tokens": 16000,
            "reasoning": {"effort": "xhigh"},
            "include": ["reasoning.encrypted_content"],
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

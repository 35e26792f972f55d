"""Requests as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.openai_responses.requests import bare, read, unread, write

from streamnorm import DecodeError
from streamnorm._core.blocks import (
    ServerToolResult,
    Text,
)
from streamnorm._core.bodies.request import InputMessage, Request, Source
from streamnorm._core.tools import (
    CustomTool,
    MCPServer,
    Namespace,
    ServerTool,
    Tool,
)
from streamnorm.dialects.openai_responses.body.request import input_items

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


def test_later_item_replaces_the_tools_that_it_defines_again() -> None:
    """Codex defines its tools anew after `/model`; providers refuse two tools of one name."""
    first = {"type": "custom", "name": "exec", "description": "Runs a command."}
    last = {"type": "custom", "name": "exec", "description": "Runs a script."}

    def add(*tools: dict[str, Any]) -> dict[str, Any]:
        group = {"type": "namespace", "name": "functions", "description": "", "tools": [*tools]}
        return {"type": "additional_tools", "role": "developer", "tools": [group]}

    body = {"input": [add(first, GET), add(last)]}
    request = read(body)
    functions = Namespace("functions")
    assert [*map(bare, request.tools)] == [
        CustomTool("exec", "Runs a script.", namespace=functions),
        Tool("get_weather", input_schema=WEATHER, strict=False, namespace=functions),
    ]
    assert write(unread(request)) == {**body, "store": False}


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


def test_items_of_the_input() -> None:
    item = {"role": "user", "content": "Hi."}
    assert input_items({}) == []
    assert input_items({"input": [item]}) == [item]

"""Requests of the Interactions API, field by field, in both directions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.gemini_interactions.refusals import FUNCTION, MODEL, call, request, result, said

from streamnorm import (
    DecodeError,
    EncodeError,
    InputMessage,
    OutputFormat,
    ReasoningOptions,
    Request,
    Text,
    Tool,
    ToolChoice,
    decode_request,
    encode_request,
    translate_request,
)
from streamnorm._core.codec import WriteContext
from streamnorm._core.losses import Losses
from streamnorm.dialects.gemini_interactions.body.request import REQUEST_CAPABILITIES, write_request
from streamnorm.tools import CustomTool, MCPServer, ServerTool

OWN = "gemini_interactions"
QUESTION = (InputMessage("user", (Text("q"),)),)


def read(**fields: Any) -> Request:
    return decode_request(request(**fields), OWN)


def written(**fields: Any) -> dict[str, Any]:
    """Return the fields of a request of another dialect that are written, but for the question."""
    made = encode_request(Request(model=MODEL, messages=QUESTION, **fields), OWN)
    assert made.body.pop("input") == [said()]
    assert made.body.pop("model") == MODEL
    return made.body


def losses(**fields: Any) -> dict[str, str]:
    made = encode_request(Request(model=MODEL, messages=QUESTION, **fields), OWN)
    return {loss.feature: loss.detail for loss in made.losses}


def test_path_and_revision_are_those_of_the_api() -> None:
    made = encode_request(Request(model=MODEL, messages=QUESTION), OWN)
    assert (made.path, made.headers) == ("/v1beta/interactions", {"api-revision": "2026-05-20"})


@pytest.mark.parametrize(
    ("fields", "wire"),
    [
        ({"system": (Text("a"),)}, {"system_instruction": "a"}),
        ({"temperature": 0.5}, {"generation_config": {"temperature": 0.5}}),
        ({"top_p": 1}, {"generation_config": {"top_p": 1}}),
        ({"seed": 7}, {"generation_config": {"seed": 7}}),
        ({"max_tokens": 9}, {"generation_config": {"max_output_tokens": 9}}),
        ({"stop": ("a", "b")}, {"generation_config": {"stop_sequences": ["a", "b"]}}),
        (
            {"reasoning": ReasoningOptions(effort="low", show="auto")},
            {"generation_config": {"thinking_level": "low", "thinking_summaries": "auto"}},
        ),
        (
            {"reasoning": ReasoningOptions(show="none")},
            {"generation_config": {"thinking_summaries": "none"}},
        ),
        (
            {"output": OutputFormat("json_object")},
            {"response_format": {"type": "text", "mime_type": "application/json"}},
        ),
        (
            {"output": OutputFormat("text")},
            {"response_format": {"type": "text", "mime_type": "text/plain"}},
        ),
        (
            {"output": OutputFormat("json_schema", {"type": "object"}, strict=True)},
            {
                "response_format": {
                    "type": "text",
                    "mime_type": "application/json",
                    "schema": {"type": "object"},
                }
            },
        ),
        ({"service_tier": "default"}, {"service_tier": "standard"}),
        ({"service_tier": "flex"}, {"service_tier": "flex"}),
        ({"stream": True}, {"stream": True}),
    ],
)
def test_field_goes_both_ways(fields: dict[str, Any], wire: dict[str, Any]) -> None:
    assert written(**fields) == {**wire, "store": False}
    found = read(**wire)
    for name, value in fields.items():
        assert getattr(found, name) == value
    assert found.extra is None


def test_format_alone_in_a_list_is_the_output() -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    wire = [{"type": "text", "mime_type": "application/json", "schema": schema}]
    found = read(response_format=wire)
    assert (found.output, found.extra) == (OutputFormat("json_schema", schema, strict=True), None)
    assert encode_request(found, OWN).body["response_format"] is wire
    body = encode_request(found, "anthropic").body
    assert body["output_config"] == {"format": {"type": "json_schema", "schema": schema}}
    others = [*wire, {"type": "image"}]
    assert read(response_format=others).extra == {OWN: {"response_format": others}}


@pytest.mark.parametrize(("store", "wire"), [(None, False), (False, False), (True, True)])
def test_answer_is_stored_only_if_a_client_asks_for_it(store: bool | None, wire: bool) -> None:
    assert written(store=store) == {"store": wire}


def test_own_request_is_stored_as_it_says() -> None:
    body = request(labels={"a": "b"})
    made = encode_request(decode_request(body, OWN), OWN)
    assert made.body == body
    changed = decode_request(body, OWN)
    changed = Request(**{**{n: getattr(changed, n) for n in changed.__struct_fields__}, "seed": 1})
    assert encode_request(changed, OWN).body == {**body, "generation_config": {"seed": 1}}


@pytest.mark.parametrize(
    "wire",
    [
        {"response_format": [{"type": "text"}]},
        {"response_format": {"type": "image"}},
        {"response_format": {"type": "text"}},
        {"service_tier": "deferred"},
        {"labels": {"a": "b"}},
        {"generation_config.thinking_level": "most"},
        {"generation_config.thinking_summaries": "all"},
        {"generation_config.tool_choice": "validated"},
        {"generation_config.tool_choice": {"allowed_tools": {"mode": "none", "tools": ["f"]}}},
        {"generation_config.speech_config": {"voice": "a"}},
        {"background": False},
    ],
)
def test_field_without_a_unified_one_is_unknown(wire: dict[str, Any]) -> None:
    ((path, value),) = wire.items()
    outer, _, inner = path.partition(".")
    found = read(**{outer: {inner: value} if inner else value})
    assert found.extra == {OWN: wire}
    assert encode_request(found, OWN).body[outer] == ({inner: value} if inner else value)


@pytest.mark.parametrize(
    ("choice", "wire"),
    [
        (ToolChoice("auto"), "auto"),
        (ToolChoice("required"), "any"),
        (ToolChoice("none"), "none"),
        (ToolChoice("named", ("f",)), {"allowed_tools": {"mode": "any", "tools": ["f"]}}),
        (ToolChoice("auto", ("f",)), {"allowed_tools": {"mode": "auto", "tools": ["f"]}}),
        (
            ToolChoice("required", ("f", "g")),
            {"allowed_tools": {"mode": "any", "tools": ["f", "g"]}},
        ),
    ],
)
def test_tool_choice_goes_both_ways(choice: ToolChoice, wire: Any) -> None:
    tools = (Tool("f", None, {"type": "object"}), Tool("g", None, {"type": "object"}))
    found = written(tools=tools, tool_choice=choice)
    assert found["generation_config"] == {"tool_choice": wire}
    assert read(tools=[FUNCTION], generation_config={"tool_choice": wire}).tool_choice == choice


TOOLS: list[tuple[Any, dict[str, Any]]] = [
    (
        Tool("f", "d", {"type": "object"}, deferred=True),
        {**FUNCTION, "description": "d", "defer_loading": True},
    ),
    (
        MCPServer("s", "https://s.org", "secret", {"x": "y"}, require_approval="never"),
        {
            "type": "mcp_server",
            "name": "s",
            "url": "https://s.org",
            "headers": {"x": "y", "Authorization": "Bearer secret"},
        },
    ),
]


@pytest.mark.parametrize(("tool", "wire"), TOOLS)
def test_tool_goes_both_ways(tool: Any, wire: dict[str, Any]) -> None:
    made = read(tools=[wire, FUNCTION])
    (found, _) = made.tools
    again = Request(model=MODEL, messages=QUESTION, tools=(*made.tools, Tool("g")))
    assert encode_request(again, OWN).body["tools"][:2] == [wire, FUNCTION]
    for name in tool.__struct_fields__:
        if name != "source":
            assert getattr(found, name) == getattr(tool, name)
    assert written(tools=(tool,))["tools"] == [wire]


def test_server_tools_of_other_vendors_are_those_of_google() -> None:
    tools = (ServerTool("web_search", "anthropic"), ServerTool("code_execution", "anthropic"))
    assert written(tools=tools)["tools"] == [{"type": "google_search"}, {"type": "code_execution"}]
    own = {"type": "google_search", "search_types": ["web_search"]}
    found = read(tools=[own])
    assert (found.tools[0].kind, found.tools[0].data) == ("web_search", own)  # type: ignore[union-attr]
    changed = ServerTool("web_search", OWN, own)
    assert written(tools=(changed,))["tools"] == [own]
    assert read(tools=[{"type": "newer"}]).tools[0].kind == "newer"  # type: ignore[union-attr]


def test_parts_of_a_request_that_are_lost() -> None:
    strict = Tool("f", None, {"type": "object"}, strict=True)
    asking = MCPServer("s", "https://s.org", None, {}, require_approval="always")
    assert losses(tools=(strict, asking)) == {
        "strict": "dropped",
        "require_approval": "calls are made without approval",
    }
    schema = OutputFormat("json_schema", {"type": "object"}, "n", "d", strict=False)
    assert losses(output=schema) == {
        "schema_name": "dropped",
        "schema_description": "dropped",
        "schema_strict": "enforced",
    }
    shown = losses(reasoning=ReasoningOptions(effort="low", show="detailed"))
    assert shown == {"reasoning_summary": "written as auto"}
    assert losses(top_k=3) == {"top_k": "dropped"}
    assert losses(system=(Text("a"), Text("b"))) == {"boundaries": "joined by a blank line"}
    assert losses(reasoning=ReasoningOptions(effort="low")) == {}


@pytest.mark.parametrize(
    "name", ["previous_interaction_id", "cached_content", "continuation_token"]
)
def test_state_needs_no_input(name: str) -> None:
    body = {"model": MODEL, name: "v1", "background": True}
    found = decode_request(body, OWN)
    assert found.state == {name: "v1", "background": True}
    assert encode_request(found, OWN).body == body
    changed = Request(model=MODEL, state={name: "v1"})
    context = WriteContext(REQUEST_CAPABILITIES, Losses())
    assert write_request(changed, context).body == {"model": MODEL, name: "v1", "store": False}
    with pytest.raises(EncodeError):
        encode_request(found, "openai_chat")


def test_state_of_another_provider_is_refused() -> None:
    context = WriteContext(REQUEST_CAPABILITIES, Losses())
    with pytest.raises(EncodeError, match="state of another provider"):
        write_request(Request(messages=QUESTION, state={"prompt": {}}), context)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"model": MODEL}, r"^\$\.input: missing, expected a string or an array"),
        ({"input": 7}, r"^\$\.input: an integer, expected a string or an array"),
        ({"input": [{"type": "user_input"}, 7]}, r"^\$\.input\[1\]: an integer"),
        ({"input": [{}]}, r"^\$\.input\[0\]\.type: missing"),
        ({"input": [{"type": []}]}, r"^\$\.input\[0\]\.type: an array, expected a string"),
        ({"input": [result(result=7)]}, r"^\$\.input\[0\]\.result: an integer"),
        ({"input": [call(arguments="{}")]}, r"^\$\.input\[0\]\.arguments: a string"),
        (request(model=7), r"^\$\.model: an integer"),
        (request(tools=[{}]), r"^\$\.tools\[0\]\.type: missing"),
        (
            request(tools=[{"type": "mcp_server", "headers": {"a": 1}}]),
            r"^\$\.tools\[0\]\.headers: an integer",
        ),
        (
            request(generation_config={"tool_choice": {}}),
            r"^\$\.generation_config\.tool_choice\.allowed_tools: null, expected an object",
        ),
        (request(generation_config={"seed": "1"}), r"^\$\.generation_config\.seed: a string"),
    ],
)
def test_body_that_is_no_request_is_refused(body: dict[str, Any], message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decode_request(body, OWN)


def test_another_revision_of_the_api_is_refused() -> None:
    headers = {"api-revision": "2025-12-01"}
    with pytest.raises(DecodeError, match="another revision of the API, expected 2026-05-20"):
        decode_request(request(), OWN, headers=headers)
    assert decode_request(request(), OWN, headers={"api-revision": "2026-05-20"}).model == MODEL


def test_custom_tool_is_refused_where_nothing_projects_it() -> None:
    context = WriteContext(REQUEST_CAPABILITIES, Losses())
    with pytest.raises(EncodeError, match="CustomTool without an equivalent"):
        write_request(Request(messages=QUESTION, tools=(CustomTool("f"),)), context)
    bare = write_request(Request(messages=QUESTION, tools=(MCPServer("s"),)), context)
    assert bare.body["tools"] == [{"type": "mcp_server", "name": "s"}]


def test_budget_of_tokens_is_an_effort() -> None:
    options = ReasoningOptions(mode="budget", budget_tokens=1024)
    assert written(reasoning=options)["generation_config"] == {"thinking_level": "minimal"}
    assert losses(reasoning=options) == {"budget_changed": "written as the effort minimal"}


def test_choice_without_tools_is_lost() -> None:
    assert "tool_choice" not in written(tool_choice=ToolChoice("none"))
    assert losses(tool_choice=ToolChoice("none")) == {"tool_choice": "dropped without tools"}


@pytest.mark.parametrize("functions", [(), (Tool("f", None, {"type": "object"}),)], ids=len)
def test_forced_server_tool_forces_no_function(functions: tuple[Tool, ...]) -> None:
    """`any` demands a call of a function."""
    tools = (*functions, ServerTool("web_search", "openai_responses"))
    choice = ToolChoice("named", kind="web_search")
    made = written(tools=tools, tool_choice=choice)
    assert made["generation_config"] == {"tool_choice": "auto"}
    assert losses(tools=tools, tool_choice=choice) == {
        "tool_choice_weakened": "server tools cannot be named"
    }


def test_answer_at_the_end_is_not_continued() -> None:
    messages = (*QUESTION, InputMessage("assistant", (Text("a"),)))
    made = encode_request(Request(model=MODEL, messages=messages), OWN)
    assert [loss.feature for loss in made.losses] == ["prefill_not_continued"]


TO_AGENT = {"agent": "deep-research-pro-preview-12-2025", "input": "Hi"}


@pytest.mark.parametrize("to", ["anthropic", "gemini", "openai_chat", "openai_responses"])
def test_agent_is_no_model_of_another_provider(to: str) -> None:
    with pytest.raises(EncodeError) as raised:
        translate_request(TO_AGENT, to=to, dialect="gemini_interactions")
    expected = ("an agent of another provider, expected a model", "model")
    assert (raised.value.args[0], raised.value.path) == expected
    request = decode_request(TO_AGENT, "gemini_interactions")
    encoded = encode_request(structs.replace(request, model="m"), to)
    assert "agent" in [loss.feature for loss in encoded.losses]
    assert encoded.path
    own = encode_request(request, "gemini_interactions")
    assert (own.body, own.losses) == (TO_AGENT, ())


@pytest.mark.parametrize("more", [{}, {"webhook_config": {"uris": []}}])
def test_request_without_model_or_agent_is_left_to_the_url(more: dict[str, Any]) -> None:
    body = {"input": "Hi", **more}
    encoded = translate_request(body, to="openai_chat", dialect="gemini_interactions")
    assert not encoded.body.get("model")

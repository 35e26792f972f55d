"""Requests field by field: options, those of single models, tools, and the path."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from streamnorm import (
    CacheMark,
    DecodeError,
    EncodeError,
    InputMessage,
    OutputFormat,
    ReasoningOptions,
    Request,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    decode_request,
    encode_request,
)
from streamnorm.dialects.bedrock_converse.body.tools import _tool_to_wire
from streamnorm.tools import CustomTool, ServerTool

DIALECT = "bedrock_converse"
QUESTION = {"role": "user", "content": [{"text": "q"}]}
CLAUDE, NOVA = "anthropic.claude-sonnet-4-6", "us.amazon.nova-2-lite-v1:0"
SCHEMA = {"type": "object", "properties": {}}


def body(**fields: Any) -> dict[str, Any]:
    return {"messages": [QUESTION], **fields}


def read(**fields: Any) -> Request:
    return decode_request(body(**fields), DIALECT)


def asked(**fields: Any) -> Request:
    return Request(messages=(InputMessage("user", (Text("q"),)),), **fields)


def write(request: Request) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of a body besides its messages, and the losses."""
    encoded = encode_request(request, DIALECT)
    fields = {name: item for name, item in encoded.body.items() if name != "messages"}
    return fields, [loss.feature for loss in encoded.losses]


def test_inference_config_goes_both_ways() -> None:
    config = {"maxTokens": 5, "temperature": 0.5, "topP": 0.9, "stopSequences": ["a"]}
    options: dict[str, Any] = {"max_tokens": 5, "temperature": 0.5, "top_p": 0.9, "stop": ("a",)}
    found = read(inferenceConfig=config)
    assert {name: getattr(found, name) for name in options} == options
    assert write(asked(**options)) == ({"inferenceConfig": config}, [])


def test_bounds_of_the_api_are_kept() -> None:
    fields, losses = write(asked(temperature=2, top_p=1.5, max_tokens=0, stop=("", "a")))
    assert fields == {
        "inferenceConfig": {"maxTokens": 1, "temperature": 1, "topP": 1, "stopSequences": ["a"]}
    }
    assert losses == ["temperature_clamped", "top_p", "max_tokens_raised", "stop_dropped"]
    assert write(asked(stop=("",)))[0] == {}


def test_system_prompt_goes_both_ways() -> None:
    guard = {"guardContent": {"text": {"text": "g", "qualifiers": ["query"]}}}
    hour = {"cachePoint": {"type": "default", "ttl": "1h"}}
    system = [{"text": "s"}, hour, guard]
    texts = (
        Text("s", cache=CacheMark("1h")),
        Text("g", extra={DIALECT: {"guardContent": {"qualifiers": ["query"]}}}),
    )
    assert read(system=system).system == texts
    assert write(asked(system=texts)) == ({"system": system}, [])
    point = {"cachePoint": {"type": "default"}}
    assert read(system=[point]).system == (Text("", cache=CacheMark()),)
    longer = structs.replace(read(system=[point]), system=(Text("", cache=CacheMark()), Text("s")))
    assert write(longer) == ({"system": [{"text": "s"}]}, [])


@pytest.mark.parametrize("block", [{"image": {}}, {"text": 1}])
def test_system_prompt_has_texts_alone(block: dict[str, Any]) -> None:
    with pytest.raises(DecodeError) as refused:
        read(system=[{"text": "s"}, block])
    assert refused.value.path == "$.system[1]"


@pytest.mark.parametrize(
    ("message", "path"),
    [
        ({"content": []}, "$.messages[0].role"),
        ({"role": "tool", "content": []}, "$.messages[0].role"),
        ({"role": "user", "content": "q"}, "$.messages[0].content"),
    ],
)
def test_message_of_another_form_is_an_error(message: dict[str, Any], path: str) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_request({"messages": [message]}, DIALECT)
    assert refused.value.path == path


def test_request_without_messages_is_an_error() -> None:
    with pytest.raises(DecodeError, match="missing, expected an array"):
        decode_request({}, DIALECT)
    with pytest.raises(EncodeError, match="expected one of the user before it"):
        encode_request(Request(messages=(InputMessage("assistant", (Text("a"),)),)), DIALECT)


def test_message_of_which_nothing_can_be_written_is_dropped() -> None:
    answer = InputMessage("assistant", (Text("a"),))
    blank = InputMessage("user", (Text(" "),), extra={DIALECT: {"odd": 1}})
    request = structs.replace(asked(), messages=(*asked().messages, answer, blank))
    encoded = encode_request(request, DIALECT)
    assert len(encoded.body["messages"]) == 2
    assert [loss.feature for loss in encoded.losses] == ["empty_message_dropped"]


def test_unknown_fields_stay() -> None:
    extra = {"guardrailConfig": {"guardrailIdentifier": "g"}, "requestMetadata": {"a": "b"}}
    found = read(**extra, inferenceConfig={})
    assert found.extra == {DIALECT: {**extra, "inferenceConfig": {}}}
    assert write(structs.replace(found, temperature=1))[0] == {
        **extra,
        "inferenceConfig": {"temperature": 1},
    }


@pytest.mark.parametrize(
    ("tier", "unified"), [("default", "default"), ("flex", "flex"), ("reserved", None)]
)
def test_service_tier(tier: str, unified: str | None) -> None:
    assert read(serviceTier={"type": tier}).service_tier == unified
    if unified is not None:
        assert write(asked(service_tier=unified)) == ({"serviceTier": {"type": tier}}, [])


def test_service_tier_of_another_type_is_an_error() -> None:
    with pytest.raises(DecodeError) as refused:
        read(serviceTier={"type": []})
    assert refused.value.path == "$.serviceTier.type"


# Options of single models


@pytest.mark.parametrize(
    ("options", "output", "fields"),
    [
        (
            {"thinking": {"type": "enabled", "budget_tokens": 2000, "display": "omitted"}},
            {},
            {"reasoning": ReasoningOptions("budget", None, 2000, "none")},
        ),
        (
            {"thinking": {"type": "adaptive", "display": "updates", "odd": 1}},
            {"effort": "high"},
            {
                "reasoning": ReasoningOptions(
                    "adaptive",
                    "high",
                    extra={DIALECT: {"display": "updates", "odd": 1}},
                )
            },
        ),
        (
            {"reasoning_config": {"type": "disabled"}},
            {},
            {"reasoning": ReasoningOptions("off")},
        ),
        (
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
            {},
            {"reasoning": ReasoningOptions("adaptive", "low")},
        ),
        ({"reasoning_effort": "low"}, {}, {"reasoning": ReasoningOptions(None, "low")}),
        (
            {"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}},
            {},
            {"reasoning": ReasoningOptions("adaptive", "low")},
        ),
        (
            {"reasoningConfig": {"type": "disabled"}},
            {},
            {"reasoning": ReasoningOptions("off")},
        ),
        ({"top_k": 5}, {}, {"top_k": 5}),
        ({"inferenceConfig": {"topK": 5}}, {}, {"top_k": 5}),
        ({"anthropic_beta": ["a", "b"]}, {}, {"betas": ("a", "b")}),
    ],
    ids=str,
)
def test_option_of_a_model_is_read(
    options: dict[str, Any], output: dict[str, Any], fields: dict[str, Any]
) -> None:
    given = {"additionalModelRequestFields": options, "outputConfig": output}
    found = read(**{name: item for name, item in given.items() if item})
    assert {name: getattr(found, name) for name in fields} == fields
    assert found.extra is None


@pytest.mark.parametrize(
    ("given", "rest"),
    [
        ({"thinking": {"type": "odd"}}, {"thinking": {"type": "odd"}}),
        (
            {"thinking": {"type": "adaptive"}, "reasoning_config": {"type": "disabled"}},
            {"reasoning_config": {"type": "disabled"}},
        ),
        (
            {"thinking": {"type": "adaptive"}, "reasoningConfig": {"type": "enabled"}},
            {"reasoningConfig": {"type": "enabled"}},
        ),
        (
            {"reasoningConfig": {"type": "enabled", "odd": 1}},
            {"reasoningConfig": {"odd": 1}},
        ),
        ({"output_config": {"odd": 1}}, {"output_config": {"odd": 1}}),
        (
            {"reasoning_effort": "low", "output_config": {"effort": "high"}},
            {"output_config": {"effort": "high"}},
        ),
        (
            {"top_k": 1, "inferenceConfig": {"topK": 2}},
            {"inferenceConfig": {"topK": 2}},
        ),
        ({"inferenceConfig": {"topK": 2, "odd": 1}}, {"inferenceConfig": {"odd": 1}}),
        ({"inferenceConfig": {"odd": 1}}, {"inferenceConfig": {"odd": 1}}),
        ({"tool_choice": {}}, {"tool_choice": {}}),
        ({}, {}),
    ],
    ids=str,
)
def test_what_no_option_holds_is_kept(given: dict[str, Any], rest: dict[str, Any]) -> None:
    found = read(additionalModelRequestFields=given)
    assert found.extra == {DIALECT: {"additionalModelRequestFields": rest}}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        (
            {"additionalModelRequestFields": {"thinking": 1}},
            "$.additionalModelRequestFields.thinking",
        ),
        (
            {"additionalModelRequestFields": {"output_config": {"effort": 1}}},
            "$.additionalModelRequestFields.output_config.effort",
        ),
        ({"outputConfig": {"effort": 1}}, "$.outputConfig.effort"),
    ],
)
def test_option_of_another_type_is_an_error(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(DecodeError) as refused:
        read(**fields)
    assert refused.value.path == path


FORMAT = {
    "type": "json_schema",
    "structure": {
        "jsonSchema": {
            "schema": '{"type":"object","additionalProperties":false}',
            "name": "n",
            "description": "d",
        }
    },
}


def test_output_format_goes_both_ways() -> None:
    schema = {"type": "object", "additionalProperties": False}
    output = OutputFormat("json_schema", schema, "n", "d", strict=True)
    assert read(outputConfig={"textFormat": FORMAT}).output == output
    assert write(asked(output=output)) == ({"outputConfig": {"textFormat": FORMAT}}, [])
    loose = structs.replace(output, strict=False, name=None, description=None)
    fields, losses = write(asked(output=loose))
    definition = fields["outputConfig"]["textFormat"]["structure"]["jsonSchema"]
    assert definition == {"schema": FORMAT["structure"]["jsonSchema"]["schema"]}  # type: ignore[index]
    assert "schema_strict" in losses
    assert write(asked(output=OutputFormat("text"))) == ({}, [])


@pytest.mark.parametrize(
    "form",
    [
        {"type": "odd"},
        {"type": "json_schema", "structure": {"jsonSchema": {"schema": "no JSON"}}},
        {"type": "json_schema", "structure": {"jsonSchema": {}}},
    ],
)
def test_output_format_of_an_unknown_form_is_kept(form: dict[str, Any]) -> None:
    found = read(outputConfig={"textFormat": form})
    assert (found.output, found.extra) == (
        None,
        {DIALECT: {"outputConfig": {"textFormat": form}}},
    )


@pytest.mark.parametrize(
    ("reasoning", "fields", "losses"),
    [
        (
            ReasoningOptions("budget", None, 2000, "none"),
            {
                "additionalModelRequestFields": {
                    "thinking": {"type": "enabled", "budget_tokens": 2000, "display": "omitted"}
                }
            },
            [],
        ),
        (
            ReasoningOptions("adaptive", "high", None, "detailed"),
            {
                "additionalModelRequestFields": {
                    "thinking": {"type": "adaptive", "display": "summarized"}
                },
                "outputConfig": {"effort": "high"},
            },
            ["reasoning_summary"],
        ),
        (
            ReasoningOptions("off", None, None, "auto"),
            {"additionalModelRequestFields": {"thinking": {"type": "disabled"}}},
            ["reasoning_summary"],
        ),
        (ReasoningOptions(None, None, None, "auto"), {}, ["reasoning_summary"]),
        (
            ReasoningOptions("off"),
            {"additionalModelRequestFields": {"thinking": {"type": "disabled"}}},
            [],
        ),
    ],
    ids=str,
)
def test_reasoning_is_asked_for_as_claude_has_it(
    reasoning: ReasoningOptions, fields: dict[str, Any], losses: list[str]
) -> None:
    assert write(asked(reasoning=reasoning)) == (fields, losses)


def test_reasoning_is_asked_for_as_the_model_has_it() -> None:
    effort = ReasoningOptions(None, "low")
    assert write(asked(reasoning=effort, model=NOVA))[0] == {
        "additionalModelRequestFields": {
            "reasoningConfig": {"type": "enabled", "maxReasoningEffort": "low"}
        }
    }
    assert write(asked(reasoning=ReasoningOptions("off"), model=NOVA))[0] == {
        "additionalModelRequestFields": {"reasoningConfig": {"type": "disabled"}}
    }
    assert write(asked(reasoning=effort, model="openai.gpt-oss-120b-1:0"))[0] == {
        "additionalModelRequestFields": {"reasoning_effort": "low"}
    }
    assert write(asked(reasoning=ReasoningOptions("adaptive"), model=NOVA)) == ({}, ["reasoning"])
    assert write(asked(top_k=5, model=NOVA))[0] == {
        "additionalModelRequestFields": {"inferenceConfig": {"topK": 5}}
    }
    assert write(asked(reasoning=effort, model="meta.llama3-1-70b-instruct-v1:0")) == (
        {},
        ["reasoning"],
    )


@pytest.mark.parametrize(
    ("model", "takes_stops"),
    [
        ("openai.gpt-oss-120b-1:0", False),
        ("qwen.qwen3-235b-a22b-2507-v1:0", False),
        ("deepseek.v3-v1:0", False),
        ("deepseek.r1-v1:0", True),
        ("meta.llama3-1-70b-instruct-v1:0", True),
    ],
)
def test_stops_are_dropped_for_models_that_refuse_them(model: str, takes_stops: bool) -> None:
    kept = {"inferenceConfig": {"stopSequences": ["END"]}}
    made = write(asked(stop=("END",), model=model))
    assert made == ((kept, []) if takes_stops else ({}, ["stop_dropped"]))


def test_betas_that_bedrock_does_not_know_are_dropped() -> None:
    betas = ("context-1m-2025-08-07", "odd-2020-01-01")
    assert write(asked(betas=betas, model=CLAUDE)) == (
        {"additionalModelRequestFields": {"anthropic_beta": ["context-1m-2025-08-07"]}},
        ["beta"],
    )
    assert write(asked(betas=("odd",)))[0] == {
        "additionalModelRequestFields": {"anthropic_beta": ["odd"]}
    }


# Tools

SPEC = {
    "toolSpec": {
        "name": "f",
        "description": "d",
        "inputSchema": {"json": SCHEMA},
        "strict": True,
    }
}
LOOSE = {"toolSpec": {"name": "f", "description": "d", "inputSchema": {"json": SCHEMA}}}
POINT = {"cachePoint": {"type": "default"}}


def test_tools_go_both_ways() -> None:
    system = {"systemTool": {"name": "nova_grounding"}}
    config = {"tools": [SPEC, POINT, system], "toolChoice": {"tool": {"name": "f"}}}
    found = read(toolConfig=config)
    function, grounding = found.tools
    assert isinstance(function, Tool)
    assert structs.replace(function, source=None) == Tool(
        "f", "d", SCHEMA, strict=True, cache=CacheMark()
    )
    assert structs.replace(grounding, source=None) == ServerTool(
        "web_search", DIALECT, {"systemTool": {"name": "nova_grounding"}}
    )
    assert found.tool_choice == ToolChoice("named", ("f",))
    assert encode_request(found, DIALECT).body["toolConfig"] == config
    anew = tuple(structs.replace(tool, source=None) for tool in found.tools)
    assert encode_request(structs.replace(found, tools=anew), DIALECT).body["toolConfig"] == config


@pytest.mark.parametrize(
    ("choice", "unified"),
    [({"auto": {}}, ToolChoice("auto")), ({"any": {}}, ToolChoice("required"))],
)
def test_choice_goes_both_ways(choice: dict[str, Any], unified: ToolChoice) -> None:
    config = {"tools": [LOOSE], "toolChoice": choice}
    assert read(toolConfig=config).tool_choice == unified
    tools = (Tool("f", "d", SCHEMA),)
    assert write(asked(tools=tools, tool_choice=unified)) == ({"toolConfig": config}, [])


def test_entries_of_an_unknown_type_stay() -> None:
    config = {"tools": [POINT, {"odd": {"name": 1}}, SPEC, POINT, POINT], "odd": 1}
    found = read(toolConfig=config)
    assert [getattr(tool, "kind", "") for tool in found.tools] == [
        *("cachePoint", "odd", "", "cachePoint")
    ]
    assert found.extra == {DIALECT: {"toolConfig": {"odd": 1}}}
    changed = structs.replace(found, tools=(*found.tools, Tool("g")))
    spec = {"toolSpec": {"name": "g", "inputSchema": {"json": {"type": "object"}}}}
    assert encode_request(changed, DIALECT).body["toolConfig"] == {
        **config,
        "tools": [*config["tools"], spec],  # type: ignore[misc]
    }


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({"tools": [{}]}, "$.toolConfig.tools[0]"),
        ({"tools": [SPEC, {"toolSpec": {}}]}, "$.toolConfig.tools[1].toolSpec.name"),
        (
            {"tools": [{"toolSpec": {"name": "f"}}]},
            "$.toolConfig.tools[0].toolSpec.inputSchema.json",
        ),
        ({"tools": [SPEC], "toolChoice": {"odd": {}}}, "$.toolConfig.toolChoice"),
        ({"tools": [SPEC], "toolChoice": {"tool": {}}}, "$.toolConfig.toolChoice.tool.name"),
    ],
)
def test_tool_of_another_form_is_an_error(config: dict[str, Any], path: str) -> None:
    with pytest.raises(DecodeError) as refused:
        read(toolConfig=config)
    assert refused.value.path == path


HISTORY = (
    InputMessage("user", (Text("q"),)),
    InputMessage("assistant", (ToolCall("c", "f", "{}"), ToolCall("d", "g", "{}"))),
    InputMessage("user", (ToolResult("c"), ToolResult("d"))),
)


def test_tools_of_the_history_are_declared() -> None:
    encoded = encode_request(Request(messages=HISTORY), DIALECT)
    specs = [
        {"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}} for name in "fg"
    ]
    assert encoded.body["toolConfig"] == {"tools": specs}
    assert [(loss.feature, loss.count) for loss in encoded.losses] == [("tool_declared", 2)]


def test_choice_of_no_tool() -> None:
    tools = (Tool("f", "d", SCHEMA),)
    none = ToolChoice("none")
    assert write(asked(tools=tools, tool_choice=none)) == ({}, ["allowed_tools_filtered"])
    assert write(asked(tool_choice=none)) == ({}, ["tool_choice"])
    history = Request(messages=HISTORY, tools=(*tools, Tool("g")), tool_choice=none)
    encoded = encode_request(history, DIALECT)
    assert "toolChoice" not in encoded.body["toolConfig"]
    assert [loss.feature for loss in encoded.losses] == ["tool_choice_weakened"]


def test_choice_without_tools_is_a_loss() -> None:
    config = {"tools": [LOOSE], "toolChoice": {"any": {}}}
    found = structs.replace(read(toolConfig=config), tools=())
    assert write(found) == ({}, ["tool_choice"])
    none = structs.replace(found, tool_choice=ToolChoice("none"))
    assert write(none) == ({}, [])


def test_server_tool_cannot_be_forced() -> None:
    config = {"tools": [{"systemTool": {"name": "nova_grounding"}}]}
    forced = ToolChoice("named", ("nova_grounding",), "web_search")
    found = structs.replace(read(toolConfig=config), tool_choice=forced)
    fields, losses = write(found)
    assert fields["toolConfig"]["toolChoice"] == {"auto": {}}
    assert losses == ["tool_choice_weakened"]


def test_tool_that_the_api_lacks_never_reaches_the_writer() -> None:
    with pytest.raises(AssertionError, match="CustomTool passed the projection"):
        _tool_to_wire(CustomTool("f"))


def test_two_tools_of_one_name_are_an_error() -> None:
    with pytest.raises(EncodeError) as refused:
        write(asked(tools=(Tool("f"), Tool("f"))))
    assert refused.value.path == "tools[1]"


# The path


@pytest.mark.parametrize(
    ("model", "segment"),
    [
        ("us.anthropic.claude-sonnet-4-6-v1:0", "us.anthropic.claude-sonnet-4-6-v1:0"),
        ("a%3Ab", "a%253Ab"),  # decoded once
        ("arn:aws:bedrock:us-east-1:1:x/y", "arn:aws:bedrock:us-east-1:1:x%2Fy"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
def test_path_has_the_model_as_one_segment(model: str, segment: str, stream: bool) -> None:
    method = "converse-stream" if stream else "converse"
    encoded = encode_request(asked(model=model, stream=stream), DIALECT)
    assert encoded.path == f"/model/{segment}/{method}"
    assert "stream" not in encoded.body
    found = decode_request(encoded.body, path=encoded.path)
    assert (found.model, found.stream) == (model, stream)


def test_request_without_a_model_has_no_path() -> None:
    assert encode_request(asked(), DIALECT).path == ""


def test_name_that_no_path_can_have_is_an_error() -> None:
    """`/model/../converse` is `/converse` (RFC 3986, section 5.2.4)."""
    with pytest.raises(EncodeError) as refused:
        encode_request(asked(model=".."), DIALECT)
    assert refused.value.path == "model"

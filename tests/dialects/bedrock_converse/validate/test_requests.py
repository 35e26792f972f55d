"""What Bedrock refuses of a Converse request, each with the nearest legal request."""

from __future__ import annotations

from typing import Any

import pytest
from support.bedrock_converse.bodies import CorpusBody, corpus_bodies
from support.bedrock_converse.refusals import (
    NOVA,
    TOOLS,
    Refusal,
    call,
    request,
    result,
    said,
    spec,
)
from support.streams.corpus import needs_corpus

from streamnorm.validation import validate_request

PDF = {"document": {"format": "pdf", "name": "a", "source": {"bytes": "AAAA"}}}
CSV = {"document": {"format": "csv", "name": "b", "source": {"bytes": "AAAA"}}}
POINT = {"cachePoint": {"type": "default"}}
THOUGHT = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "eA=="}}}
HOUR = {"cachePoint": {"type": "default", "ttl": "1h"}}


def named(name: str) -> dict[str, Any]:
    return {"document": {**PDF["document"], "name": name}}


def detected(where: str, constraint: str, value: str | None = None) -> str:
    found = "Value" if value is None else f"Value '{value}'"
    return (
        f"1 validation error detected: {found} at '{where}' failed to satisfy constraint: "
        f"Member must {constraint}"
    )


def turn(*results: dict[str, Any], calls: tuple[Any, ...] = ()) -> dict[str, Any]:
    """Return a request with a turn of calls, by default of one call with its result."""
    answers = said("user", *(results or (result(),)))
    asked = said("assistant", *(calls or (call(),)))
    return request(said("user", "q"), asked, answers, toolConfig=TOOLS)


def inference(**fields: Any) -> dict[str, Any]:
    return request(inferenceConfig=fields)


def properties(*names: str) -> dict[str, Any]:
    """Return a schema with properties of these names."""
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}}


CASES = [
    Refusal(
        "bedrock_converse.lone_surrogates",
        request(said("user", "\ud800")),
        "messages[0].content[0].text",
        "Unexpected token in the request body",
        request(),
    ),
    Refusal(
        "bedrock_converse.role",
        request(said("user", "q"), said("tool", "a")),
        "messages[1].role",
        detected("messages.1.role", "satisfy enum value set: [user, assistant, system]", "tool"),
        request(said("user", "q"), said("assistant", "a")),
    ),
    Refusal(
        "bedrock_converse.lone_members",
        request(said("user", {"text": "q", **POINT})),
        "messages[0].content[0]",
        "The content block at messages.0.content.0 has 2 members, expected exactly one",
        request(said("user", "q", POINT)),
    ),
    Refusal(
        "bedrock_converse.lone_members",
        turn(result("c1", {})),
        "messages[2].content[0].toolResult.content[0]",
        "The content block at messages.2.content.0.toolResult.content.0 has 0 members, "
        "expected exactly one",
        turn(),
    ),
    *(
        Refusal(
            "bedrock_converse.temperature",
            inference(**{name: value}),
            f"inferenceConfig.{name}",
            detected(f"inferenceConfig.{name}", "have value between 0 and 1", str(value)),
            inference(**{name: 1}),
        )
        for name, value in (("temperature", 1.5), ("topP", -1))
    ),
    Refusal(
        "bedrock_converse.max_tokens",
        inference(maxTokens=0),
        "inferenceConfig.maxTokens",
        detected("inferenceConfig.maxTokens", "have value greater than or equal to 1", "0"),
        inference(maxTokens=1),
    ),
    Refusal(
        "bedrock_converse.tool_properties",
        request(toolConfig={"tools": [spec(inputSchema={"json": properties("Account Number")})]}),
        "toolConfig.tools[0].toolSpec.inputSchema.json.properties",
        "tools.custom.input_schema.properties: Property keys should match pattern"
        " '^[a-zA-Z0-9_.-]{1,64}$'",
        request(toolConfig={"tools": [spec(inputSchema={"json": properties("account.number")})]}),
        others=((None, "us.amazon.nova-2-lite-v1:0"),),
    ),
    *(
        Refusal(
            f"bedrock_converse.{rule}",
            inference(maxTokens=most + 1),
            "inferenceConfig.maxTokens",
            f"The maximum tokens you requested exceeds the model limit of {most}. Try again with a"
            f" maximum tokens value that is lower than {most}.",
            inference(maxTokens=most),
            model,
            others=((None, "us.amazon.nova-2-lite-v1:0"),),
        )
        for rule, model, most in (
            ("llama_tokens", "us.meta.llama3-3-70b-instruct-v1:0", 8192),
            ("nova_tokens", "us.amazon.nova-pro-v1:0", 10_000),
        )
    ),
    Refusal(
        "bedrock_converse.stop_count",
        inference(stopSequences=["a"] * 2501),
        "inferenceConfig.stopSequences",
        detected("inferenceConfig.stopSequences", "have length less than or equal to 2500"),
        inference(stopSequences=["a"] * 2500),
    ),
    Refusal(
        "bedrock_converse.empty_stops",
        inference(stopSequences=["a", ""]),
        "inferenceConfig.stopSequences[1]",
        detected("inferenceConfig.stopSequences.1", "have length greater than or equal to 1"),
        inference(stopSequences=["a", "\n"]),
    ),
    Refusal(
        "bedrock_converse.empty_texts",
        request(system=[{"text": ""}]),
        "system[0].text",
        detected("system.0.text", "have length greater than or equal to 1"),
        request(system=[{"text": " "}]),
    ),
    Refusal(
        "bedrock_converse.empty_texts",
        request(toolConfig={"tools": [spec(description="")]}),
        "toolConfig.tools[0].toolSpec.description",
        detected(
            "toolConfig.tools.0.toolSpec.description", "have length greater than or equal to 1"
        ),
        request(toolConfig=TOOLS),
    ),
    Refusal(
        "bedrock_converse.service_tier",
        request(serviceTier={"type": "auto"}),
        "serviceTier.type",
        detected(
            "serviceTier.type",
            "satisfy enum value set: [priority, default, flex, reserved]",
            "auto",
        ),
        request(serviceTier={"type": "flex"}),
    ),
    Refusal(
        "bedrock_converse.output_format",
        request(outputConfig={"textFormat": {"type": "json_object"}}),
        "outputConfig.textFormat.type",
        detected(
            "outputConfig.textFormat.type", "satisfy enum value set: [json_schema]", "json_object"
        ),
        request(outputConfig={"textFormat": {"type": "json_schema"}}),
    ),
    *(
        Refusal(
            "bedrock_converse.no_messages",
            refused,
            "messages",
            "The messages field is empty. Add a message and try again.",
            request(),
        )
        for refused in ({"messages": []}, {})
    ),
    Refusal(
        "bedrock_converse.empty_content",
        request(said("user", "q"), said("assistant")),
        "messages[1].content",
        "The content field in the Message object at messages.1 is empty. Add a ContentBlock "
        "object to the content field and try again.",
        request(said("user", "q"), said("assistant", "a")),
    ),
    Refusal(
        "bedrock_converse.first_message",
        request(said("assistant", "a"), said("user", "q")),
        "messages[0]",
        "A conversation must start with a user message. Try again with a conversation that "
        "starts with a user message.",
        request(),
    ),
    Refusal(
        "bedrock_converse.alternation",
        request(said("user", "q"), said("user", "r")),
        "messages[1]",
        "A conversation must alternate between user and assistant roles. Make sure the "
        "conversation alternates between user and assistant roles and try again.",
        request(said("user", "q", "r")),
        others=((None, NOVA),),
    ),
    Refusal(
        "bedrock_converse.lone_reasoning",
        request(said("user", "q"), said("assistant", THOUGHT), said("user", "r")),
        "messages[1]",
        "The model returned the following errors: messages.1: The final block in an assistant "
        "message cannot be `thinking`.",
        request(said("user", "q"), said("assistant", THOUGHT, "a"), said("user", "r")),
        others=((None, NOVA),),
    ),
    Refusal(
        "bedrock_converse.blank_text",
        request(said("user", "q", " ")),
        "messages[0].content[1].text",
        "The text field in the ContentBlock object at messages.0.content.1 is blank. Add text "
        "to the text field, and try again.",
        request(said("user", "q", "\n")),
    ),
    Refusal(
        "bedrock_converse.lone_document",
        request(said("user", PDF)),
        "messages[0].content",
        "A text block must be included when using documents.",
        request(said("user", PDF, "q")),
    ),
    *(
        Refusal(
            "bedrock_converse.document_name",
            request(said("user", "q", named(name))),
            "messages[0].content[1].document.name",
            "The document file name can only contain alphanumeric characters, whitespace "
            "characters, hyphens, parentheses, and square brackets. The name can't contain more "
            "than one consecutive whitespace character.",
            request(said("user", "q", named("a b-(1) [c]_d"))),
        )
        for name in ("a.pdf", "a  b", " a", "ä")
    ),
    Refusal(
        "bedrock_converse.document_length",
        request(said("user", "q", named("a" * 201))),
        "messages[0].content[1].document.name",
        detected("messages.0.content.1.document.name", "have length less than or equal to 200"),
        request(said("user", "q", named("a" * 200))),
    ),
    Refusal(
        "bedrock_converse.duplicate_document",
        request(said("user", "q", PDF, named("b"), PDF)),
        "messages[0].content[3].document.name",
        "Messages can't contain duplicate document names. Rename the document and retry your "
        "request.",
        request(said("user", "q", PDF, named("b"))),
    ),
    Refusal(
        "bedrock_converse.document_count",
        request(said("user", "q", *map(named, "abcdef"))),
        "messages[0].content[6].document",
        "You can't include more than 5 documents in a request.",
        request(said("user", "q", *map(named, "abcde"))),
    ),
    Refusal(
        "bedrock_converse.image_format",
        request(said("user", {"image": {"format": "bmp", "source": {"bytes": "AAAA"}}})),
        "messages[0].content[0].image.format",
        detected(
            "messages.0.content.0.image.format",
            "satisfy enum value set: [png, jpeg, gif, webp]",
            "bmp",
        ),
        request(said("user", {"image": {"format": "png", "source": {"bytes": "AAAA"}}})),
    ),
    Refusal(
        "bedrock_converse.tool_config",
        {key: value for key, value in turn().items() if key != "toolConfig"},
        "toolConfig",
        "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
        turn(),
    ),
    Refusal(
        "bedrock_converse.no_tools",
        request(toolConfig={"tools": []}),
        "toolConfig.tools",
        detected("toolConfig.tools", "have length greater than or equal to 1", "[]"),
        request(toolConfig=TOOLS),
    ),
    Refusal(
        "bedrock_converse.tool_name",
        request(toolConfig={"tools": [spec("a.b")]}),
        "toolConfig.tools[0].toolSpec.name",
        detected(
            "toolConfig.tools.0.toolSpec.name",
            "satisfy regular expression pattern: [a-zA-Z0-9_-]+",
            "a.b",
        ),
        request(toolConfig={"tools": [spec("a_b-1"), {"systemTool": {"name": "s"}}]}),
    ),
    Refusal(
        "bedrock_converse.call_id",
        turn(result("c1"), calls=(call("c1"), call("a|b"))),
        "messages[1].content[1].toolUse.toolUseId",
        detected(
            "messages.1.content.1.toolUse.toolUseId",
            "satisfy regular expression pattern: [a-zA-Z0-9_.:-]+",
            "a|b",
        ),
        turn(result("c.1:a"), calls=(call("c.1:a"),)),
    ),
    Refusal(
        "bedrock_converse.tool_input",
        turn(calls=(call(input=[1]),)),
        "messages[1].content[0].toolUse.input",
        "The format of the value at messages.1.content.0.toolUse.input is invalid. Provide a "
        "json object for the field and try again.",
        turn(calls=(call(input={"a": 1}),)),
    ),
    Refusal(
        "bedrock_converse.json_result",
        turn(result("c1", {"text": "t"}, {"json": [1]})),
        "messages[2].content[0].toolResult.content[1].json",
        "The format of the value at messages.2.content.0.toolResult.content.1.json is invalid. "
        "Provide a json object for the field and try again.",
        turn(result("c1", {"text": ""}, {"json": {"a": 1}})),
    ),
    Refusal(
        "bedrock_converse.empty_error",
        turn({"toolResult": {"toolUseId": "c1", "content": [], "status": "error"}}),
        "messages[2].content[0].toolResult.content",
        "The content field at messages.2.content.0.toolResult cannot be empty when status value "
        "is error.",
        turn({"toolResult": {"toolUseId": "c1", "content": [{"text": "f"}], "status": "error"}}),
    ),
    Refusal(
        "bedrock_converse.missing_results",
        turn(result("c2"), calls=(call("c1"), call("c2"), call("c3"))),
        "messages[2].content",
        "Expected toolResult blocks at messages.2.content for the following Ids: c1, c3",
        turn(result("c2"), result("c1"), calls=(call("c1"), call("c2"))),
    ),
    Refusal(
        "bedrock_converse.excess_results",
        turn(result("c1"), result("c2")),
        "messages[2].content",
        "The number of toolResult blocks at messages.2.content exceeds the number of toolUse "
        "blocks of previous turn.",
        turn(),
    ),
    Refusal(
        "bedrock_converse.duplicate_tool",
        request(toolConfig={"tools": [spec(), spec("g"), spec()]}),
        "toolConfig.tools",
        "The tool f is already defined in toolConfig.tools",
        request(toolConfig={"tools": [spec(), spec("g")]}),
    ),
    Refusal(
        "bedrock_converse.tool_choice",
        request(toolConfig={**TOOLS, "toolChoice": {"tool": {"name": "g"}}}),
        "toolConfig.toolChoice.tool.name",
        "The tool g in toolConfig.toolChoice is not defined in toolConfig.tools",
        request(toolConfig={**TOOLS, "toolChoice": {"tool": {"name": "f"}}}),
    ),
    Refusal(
        "bedrock_converse.point_in_result",
        turn(result("c1", {"text": "t"}, POINT)),
        "messages[2].content[0].toolResult.content[1].cachePoint",
        "Unknown member cachePoint at messages.2.content.0.toolResult.content.1.cachePoint",
        turn(result("c1", {"text": "t"}), POINT),
    ),
    *(
        Refusal(
            "bedrock_converse.point_behind_document",
            request(said("user", "q", *documents, POINT)),
            f"messages[0].content[{len(documents) + 1}]",
            "The model returned the following errors: "
            f"messages.0.content.{len(documents) + 1}.type: Field required",
            request(said("user", *documents, "q", POINT)),
            others=((None, NOVA),),
        )
        for documents in ([CSV], [PDF, CSV])
    ),
    Refusal(
        "bedrock_converse.rising_ttl",
        request(said("user", "q", HOUR), system=[{"text": "s"}, POINT]),
        "messages[0].content[1]",
        "a ttl of 1h at messages.0.content.1 comes after a ttl of 5m, expected longer ones first",
        request(said("user", "q", POINT), system=[{"text": "s"}, HOUR]),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_rule_refuses_what_the_vendor_refuses(case: Refusal) -> None:
    case.check()


SERVER_CALL = {"toolUse": {**call()["toolUse"], "type": "server_tool_use"}}
SERVER_RESULT = {"toolResult": {**result()["toolResult"], "type": "nova_grounding_result"}}


@pytest.mark.parametrize(
    "body",
    [
        request(said("user", "q"), said("assistant", SERVER_CALL, SERVER_RESULT), toolConfig=TOOLS),
        turn(result("c1"), {"text": "and then?"}),
    ],
    ids=["server_tool", "text_beside_results"],
)
def test_legal_request_breaks_no_rule(body: dict[str, Any]) -> None:
    assert validate_request(body, "bedrock_converse", model=NOVA) == []


@pytest.mark.parametrize("value", [None, 1, "a", [], {}, [None], [[]], {"a": 1}, [{"a": 1}]])
@pytest.mark.parametrize(
    "build",
    [
        lambda value: {"messages": value},
        lambda value: {"messages": [value]},
        lambda value: {"messages": [{"role": value, "content": value}]},
        lambda value: request(said("user", value), said("assistant", value)),
        lambda value: request(said("user", {"document": value}, {"toolResult": value})),
        lambda value: turn({"toolResult": {"toolUseId": value, "content": value}}),
        lambda value: request(system=value, toolConfig=value),
        lambda value: request(toolConfig={"tools": value, "toolChoice": value}),
        lambda value: request(toolConfig={"tools": [{"toolSpec": value}, {"systemTool": value}]}),
        lambda value: request(toolConfig={"toolChoice": {"tool": value}}),
        lambda value: request(system=[{"cachePoint": value}]),
    ],
)
def test_checks_are_total_over_any_json(build: Any, value: Any) -> None:
    validate_request(build(value), "bedrock_converse")


@needs_corpus
@pytest.mark.parametrize("recorded", corpus_bodies(), ids=str)
def test_what_bedrock_accepted_breaks_no_rule(recorded: CorpusBody) -> None:
    if recorded.status == 200 and recorded.operation != "count-tokens":
        found = validate_request(recorded.request, "bedrock_converse", path=recorded.path)
        assert found == []

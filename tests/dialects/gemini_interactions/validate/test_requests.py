"""What the Interactions API refuses of a request, each with the nearest legal request."""

from __future__ import annotations

from typing import Any

import pytest
from support.gemini_interactions.refusals import (
    FUNCTION,
    MODEL,
    Refusal,
    call,
    request,
    result,
    said,
)

from streamnorm.validation import validate_request

RULE = "gemini_interactions."


def without(body: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != name}


def choice(*names: str) -> dict[str, Any]:
    return {"tool_choice": {"allowed_tools": {"mode": "any", "tools": list(names)}}}


CASES = [
    Refusal(
        f"{RULE}lone_surrogates",
        request(said("\ud800")),
        "input[0].content[0].text",
        "The input data is not valid json",
        request(),
    ),
    Refusal(
        f"{RULE}no_model",
        without(request(), "model"),
        "model",
        "Either model or agent must be specified.",
        without(request(agent="deep-research-preview-04-2026"), "model"),
    ),
    Refusal(
        f"{RULE}no_input",
        {**request(), "input": []},
        "input",
        "input is not specified.",
        without(request(previous_interaction_id="v1"), "input"),
    ),
    *(
        Refusal(
            f"{RULE}entries",
            request({"type": kind}),
            "input[0].type",
            "Unknown type at 'input[0].type'.",
            request({"type": "text", "text": "q"}),
        )
        for kind in ("input_text", 1)
    ),
    *(
        Refusal(
            f"{RULE}calls",
            request(said(), call(**fields)),
            f"input[1].{name}",
            f"Missing or invalid field 'input[1].{name}'.",
            request(said(), call(), result()),
        )
        for name, fields in (
            ("id", {"id": ""}),
            ("name", {"name": None}),
            ("arguments", {"arguments": "{}"}),
        )
    ),
    *(
        Refusal(
            f"{RULE}calls",
            request(said(), call(), {**result(), **fields}),
            f"input[2].{name}",
            f"Missing or invalid field 'input[2].{name}'.",
            request(said(), call(), result(result={"a": 1})),
        )
        for name, fields in (("call_id", {"call_id": None}), ("result", {"result": 1}))
    ),
    Refusal(
        f"{RULE}results",
        request(said(), call(), result("c2")),
        "input[2].call_id",
        "No function call found for 'input[2].call_id'.",
        request(result("c2"), previous_interaction_id="v1"),
    ),
    *(
        Refusal(
            f"{RULE}functions",
            request(tools=[FUNCTION, {**FUNCTION, "name": name}]),
            "tools[1].name",
            "Missing or duplicate function name at 'tools[1].name'.",
            request(tools=[FUNCTION, {**FUNCTION, "name": "g"}, {"type": "google_search"}]),
        )
        for name in ("f", "", None)
    ),
    Refusal(
        f"{RULE}allowed_tools",
        request(tools=[FUNCTION], generation_config=choice("f", "g")),
        "generation_config.tool_choice.allowed_tools.tools[1]",
        "Unknown tool at 'generation_config.tool_choice.allowed_tools.tools[1]'.",
        request(tools=[FUNCTION], generation_config=choice("f")),
    ),
    *(
        Refusal(
            f"{RULE}{name}",
            request(generation_config={name: "most"}),
            f"generation_config.{name}",
            f"Invalid value at 'generation_config.{name}': \"most\"",
            request(generation_config={name: word}),
        )
        for name, word in (("thinking_level", "low"), ("thinking_summaries", "auto"))
    ),
    *(
        Refusal(
            f"{RULE}minimal_level",
            request(model=model, generation_config={"thinking_level": "minimal"}),
            "generation_config.thinking_level",
            "'minimal' is not a supported thinking level for this model.",
            request(model=model, generation_config={"thinking_level": "low"}),
            model,
            others=((None, MODEL), (None, "gemini-3.6-flash")),
        )
        for model in ("gemini-3.1-pro-preview", "gemini-3.7-flash", "gemini-4-argon")
    ),
    Refusal(
        f"{RULE}service_tier",
        request(service_tier="fast"),
        "service_tier",
        "Invalid value at 'service_tier': \"fast\"",
        request(service_tier="flex"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_request_is_refused_by_its_rule(case: Refusal) -> None:
    case.check()


@pytest.mark.parametrize("value", [None, 1, "a", [], {}, [1], [[]], {"a": 1}])
def test_value_of_any_type_is_no_exception(value: Any) -> None:
    for name in ("input", "tools", "generation_config", "model"):
        validate_request({**request(), name: value}, "gemini_interactions")
    for name in ("type", "id", "call_id", "name", "tool_choice", "allowed_tools"):
        body = request({"type": "function_result", name: value}, tools=[{name: value}])
        body["generation_config"] = {name: value, "tool_choice": {name: value}}
        validate_request(body, "gemini_interactions")

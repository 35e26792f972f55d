"""Tools and options that Google refuses, each with the nearest legal request."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import pytest
from dialects.gemini.validate import test_requests
from support.gemini.refusals import Refusal, answer, declared, options, request, thinking

from streamnorm.profiles.rules import read_request_rules
from streamnorm.validation import validate_request

PRO, FLASH, LITE = "gemini-2.5-pro", "gemini-2.5-flash", "gemini-2.5-flash-lite"
G2, G3, G3_PRO, G4 = "gemini-2.0-flash", "gemini-3-flash-preview", "gemini-3-pro", "gemini-4-pro"
SEARCH: dict[str, Any] = {"googleSearch": {}}
JSON = "application/json"
NAME = (
    "Invalid function name. Must start with a letter or an underscore. Must be alphameric (a-z, "
    "A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64."
)
MODE = (
    "Invalid value at 'tool_config.function_calling_config.mode' (type.googleapis.com/"
    'google.ai.generativelanguage.v1beta.FunctionCallingConfig.Mode), "AUTOMATIC"'
)
LEVEL = (
    "Invalid value at 'generation_config.thinking_config.thinking_level' (type.googleapis.com/"
    'google.ai.generativelanguage.v1beta.ThinkingConfig.ThinkingLevel), "MAX"'
)
TWO_SCHEMAS = (
    "Invalid value at 'tools[0].function_declarations[0]': only one of the schema and the JSON "
    "schema can be set"
)


def calling(*tools: dict[str, Any], **config: Any) -> dict[str, Any]:
    return request(tools=list(tools), toolConfig={"functionCallingConfig": config})


def combined(**config: Any) -> dict[str, Any]:
    return request(tools=[declared(), SEARCH], toolConfig=config)


TOOLS = [
    *(
        Refusal(
            "gemini.function_names",
            request(tools=[declared("f", name)]),
            "tools[0].functionDeclarations[1].name",
            NAME,
            request(tools=[declared("f", "_a.b:c-9" + "x" * 56)]),
        )
        for name in ("1f", "a b", "", "x" * 65, "-f")
    ),
    Refusal(
        "gemini.nameless_functions",
        request(tools=[{"functionDeclarations": [{"description": "d"}]}]),
        "tools[0].functionDeclarations[0].name",
        NAME,
        request(tools=[declared()]),
    ),
    Refusal(
        "gemini.duplicate_functions",
        request(tools=[declared("f"), declared("g", "f")]),
        "tools[1].functionDeclarations[1].name",
        "Duplicate function declaration found: f",
        request(tools=[declared("f"), declared("g", "F")]),
    ),
    Refusal(
        "gemini.max_functions",
        request(tools=[declared(*(f"f{number}" for number in range(513)))]),
        "tools[0].functionDeclarations",
        "The GenerateContentRequest proto is invalid:\n  * tools[0].function_declarations: "
        "[FIELD_INVALID] At most 512 function declarations can be specified.",
        request(tools=[declared(*(f"f{number}" for number in range(512)))]),
    ),
    *(
        Refusal(
            "gemini.parameters_twice",
            request(tools=[declared("f", **{name: {"type": "object"}, other: {"type": "object"}})]),
            f"tools[0].functionDeclarations[0].{other}",
            TWO_SCHEMAS,
            request(tools=[declared("f", **{other: {"type": "object"}})]),
        )
        for name, other in (
            ("parameters", "parametersJsonSchema"),
            ("response", "responseJsonSchema"),
        )
    ),
    *(
        Refusal(
            f"{server or 'gemini'}.server_tools",
            request(tools=[declared(), {name: {}}]),
            f"tools[1].{name}",
            says,
            request(tools=[{name: {}}]),
            PRO,
            server,
            others=((server, G3), (server, "m")),
        )
        for server, says in (
            (None, "Tool use with function calling is unsupported by the model."),
            ("vertex", "Multiple tools are supported only when they are all search tools."),
        )
        for name in ("googleSearch", "codeExecution", "urlContext", "googleMaps")
    ),
    *(
        Refusal(
            "gemini.server_tool_invocations",
            refused,
            "tools[1].googleSearch",
            "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools "
            "with Function calling.",
            combined(includeServerSideToolInvocations=True),
            name,
            others=((None, PRO), ("vertex", name)),
        )
        for name in (G3, G3_PRO, G4)
        for refused in (combined(), combined(includeServerSideToolInvocations=False))
    ),
    Refusal(
        "gemini.lone_config",
        calling(SEARCH, mode="AUTO"),
        "toolConfig.functionCallingConfig",
        "Function calling config is set without function_declarations.",
        calling(declared(), mode="AUTO"),
        others=((None, G3), ("vertex", FLASH)),
    ),
    Refusal(
        "gemini.mode_words",
        calling(declared(), mode="AUTOMATIC"),
        "toolConfig.functionCallingConfig.mode",
        MODE,
        calling(declared(), mode="validated"),
    ),
    *(
        Refusal(
            "gemini.allowed_names",
            calling(declared(), allowedFunctionNames=["f"], **config),
            "toolConfig.functionCallingConfig.allowedFunctionNames",
            "`allowed_function_names` should be set only when the function calling mode is ANY or "
            "VALIDATED.",
            calling(declared(), allowedFunctionNames=["f"], mode=mode),
        )
        for config, mode in (
            ({"mode": "AUTO"}, "ANY"),
            ({"mode": "NONE"}, "VALIDATED"),
            ({}, "ANY"),
        )
    ),
]
ANSWERS = [
    *(
        Refusal(
            f"gemini.{rule}",
            {**answer("responseMimeType", JSON), "tools": [tool]},
            "generationConfig.responseMimeType",
            says,
            {**answer("responseMimeType", "text/plain"), "tools": [tool]},
            others=((None, G3), ("vertex", FLASH)),
        )
        for rule, tool, says in (
            (
                "output_beside_functions",
                declared(),
                "Function calling with a response mime type: 'application/json' is unsupported",
            ),
            (
                "output_beside_tools",
                SEARCH,
                "Tool use with a response mime type: 'application/json' is unsupported",
            ),
        )
    ),
    Refusal(
        "gemini.output_schemas",
        options(responseMimeType=JSON, responseSchema={}, responseJsonSchema={"type": "object"}),
        "generationConfig.responseJsonSchema",
        "`response_schema` and `response_json_schema` cannot both be set.",
        options(responseMimeType=JSON, responseJsonSchema={"type": "object"}),
    ),
    *(
        Refusal(
            f"{server or 'gemini'}.max_stops",
            answer("stopSequences", list("abcdef")),
            "generationConfig.stopSequences",
            says,
            answer("stopSequences", list("abcde")),
            server=server,
        )
        for server, says in (
            (None, "the number of stop_sequences must not exceed 5"),
            (
                "vertex",
                "Unable to submit request because it has a stopSequences value of 6 but the "
                "supported range is from 1 (inclusive) to 6 (exclusive). Update the value and try "
                "again.",
            ),
        )
    ),
    *(
        Refusal(
            f"gemini.{rule}",
            answer(field, refused),
            f"generationConfig.{field}",
            says,
            answer(field, legal),
            name,
            others=others,
        )
        for rule, field, name, refused, legal, others, says in (
            (
                "temperature",
                "temperature",
                FLASH,
                2.5,
                2,
                (),
                "* GenerateContentRequest.generation_config.temperature: must be in the range "
                "[0, 2]\n",
            ),
            (
                "top_p",
                "topP",
                FLASH,
                1.5,
                1.0,
                (),
                "* GenerateContentRequest.generation_config.top_p: top_p must be in the range "
                "[0, 1].\n",
            ),
            (
                "max_tokens",
                "maxOutputTokens",
                FLASH,
                0,
                1,
                (),
                "Unable to submit request because it has a maxOutputTokens value of 0 but the "
                "supported range is from 1 (inclusive).",
            ),
            *(
                (
                    rule,
                    field,
                    model,
                    most + 1,
                    most,
                    ((None, "gemini-9"),),
                    f"Unable to submit request because it has a maxOutputTokens value of {most + 1}"
                    f" but the supported range is from 1 (inclusive) to {most + 1} (exclusive).",
                )
                for rule, model, most in (
                    ("tokens_8k", "gemini-2.0-flash", 8192),
                    ("tokens_64k", PRO, 65_535),
                )
                for field in ("maxOutputTokens", "max_output_tokens")
            ),
            (
                "candidates",
                "candidateCount",
                FLASH,
                9,
                8,
                (),
                "Unable to submit request because it has a candidateCount value of 9 but the "
                "supported range is from 1 (inclusive) to 9 (exclusive).",
            ),
            (
                "one_candidate",
                "candidateCount",
                G3,
                2,
                1,
                ((None, FLASH), ("vertex", G3)),
                "Multiple candidates is not enabled for this model",
            ),
            (
                "penalties",
                "presencePenalty",
                G3,
                0.5,
                None,
                ((None, G2), ("vertex", FLASH)),
                "Penalty is not enabled for this model",
            ),
            (
                "penalties",
                "frequency_penalty",
                G4,
                0.5,
                None,
                ((None, G2),),
                "Penalty is not enabled for this model",
            ),
            *(
                (
                    "penalties_25",
                    field,
                    FLASH,
                    0.5,
                    0,
                    ((None, G2), ("vertex", FLASH)),
                    "Penalty is not enabled for models/gemini-2.5-flash",
                )
                for field in ("presencePenalty", "frequency_penalty")
            ),
        )
    ),
    *(
        Refusal(
            "gemini.cached_fields",
            request(cachedContent="cachedContents/1", **{name: value}),
            name,
            "CachedContent can not be used with GenerateContent request setting "
            "system_instruction, tools or tool_config. Proposed fix: move those values to "
            "CachedContent from GenerateContent request.",
            request(cachedContent="cachedContents/1", tools=[]),
        )
        for name, value in (
            ("systemInstruction", {"parts": [{"text": "s"}]}),
            ("tools", [SEARCH]),
            ("tool_config", {"retrievalConfig": {}}),
        )
    ),
]
BUDGET = "generationConfig.thinkingConfig.thinkingBudget"
THINKING = [
    *(
        Refusal(
            "gemini.thinking_models",
            thinking(includeThoughts=True),
            "generationConfig.thinkingConfig",
            "thinking_config is not supported.",
            request(),
            name,
            others=((None, FLASH), (None, "gemini-2.0-flash-thinking-exp"), (None, "m")),
        )
        for name in (G2, "gemini-1.5-pro")
    ),
    Refusal(
        "gemini.thinking_words",
        thinking(thinkingLevel="MAX"),
        "generationConfig.thinkingConfig.thinkingLevel",
        LEVEL,
        thinking(thinkingLevel="low"),
        G3,
    ),
    Refusal(
        "gemini.level_models",
        thinking(thinkingLevel="LOW"),
        "generationConfig.thinkingConfig.thinkingLevel",
        "Thinking level is not supported for this model.",
        thinking(thinkingBudget=1024),
        PRO,
        others=((None, G3), (None, "m")),
    ),
    *(
        Refusal(
            "gemini.minimal_level",
            thinking(thinkingLevel=word),
            "generationConfig.thinkingConfig.thinkingLevel",
            "Thinking level MINIMAL is not supported for this model.",
            thinking(thinkingLevel="LOW"),
            name,
            others=((None, G3), (None, "gemini-3.6-flash")),
        )
        for name, word in (
            ("gemini-3-pro-preview", "MINIMAL"),
            ("gemini-3.1-pro-preview", "minimal"),
            ("gemini-3.7-flash", "MINIMAL"),
            ("gemini-3.8-flash", "MINIMAL"),
            ("gemini-4-argon", "MINIMAL"),
        )
    ),
    Refusal(
        "gemini.medium_level",
        thinking(thinkingLevel="MEDIUM"),
        "generationConfig.thinkingConfig.thinkingLevel",
        "Unable to submit request because thinking_level MEDIUM is not supported by this model.",
        thinking(thinkingLevel="HIGH"),
        "gemini-3-pro-preview",
        others=((None, "gemini-3.1-pro-preview"), (None, G3)),
    ),
    Refusal(
        "gemini.budget_and_level",
        thinking(thinkingLevel="LOW", thinkingBudget=512),
        BUDGET,
        "You can only set only one of thinking budget and thinking level.",
        thinking(thinkingBudget=512),
        G3,
    ),
    *(
        Refusal(
            "gemini.no_thinking_pro",
            thinking(thinkingBudget=0),
            BUDGET,
            "Budget 0 is invalid. This model only works in thinking mode.",
            thinking(thinkingBudget=-1),
            name,
            others=((None, FLASH), (None, LITE), (None, G3)),
        )
        for name in (PRO, "gemini-3.1-pro-preview", "gemini-3.5-flash-lite")
    ),
    *(
        Refusal(
            f"gemini.{rule}",
            thinking(thinkingBudget=refused),
            BUDGET,
            f"The thinking budget {refused} is invalid. Please choose a value between {least} and "
            f"{most}.",
            thinking(thinkingBudget=legal),
            name,
            others=((None, G3), (None, "m")),
        )
        for rule, name, least, most, values in (
            ("budget_pro", PRO, 128, 32768, ((40000, 32768), (127, 128), (-2, -1))),
            ("budget_flash", FLASH, 0, 24576, ((24577, 24576), (-2, -1), (30000, 0))),
            ("budget_flash_lite", LITE, 512, 24576, ((511, 512), (24577, 24576), (-2, 0))),
        )
        for refused, legal in values
    ),
]

CASES = [*TOOLS, *ANSWERS, *THINKING]


@pytest.mark.parametrize("refusal", CASES, ids=str)
def test_request_is_refused_by(refusal: Refusal) -> None:
    refusal.check()


def test_configuration_without_functions_is_accepted_beside_calls_of_the_server() -> None:
    config = {"functionCallingConfig": {"mode": "AUTO"}, "includeServerSideToolInvocations": True}
    body = request(tools=[SEARCH], toolConfig=config)
    assert validate_request(body, "gemini", model="gemini-2.5-flash") == []


def test_every_rule_of_gemini_and_vertex_has_a_case() -> None:
    cases = {case.rule for case in (*CASES, *test_requests.CASES)}
    for name in ("gemini", "gemini_options"):
        file = files("streamnorm.profiles.rules") / f"{name}.toml"
        rules = read_request_rules(file.read_text("utf-8"), name)
        assert {rule.id for rule in rules} <= cases

"""Options of a request: sampling, bounds, the form of the answer, thinking."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.gemini.bodies import Written, read, request_of, without_source

from streamnorm import DecodeError, Text
from streamnorm._core.bodies.request import OutputFormat, ReasoningOptions, Request

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
JSON = "application/json"
CONTENTS = [{"role": "user", "parts": [{"text": "Hi"}]}]


def options_of(config: dict[str, Any]) -> Request:
    return read({"contents": CONTENTS, "generationConfig": config})


def written(**fields: Any) -> Written:
    return Written(request_of(Text("Hi"), **fields))


def test_each_option_is_read_and_written() -> None:
    config = {
        "temperature": 1.4,
        "topP": 0.9,
        "frequencyPenalty": 0.5,
        "presencePenalty": -0.5,
        "topK": 64,
        "seed": 7,
        "candidateCount": 2,
        "maxOutputTokens": 16000,
        "logprobs": 3,
        "stopSequences": ["END"],
        "responseLogprobs": True,
    }
    request = options_of(config)
    assert request.temperature == 1.4
    assert request.top_p == 0.9
    assert request.frequency_penalty == 0.5
    assert request.presence_penalty == -0.5
    assert request.top_k == 64
    assert request.seed == 7
    assert request.choices == 2
    assert request.max_tokens == 16000
    assert request.top_logprobs == 3
    assert request.stop == ("END",)
    assert request.logprobs is True
    assert request.extra is None
    assert Written(without_source(request)).body["generationConfig"] == config


def test_other_options_are_kept() -> None:
    config = {
        "responseModalities": ["TEXT", "AUDIO"],
        "speechConfig": {"languageCode": "de-DE"},
        "imageConfig": {"aspectRatio": "1:1"},
        "responseMimeType": "text/x.enum",
        "responseSchema": {"type": "STRING", "enum": ["a"]},
        "seed": None,
    }
    request = options_of(config)
    assert request.output is None
    assert request.extra == {
        "gemini": {f"generationConfig.{name}": value for name, value in config.items()}
    }
    assert Written(without_source(request)).body["generationConfig"] == config


def test_an_integer_may_be_a_decimal_number() -> None:
    request = options_of({"topK": 40.0})
    assert isinstance(request.top_k, int)
    assert request.top_k == 40


@pytest.mark.parametrize(
    ("config", "output"),
    [
        ({"responseMimeType": "text/plain"}, OutputFormat("text")),
        ({"responseMimeType": JSON}, OutputFormat("json_object")),
        (
            {"responseMimeType": JSON, "responseJsonSchema": SCHEMA},
            OutputFormat("json_schema", SCHEMA, strict=True),
        ),
    ],
    ids=repr,
)
def test_the_form_of_the_answer_is_read_and_written(
    config: dict[str, Any], output: OutputFormat
) -> None:
    assert options_of(config).output == output
    assert written(output=output).body["generationConfig"] == config


@pytest.mark.parametrize(
    ("config", "output", "extra"),
    [
        (
            {
                "response_mime_type": JSON,
                "response_schema": {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}},
            },
            OutputFormat("json_schema", SCHEMA, strict=True),
            {},
        ),
        ({"responseJsonSchema": SCHEMA}, OutputFormat("json_schema", SCHEMA, strict=True), {}),
        (
            {"responseJsonSchema": SCHEMA, "responseSchema": {"type": "OBJECT"}},
            OutputFormat("json_schema", SCHEMA, strict=True),
            {"generationConfig.responseSchema": {"type": "OBJECT"}},
        ),
        (
            {"responseFormat": {"text": {"mimeType": JSON, "schema": SCHEMA}}},
            OutputFormat("json_schema", SCHEMA, strict=True),
            {},
        ),
        (
            # As Vertex AI's clients send it: in a list, with the name of the enumeration.
            {"response_format": [{"text": {"mime_type": "APPLICATION_JSON", "schema": SCHEMA}}]},
            OutputFormat("json_schema", SCHEMA, strict=True),
            {},
        ),
        (
            {"responseFormat": {"text": {"schema": {"type": "OBJECT"}}}},
            OutputFormat("json_schema", {"type": "object"}, strict=True),
            {},
        ),
        ({"responseFormat": {"text": {"mimeType": JSON}}}, OutputFormat("json_object"), {}),
        ({"responseFormat": {"text": {"mimeType": "TEXT_PLAIN"}}}, OutputFormat("text"), {}),
        (
            {"responseMimeType": JSON, "responseFormat": {"text": {"schema": SCHEMA}}},
            OutputFormat("json_schema", SCHEMA, strict=True),
            {"generationConfig.responseMimeType": JSON},
        ),
        ({"responseMimeType": None}, None, {"generationConfig.responseMimeType": None}),
        (
            {"responseMimeType": "text/plain", "responseSchema": {"type": "STRING"}},
            None,
            {
                "generationConfig.responseMimeType": "text/plain",
                "generationConfig.responseSchema": {"type": "STRING"},
            },
        ),
    ],
    ids=repr,
)
def test_other_spellings_of_the_form_are_read(
    config: dict[str, Any], output: OutputFormat | None, extra: dict[str, Any]
) -> None:
    request = options_of(config)
    assert request.output == output
    assert request.extra == ({"gemini": extra} if extra else None)


@pytest.mark.parametrize(
    "form",
    [
        {"image": {"aspectRatio": "1:1"}},
        {"text": {"mimeType": JSON, "schema": SCHEMA}, "image": {"aspectRatio": "1:1"}},
        [{"text": {"mimeType": JSON}}, {"image": {"aspectRatio": "1:1"}}],
        {"text": {"mimeType": "text/plain", "schema": SCHEMA}},
        {"text": {"mimeType": "text/x.enum"}},
        {"text": {"mimeType": 1}},
        {"text": {"schema": "an object"}},
        {"text": {"mimeType": JSON, "delivery": "INLINE"}},
        {"text": {}},
        {"text": None},
        [],
        JSON,
    ],
    ids=repr,
)
def test_formats_of_other_modalities_are_kept(form: Any) -> None:
    request = options_of({"responseFormat": form})
    assert request.output is None
    assert request.extra == {"gemini": {"generationConfig.responseFormat": form}}
    done = Written(without_source(request), typed=False)
    assert done.body["generationConfig"] == {"responseFormat": form}


def test_names_of_schemas_have_no_field() -> None:
    done = written(output=OutputFormat("json_schema", SCHEMA, "ans", "d", strict=False))
    assert done.lost == {"schema_name": 1, "schema_description": 1, "schema_strict": 1}
    config = {"responseMimeType": JSON, "responseJsonSchema": SCHEMA}
    assert done.body["generationConfig"] == config
    assert written(output=OutputFormat("json_schema")).body["generationConfig"] == {
        "responseMimeType": JSON
    }


@pytest.mark.parametrize(
    ("thinking", "reasoning"),
    [
        ({"thinkingBudget": 0}, ReasoningOptions("off")),
        (
            {"thinkingBudget": 8192, "includeThoughts": True},
            ReasoningOptions("budget", None, 8192, "auto"),
        ),
        ({"thinkingLevel": "HIGH"}, ReasoningOptions(effort="high")),
        ({"includeThoughts": False}, ReasoningOptions(show="none")),
        (
            {"thinkingLevel": "THINKING_LEVEL_UNSPECIFIED"},
            ReasoningOptions(extra={"gemini": {"thinkingLevel": "THINKING_LEVEL_UNSPECIFIED"}}),
        ),
    ],
    ids=repr,
)
def test_thinking_is_read_and_written(
    thinking: dict[str, Any], reasoning: ReasoningOptions
) -> None:
    assert options_of({"thinkingConfig": thinking}).reasoning == reasoning
    assert written(reasoning=reasoning).body["generationConfig"] == {"thinkingConfig": thinking}


def test_a_level_is_dropped_beside_a_budget() -> None:
    both = {"thinkingBudget": 1, "thinkingLevel": "LOW"}
    reasoning = options_of({"thinkingConfig": both}).reasoning
    assert reasoning == ReasoningOptions("budget", "low", 1)
    done = written(reasoning=reasoning)
    assert done.body["generationConfig"] == {"thinkingConfig": {"thinkingBudget": 1}}
    assert done.lost == {"effort_changed": 1}


def test_levels_are_read_in_any_case() -> None:
    reasoning = options_of({"thinking_config": {"thinking_level": "medium"}}).reasoning
    assert reasoning == ReasoningOptions(effort="medium")


def test_an_adaptive_mode_is_a_word_of_models_with_budgets() -> None:
    adaptive = ReasoningOptions("adaptive")
    assert options_of({"thinkingConfig": {"thinkingBudget": -1}}).reasoning == adaptive
    assert "generationConfig" not in written(reasoning=adaptive).body
    request = request_of(Text("Hi"), reasoning=adaptive)
    config = Written(request, thinking="budget").body["generationConfig"]
    assert config == {"thinkingConfig": {"thinkingBudget": -1}}
    own = structs.replace(options_of({"thinkingConfig": {"thinkingBudget": -1}}), seed=7)
    config = {"seed": 7, "thinkingConfig": {"thinkingBudget": -1}}
    assert Written(own).body["generationConfig"] == config


@pytest.mark.parametrize(
    ("show", "lost"),
    [("auto", {}), ("concise", {"reasoning_summary": 1}), ("detailed", {"reasoning_summary": 1})],
)
def test_every_summary_shows_thoughts(show: str, lost: dict[str, int]) -> None:
    encoded = written(reasoning=ReasoningOptions(show=show))
    assert encoded.body["generationConfig"] == {"thinkingConfig": {"includeThoughts": True}}
    assert encoded.lost == lost


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ([], "$.generationConfig"),
        ({"temperature": "1"}, "$.generationConfig.temperature"),
        ({"topK": 1.5}, "$.generationConfig.topK"),
        ({"topK": float("inf")}, "$.generationConfig.topK"),
        ({"stopSequences": "END"}, "$.generationConfig.stopSequences"),
        ({"responseSchema": {"items": 1}}, "$.generationConfig.responseSchema.items"),
        ({"thinkingConfig": 1}, "$.generationConfig.thinkingConfig"),
        (
            {"thinkingConfig": {"thinkingBudget": True}},
            "$.generationConfig.thinkingConfig.thinkingBudget",
        ),
    ],
    ids=repr,
)
def test_options_of_another_form_are_refused(config: Any, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        options_of(config)
    assert caught.value.path == path

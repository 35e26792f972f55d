"""Requests: the fields of the body, and the path that names the model."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.bodies.sdk_types import problems
from support.gemini.bodies import Written, read, request_of, without_source

from streamnorm import DecodeError, EncodeError, Text
from streamnorm._core.bodies.request import InputMessage, Request, Source
from streamnorm._core.tools import Tool
from streamnorm.dialects.gemini.body.request import read_tools

PATH = "/v1beta/models/gemini-3-pro:streamGenerateContent"
CONTENT = {"role": "user", "parts": [{"text": "Hi"}]}
FULL: dict[str, Any] = {
    "contents": [CONTENT],
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "tools": [{"functionDeclarations": [{"name": "f", "parametersJsonSchema": {}}]}],
    "toolConfig": {"functionCallingConfig": {"mode": "ANY"}, "retrievalConfig": {}},
    "generationConfig": {"temperature": 1, "mediaResolution": "MEDIA_RESOLUTION_LOW"},
    "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_ONLY_HIGH"}],
    "labels": {"team": "a"},
    "store": True,
    "serviceTier": "flex",
    "cachedContent": "cachedContents/1",
}


def test_each_field_of_a_body_is_read() -> None:
    request = read(FULL, PATH)
    assert request.model == "gemini-3-pro"
    assert request.stream is True
    assert request.system == (Text("Be brief."),)
    assert [message.role for message in request.messages] == ["user"]
    assert [tool.name for tool in request.tools if isinstance(tool, Tool)] == ["f"]
    assert request.tool_choice is not None
    assert request.tool_choice.mode == "required"
    assert request.temperature == 1
    assert request.service_tier == "flex"
    assert request.state == {"cachedContent": "cachedContents/1"}
    assert request.extra == {
        "gemini": {
            "generationConfig.mediaResolution": "MEDIA_RESOLUTION_LOW",
            "toolConfig.retrievalConfig": {},
            "safetySettings": FULL["safetySettings"],
            "labels": {"team": "a"},
            "store": True,
        }
    }


def test_a_body_is_written_as_it_was_read() -> None:
    assert problems("gemini", FULL) == []
    assert Written(read(FULL)).body is FULL
    assert Written(without_source(read(FULL))).body == FULL


def test_a_longer_request_keeps_all_that_did_not_change() -> None:
    body: dict[str, Any] = {
        "model": "models/gemini-3-pro",
        "contents": [{"parts": [{"text": "Hi"}]}],
        "system_instruction": {"role": "system", "parts": [{"text": "A"}]},
        "tools": [
            {"function_declarations": [{"name": "f"}], "google_search": {}},
            {"functionDeclarations": []},
        ],
        "tool_config": {"function_calling_config": {"mode": "AUTO"}},
        "generation_config": {"speech_config": {"languageCode": "de"}, "response_mime_type": "a/b"},
    }
    request = read(body)
    assert request.model == "gemini-3-pro"
    turn = InputMessage("user", (Text("More"),))
    longer = structs.replace(request, messages=(*request.messages, turn))
    added = {"role": "user", "parts": [{"text": "More"}]}
    assert Written(longer, typed=False).body == {**body, "contents": [*body["contents"], added]}
    assert "speechConfig" not in body["generation_config"]


def test_options_that_changed_are_written_anew_beside_the_others() -> None:
    changed = structs.replace(read(FULL), temperature=0.5, tools=())
    body = Written(changed).body
    assert body["generationConfig"] == {
        "temperature": 0.5,
        "mediaResolution": "MEDIA_RESOLUTION_LOW",
    }
    assert "tools" not in body
    assert body["toolConfig"] == {"retrievalConfig": {}}
    assert body["contents"] == FULL["contents"]


def test_the_source_of_another_dialect_is_not_written() -> None:
    request = request_of(Text("Hi"))
    foreign = structs.replace(request, source=Source("anthropic", {"messages": []}, request))
    assert Written(foreign).body == {"contents": [CONTENT]}


@pytest.mark.parametrize(
    ("path", "model", "stream"),
    [
        ("/v1beta/models/gemini-3-pro:generateContent", "gemini-3-pro", False),
        ("/v1beta/models/m:streamGenerateContent?alt=sse", "m", True),
        (
            "/v1/projects/p/locations/eu/publishers/google/models/m:streamGenerateContent",
            "m",
            True,
        ),
        ("", "", None),
        ("/elsewhere", "", None),
    ],
)
def test_the_path_names_model_and_stream(path: str, model: str, stream: bool | None) -> None:
    request = read({"contents": [CONTENT]}, path)
    assert (request.model, request.stream) == (model, stream)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"model": "m"}, "/v1beta/models/m:generateContent"),
        ({"model": "m", "stream": True}, "/v1beta/models/m:streamGenerateContent?alt=sse"),
        ({"model": "a/b c"}, "/v1beta/models/a%2Fb%20c:generateContent"),
        ({"model": "tunedModels/x"}, "/v1beta/tunedModels/x:generateContent"),
        ({"model": "models/x"}, "/v1beta/models/x:generateContent"),
        ({}, ""),
    ],
)
def test_the_path_of_a_request_is_returned(fields: dict[str, Any], path: str) -> None:
    assert Written(request_of(Text("Hi"), **fields)).path == path


def test_a_model_that_was_exchanged_stands_in_the_path() -> None:
    request = structs.replace(read({"contents": [CONTENT]}, PATH), model="other")
    written = Written(request)
    assert written.path == "/v1beta/models/other:streamGenerateContent?alt=sse"
    assert written.body == {"contents": [CONTENT]}


@pytest.mark.parametrize(
    ("word", "tier", "extra"),
    [
        ("standard", "default", None),
        ("priority", "priority", None),
        ("unspecified", None, {"gemini": {"serviceTier": "unspecified"}}),
    ],
)
def test_service_tiers_are_read_in_unified_words(
    word: str, tier: str | None, extra: dict[str, Any] | None
) -> None:
    body = {"contents": [CONTENT], "serviceTier": word}
    request = read(body)
    assert (request.service_tier, request.extra) == (tier, extra)
    assert Written(without_source(request)).body == body


def test_modifiers_of_instructions_are_kept_and_false_ones_are_none() -> None:
    parts = [{"text": "A", "thought": False}, {"text": "B", "partMetadata": {"a": 1}}]
    request = read({"contents": [], "systemInstruction": {"role": "user", "parts": parts}})
    assert request.system == (
        Text("A"),
        Text("B", extra={"gemini": {"partMetadata": {"a": 1}}}),
    )
    body = Written(without_source(request)).body
    assert body["systemInstruction"] == {"parts": [{"text": "A"}, parts[1]]}


def test_one_object_stands_for_an_array_of_one() -> None:
    """As in the vendor's examples of `curl`."""
    declaration = {"name": "f", "parametersJsonSchema": {}}
    single = {
        "system_instruction": {"parts": {"text": "Be brief."}},
        "contents": {"role": "user", "parts": {"text": "Hi"}},
        "tools": {"function_declarations": declaration},
    }
    request = read(single)
    assert Written(request, typed=False).body is single
    assert Written(without_source(request)).body == {
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "contents": [CONTENT],
        "tools": [{"functionDeclarations": [declaration]}],
    }
    assert read_tools(single) == request.tools
    longer = structs.replace(request, messages=(*request.messages, InputMessage("user")))
    assert Written(longer, typed=False).body["contents"][0] == single["contents"]
    assert read({"contents": {"parts": []}}).messages[0].role == "user"


def test_nulls_are_no_loss() -> None:
    body = {
        "contents": [CONTENT],
        "systemInstruction": None,
        "tools": None,
        "toolConfig": None,
        "generationConfig": None,
        "safetySettings": None,
        "cachedContent": None,
    }
    request = read(body)
    assert request.extra is not None
    assert set(request.extra["gemini"].values()) == {None}
    assert Written(without_source(request)).body == body


def test_state_of_another_provider_is_refused() -> None:
    with pytest.raises(EncodeError, match="state of another provider") as caught:
        Written(request_of(Text("Hi"), state={"previous_response_id": "r"}))
    assert caught.value.path == "state.previous_response_id"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({}, "$.contents"),
        ({"contents": None}, "$.contents"),
        ({"contents": "Hi"}, "$.contents"),
        ({"contents": {"role": "robot"}}, "$.contents[0].role"),
        ({"contents": {"parts": "Hi"}}, "$.contents[0].parts"),
        ({"contents": ["Hi"]}, "$.contents[0]"),
        ({"contents": [], "systemInstruction": "Be brief."}, "$.systemInstruction"),
        ({"contents": [], "systemInstruction": {"parts": "A"}}, "$.systemInstruction.parts"),
        ({"contents": [], "systemInstruction": {"parts": {}}}, "$.systemInstruction.parts[0].text"),
        (
            {"contents": [], "systemInstruction": {"parts": [{"text": "A"}, {"inlineData": {}}]}},
            "$.systemInstruction.parts[1].text",
        ),
        ({"contents": [], "serviceTier": 1}, "$.serviceTier"),
        ({"contents": [], "model": 1}, "$.model"),
        ({"contents": [], "cachedContent": []}, "$.cachedContent"),
        ({"contents": [], "tools": [], "tool_s": 1, "toolS": 2}, "$.toolS"),
    ],
    ids=repr,
)
def test_a_body_of_another_form_is_refused_with_its_path(body: dict[str, Any], path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        read(body)
    assert caught.value.path == path


def test_an_empty_request_has_its_contents() -> None:
    assert Written(Request()).body == {"contents": []}

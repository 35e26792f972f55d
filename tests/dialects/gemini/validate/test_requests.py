"""Fields and turns that Google refuses, each with the nearest legal request."""

from __future__ import annotations

from typing import Any

import pytest
from support.bodies.request_corpus import RealRequest, corpus_requests
from support.gemini.refusals import (
    SIGNATURE,
    Refusal,
    call,
    declared,
    model,
    options,
    request,
    result,
    user,
)
from support.streams.corpus import needs_corpus

from streamnorm.validation import validate_request

G25, G3, G38 = "gemini-2.5-flash", "gemini-3-flash-preview", "gemini-3.8-flash"
VERTEX = ("vertex", G25)
FILE = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
PLACEHOLDER = "skip_thought_signature_validator"


def unknown(name: str, where: str = "") -> str:
    place = f" at '{where}'" if where else ""
    return f'Invalid JSON payload received. Unknown name "{name}"{place}: Cannot find field.'


FIELDS = [
    *(
        Refusal(
            "gemini.unknown_fields",
            refused,
            path,
            unknown(path.rpartition(".")[2], where),
            request(),
            model=name,
            server=server,
        )
        for server, name in ((None, G25), ("vertex", G25))
        for path, where, refused in (
            ("messages", "", request(messages=[])),
            ("contents[0].name", "contents[0]", request({**user("q"), "name": "ann"})),
            (
                "contents[0].parts[1].type",
                "contents[0].parts[1]",
                request(user("q", {"text": "r", "type": "text"})),
            ),
            (
                "contents[0].parts[0].inlineData.detail",
                "contents[0].parts[0].inline_data",
                request(user({"inlineData": {**FILE["inlineData"], "detail": "low"}})),
            ),
            ("tools[0].type", "tools[0]", request(tools=[{**declared(), "type": "function"}])),
            (
                "tools[0].function_declarations[1].strict",
                "tools[0].function_declarations[1]",
                request(
                    tools=[
                        {"function_declarations": [{"name": "f"}, {"name": "g", "strict": True}]}
                    ]
                ),
            ),
            ("generation_config.stop", "generation_config", request(generation_config={"stop": 1})),
            (
                "generationConfig.thinkingConfig.effort",
                "generation_config.thinking_config",
                options(thinkingConfig={"effort": "low"}),
            ),
            (
                "toolConfig.functionCallingConfig.type",
                "tool_config.function_calling_config",
                request(tools=[declared()], toolConfig={"functionCallingConfig": {"type": "auto"}}),
            ),
            (
                "systemInstruction.parts.cache",
                "system_instruction.parts",
                request(systemInstruction={"parts": {"text": "s", "cache": 1}}),
            ),
        )
    ),
    *(
        Refusal(
            "gemini.vertex_fields",
            refused,
            path,
            unknown(path.rpartition(".")[2], where),
            legal,
            others=(VERTEX,),
        )
        for path, where, refused, legal in (
            (
                "contents[1].parts[0].functionCall.partialArgs",
                "contents[1].parts[0].function_call",
                request(user("q"), model(call(partialArgs=[])), user(result())),
                request(user("q"), model(call()), user(result())),
            ),
            (
                "generationConfig.audioTimestamp",
                "generation_config",
                options(audioTimestamp=True),
                options(),
            ),
            (
                "safetySettings[0].method",
                "safety_settings[0]",
                request(safetySettings=[{"category": "HARM_CATEGORY_HARASSMENT", "method": "S"}]),
                request(safetySettings=[{"category": "HARM_CATEGORY_HARASSMENT"}]),
            ),
            (
                "tools[0].enterpriseWebSearch",
                "tools[0]",
                request(tools=[{"enterpriseWebSearch": {}}]),
                request(tools=[{"googleSearch": {}}]),
            ),
        )
    ),
    *(
        Refusal(
            "vertex.gemini_fields",
            refused,
            path,
            unknown(path.rpartition(".")[2], where),
            request(),
            model=G3,
            server="vertex",
            others=((None, G3),),
        )
        for path, where, refused in (
            (
                "toolConfig.includeServerSideToolInvocations",
                "tool_config",
                request(toolConfig={"includeServerSideToolInvocations": True}),
            ),
            (
                "tool_config.include_server_side_tool_invocations",
                "tool_config",
                request(tool_config={"include_server_side_tool_invocations": True}),
            ),
            ("store", "", request(store=False)),
            ("tools[0].mcpServers", "tools[0]", request(tools=[{"mcpServers": []}])),
            (
                "contents[0].parts[0].toolCall",
                "contents[0].parts[0]",
                request(user({"toolCall": {"id": "1", "toolType": "GOOGLE_SEARCH_WEB"}})),
            ),
        )
    ),
    *(
        Refusal(
            "vertex.call_ids",
            request(user("q"), model(call(**ids)), user(result(**others))),
            path,
            unknown("id", where),
            request(user("q"), model(call()), user(result())),
            server="vertex",
            others=((None, G25),),
        )
        for path, where, ids, others in (
            (
                "contents[1].parts[0].functionCall.id",
                "contents[1].parts[0].function_call",
                {"id": "1"},
                {},
            ),
            (
                "contents[2].parts[0].functionResponse.id",
                "contents[2].parts[0].function_response",
                {},
                {"id": "1"},
            ),
        )
    ),
    *(
        Refusal(
            "gemini.messages",
            refused,
            path,
            f"Invalid value at '{where}' "
            f'(type.googleapis.com/google.ai.generativelanguage.v1beta.{kind}), "hi"',
            request(),
        )
        for path, where, kind, refused in (
            ("systemInstruction", "system_instruction", "Content", request(systemInstruction="hi")),
            ("contents[1]", "contents[1]", "Content", request(user("q"), "hi")),  # type: ignore[arg-type] # what clients send
            ("contents[0].parts[0]", "contents[0].parts[0]", "Part", request({"parts": ["hi"]})),
        )
    ),
    *(
        Refusal(
            "gemini.arguments",
            request(user("q"), model(call(**arguments)), user(result(**response))),
            path,
            f"Invalid value at '{where}' (type.googleapis.com/google.protobuf.Struct), \"a\"",
            request(user("q"), model(call()), user(result())),
        )
        for path, where, arguments, response in (
            (
                "contents[1].parts[0].functionCall.args",
                "contents[1].parts[0].function_call.args",
                {"args": "a"},
                {},
            ),
            (
                "contents[2].parts[0].functionResponse.response",
                "contents[2].parts[0].function_response.response",
                {},
                {"response": "a"},
            ),
        )
    ),
    *(
        Refusal(
            "gemini.encodings",
            request(user("q"), model({"text": "a", "thoughtSignature": broken}), user("r")),
            "contents[1].parts[0].thoughtSignature",
            "Invalid value at 'contents[1].parts[0].thought_signature' (TYPE_BYTES), "
            f'Base64 decoding failed for "{broken}"',
            request(user("q"), model({"text": "a", "thoughtSignature": whole}), user("r")),
        )
        for broken, whole in (
            ("gAAAA", "gAAAAA=="),
            ("AA…", "AA"),
            ("dTBo=RXBz", "dTBo_-Bz"),
            ("AA+/=x", PLACEHOLDER),
        )
    ),
    Refusal(
        "gemini.encodings",
        request(user({"inlineData": {"mimeType": "image/png", "data": "data:image/png"}})),
        "contents[0].parts[0].inlineData.data",
        "Invalid value at 'contents[0].parts[0].inline_data.data' (TYPE_BYTES), "
        'Base64 decoding failed for "data:image/png"',
        request(user({"inlineData": {"mimeType": "image/png", "data": "AAAA\nAAA="}})),
    ),
    Refusal(
        "gemini.lone_surrogates",
        request(user("q \ud83d"), user("r \ude00")),
        "contents[0].parts[0].text",
        "The input data is not valid json",
        request(user("q 😀")),
    ),
]
CONTENTS = [
    *(
        Refusal(f"{server or 'gemini'}.no_contents", body, "contents", says, request(), G25, server)
        for server, says in (
            (None, "* GenerateContentRequest.contents: contents is not specified\n"),
            (
                "vertex",
                "Unable to submit request because at least one contents field is required.",
            ),
        )
        for body in ({"contents": []}, {})
    ),
    *(
        Refusal(
            "gemini.roles",
            request({**user("q"), "role": role}, user("r")),
            "contents[0].role",
            "Please use a valid role: user, model.",
            request({**user("q"), "role": other}, user("r")),
        )
        for role, other in (("system", "user"), ("assistant", "model"))
    ),
    *(
        Refusal(
            "gemini.empty_contents",
            request(user("q"), {"role": "model", **parts}, user("r")),
            "contents[1].parts",
            "* GenerateContentRequest.contents[1].parts: contents.parts must not be empty.\n",
            request(user("q"), model("a"), user("r")),
        )
        for parts in ({"parts": []}, {})
    ),
    *(
        Refusal(
            "gemini.empty_parts",
            refused,
            path,
            f"* GenerateContentRequest.{where}.data: "
            "required oneof field 'data' must have one initialized field\n",
            legal,
        )
        for path, where, refused, legal in (
            (
                "contents[0].parts[1]",
                "contents[0].parts[1]",
                request(user("q", {})),
                request(user("q", {"text": ""})),
            ),
            (
                "contents[0].parts[1]",
                "contents[0].parts[1]",
                request(user("q", {"thought": True})),
                request(user("q", {"thoughtSignature": SIGNATURE})),
            ),
            (
                "systemInstruction.parts[0]",
                "system_instruction.parts[0]",
                request(systemInstruction={"parts": [{}]}),
                request(systemInstruction={"parts": []}),
            ),
        )
    ),
    Refusal(
        "gemini.part_data",
        request(user({"text": "q", **FILE})),
        "contents[0].parts[0].inlineData",
        "Invalid value at 'contents[0].parts[0]' (oneof), "
        "oneof field 'data' is already set. Cannot set 'inlineData'",
        request(user("q", FILE)),
    ),
    *(
        Refusal(
            "gemini.image_types",
            request(user({"inlineData": {"mimeType": f"image/{kind}", "data": "AAAA"}})),
            "contents[0].parts[0].inlineData.mimeType",
            f"Unsupported MIME type: image/{kind}",
            request(user(FILE)),
        )
        for kind in ("gif", "jpg", "bmp", "tiff", "svg+xml")
    ),
    *(
        Refusal(
            "gemini.document_types",
            request(user({"inlineData": {"mimeType": f"application/{kind}", "data": "AAAA"}})),
            "contents[0].parts[0].inlineData.mimeType",
            f"Unsupported MIME type: application/{kind}",
            request(user({"inlineData": {"mimeType": "application/pdf", "data": "AAAA"}})),
        )
        for kind in (
            *("msword", "vnd.ms-excel"),
            "vnd.openxmlformats-officedocument.wordprocessingml.document",
        )
    ),
]
CALL_TURN = (
    "Please ensure that function call turn comes immediately after a user turn or after a "
    "function response turn."
)
RESPONSE_TURN = (
    "Please ensure that function response turn comes immediately after a function call turn."
)
COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function "
    "call parts of the function call turn."
)
TURNS = [
    *(
        Refusal(f"gemini.{rule}", request(*refused), path, says, request(*legal))
        for rule, path, says, refused, legal in (
            (
                "call_turns",
                "contents[0]",
                CALL_TURN,
                (model(call()), user(result())),
                (user("q"), model(call()), user(result())),
            ),
            (
                "call_turns",
                "contents[0]",
                CALL_TURN,
                (model("a"), model(call()), user(result())),
                (user("q"), model("a"), model(call()), user(result())),
            ),
            (
                "response_turns",
                "contents[0]",
                RESPONSE_TURN,
                (user(result()),),
                (user("r"),),
            ),
            (
                "response_turns",
                "contents[3]",
                RESPONSE_TURN,
                (user("q"), model(call()), user(result()), user(result())),
                (user("q"), model(call()), user(result()), user("r")),
            ),
            (
                "response_counts",
                "contents[2]",
                COUNT,
                (user("q"), model(call(), call()), user(result())),
                (user("q"), model(call(), call()), user(result(), result(), "r")),
            ),
            (
                "response_counts",
                "contents[2]",
                COUNT,
                (user("q"), model(call()), user("r")),
                (user("q"), model(call())),
            ),
            (
                "response_counts",
                "contents[3]",
                COUNT,
                (user("q"), model(call()), model(call()), user(result())),
                (user("q"), model(call()), model(call()), user(result(), result())),
            ),
        )
    ),
    *(
        Refusal(
            "gemini.last_turn",
            request(user("q"), model("a")),
            "contents[1]",
            "Requests ending with a model turn are not supported.",
            request(user("q"), model("a"), user("r")),
            name,
            server,
            others=((server, G3), (server, G25), (server, "gemini-3.5-flash"), (server, "m")),
        )
        for server in (None, "vertex")
        for name in ("gemini-3.5-flash-lite", "gemini-3.6-flash", G38, "gemini-4-pro")
    ),
]


def unsigned(server: str | None, name: str, position: int) -> str:
    if server is not None:
        return (
            f"Unable to submit request because function call `{name}` in the {position}. content "
            "block is missing a `thought_signature`."
        )
    return (
        "Function call is missing a thought_signature in functionCall parts. This is required for "
        "tools to work correctly, and missing thought_signature may lead to degraded model "
        f"performance. Additional data, function call `default_api:{name}` , position {position}. "
        "Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details."
    )


STEP = (model(call(SIGNATURE), call()), user(result(), result()))
SIGNATURES = [
    *(
        Refusal(
            f"{server or 'gemini'}.signatures",
            request(*refused),
            path,
            unsigned(server, "f", position),
            request(*legal),
            G3,
            server,
            others=((server, G25),),
        )
        for server in (None, "vertex")
        for path, position, refused, legal in (
            (
                "contents[1].parts[0]",
                2,
                (user("q"), model(call()), user(result())),
                (user("q"), model(call(SIGNATURE)), user(result())),
            ),
            (
                "contents[3].parts[1]",
                4,
                (user("q"), *STEP, model("a", call()), user(result())),
                (user("q"), *STEP, model("a", call(PLACEHOLDER)), user(result())),
            ),
            (
                "contents[4].parts[0]",
                5,
                (user("q"), *STEP, user("r"), model(call()), user(result())),
                (user("q"), model(call()), user(result()), model("a"), user("r")),
            ),
        )
    ),
    Refusal(
        "vertex.signature_placeholder",
        request(user("q"), model(call("context_engineering_is_the_way_to_go")), user(result())),
        "contents[1].parts[0].thoughtSignature",
        "Unable to submit request because Thought signature is not valid.",
        request(user("q"), model(call(PLACEHOLDER)), user(result())),
        G3,
        "vertex",
        others=((None, G3), ("vertex", G25)),
    ),
    *(
        Refusal(
            "gemini.response_media",
            request(user("q"), model(call()), user(result(parts=[FILE]))),
            "contents[2].parts[0].functionResponse.parts",
            "Unable to submit request because `function_response.parts` is not supported for this "
            "model.",
            request(user("q"), model(call()), user(result(parts=[]), FILE)),
            name,
            server,
            others=((server, G3), (server, "m")),
        )
        for server in (None, "vertex")
        for name in (G25, "google/gemini-2.0-flash")
    ),
]

CASES = [*FIELDS, *CONTENTS, *TURNS, *SIGNATURES]


@pytest.mark.parametrize("refusal", CASES, ids=str)
def test_request_is_refused_by(refusal: Refusal) -> None:
    refusal.check()


def test_both_spellings_and_null_are_accepted() -> None:
    body = request(
        {"parts": {"text": "q", "thought": False}},
        system_instruction={"role": "system", "parts": {"text": "s"}},
        generation_config={"max_output_tokens": 5, "thinkingConfig": {"thinking_budget": -1}},
        toolConfig=None,
        tools=[{"functionDeclarations": [{"name": "f", "parameters_json_schema": {"x": 1}}]}],
        labels={"team": "a"},
    )
    assert validate_request(body, "gemini", model=G25) == []


@pytest.mark.parametrize("server", [None, "vertex"])
def test_chunks_of_an_answer_as_contents_of_their_own_are_accepted(server: str | None) -> None:
    """A chat of google-genai sends them; the last one is often empty."""
    calls = (model(call(SIGNATURE)), model(call()), model(""))
    body = request(user("q"), model("a"), *calls, user(result(), result()))
    assert validate_request(body, "gemini", model=G3, server=server) == []


def test_conversation_that_the_vendor_has_begun_may_go_on_with_a_call() -> None:
    body = request(model(call()), user(result()), cachedContent="cachedContents/1")
    assert validate_request(body, "gemini", model=G25) == []
    body = request(user(result()), cachedContent="cachedContents/1")
    assert validate_request(body, "gemini", model=G25) == []


def test_calls_that_the_vendor_made_have_their_responses_beside() -> None:
    made = model(call(), result(), call())
    assert validate_request(request(user("q"), made, user(result())), "gemini", model=G25) == []


def test_last_turn_may_end_in_a_response() -> None:
    body = request(user("q"), model(call(SIGNATURE), result()))
    assert validate_request(body, "gemini", model=G38) == []


@pytest.mark.parametrize("content", [b'{"contents":"\\ud83d"}', '{"contents":"\\udE00"}', "\ud83d"])
def test_half_a_character_is_found_however_it_is_sent(content: bytes | str) -> None:
    body = content if isinstance(content, bytes) or content[0] == "{" else {content: 1}
    found = validate_request(body, "gemini")
    assert "gemini.lone_surrogates" in [violation.rule for violation in found]
    assert [v.type for v in found if v.rule == "gemini.lone_surrogates"] == ["FAILED_PRECONDITION"]


# Vertex AI took ids when this was recorded, in 2025.
_ACCEPTED_THEN = ("streaming_function_calling_arguments_stream-1", "vertex.call_ids")


def _real(name: str) -> list[RealRequest | None]:
    return [*corpus_requests(name)] or [None]


@needs_corpus
@pytest.mark.parametrize("real", _real("gemini"), ids=str)
def test_request_that_was_answered_is_legal(real: RealRequest) -> None:
    server = "vertex" if real.provider == "vertex" else None
    found = validate_request(real.body, "gemini", server=server, path=real.path)
    name, rule = _ACCEPTED_THEN
    expected = [rule] if real.name.endswith(name) else []
    assert [violation.rule for violation in found] == expected


@pytest.mark.parametrize(
    "body",
    [
        {"contents": "q", "tools": {}, "systemInstruction": 1, "generationConfig": []},
        {"contents": [1, {"role": 2, "parts": 3}, {"parts": [1, {"functionCall": 1}]}]},
        {"contents": {"parts": {"functionResponse": []}}, "toolConfig": [1], "cachedContent": 1},
        {"contents": [{"role": "model", "parts": [{"functionCall": {"name": 1, "args": []}}]}]},
        {"contents": [user({"inlineData": {"mimeType": 1, "data": 2}, "thoughtSignature": 3})]},
        {"contents": [user({"inlineData": 1})]},
        {"contents": [user({"functionResponse": {"parts": {"inlineData": 1}}, "fileData": 1})]},
        {"tools": [1, {"functionDeclarations": [1, {"name": 2}], "googleSearch": 1}]},
        {"toolConfig": {"functionCallingConfig": {"mode": 1, "allowedFunctionNames": ["f"]}}},
        {"generationConfig": {"thinkingConfig": {"thinkingLevel": 1, "thinkingBudget": "x"}}},
        {"generationConfig": {"stopSequences": 1, "temperature": "x", "responseMimeType": []}},
    ],
    ids=str,
)
def test_any_json_is_judged(body: dict[str, Any]) -> None:
    for server in (None, "vertex"):
        for name in ("", G25, G3, G38):
            found = validate_request(body, "gemini", server=server, model=name)
            assert all(violation.message for violation in found)

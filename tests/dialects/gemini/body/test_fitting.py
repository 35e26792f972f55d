"""Requests of Gemini's clients to Vertex AI, and translated ones of each generation."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.gemini.refusals import SIGNATURE, call, declared, model, request, result, user

from streamnorm import Encoded, decode_request, encode_request, translate_request
from streamnorm._core.codec import WriteContext
from streamnorm._core.losses import Losses
from streamnorm.dialects.gemini.body.fitting import fit_body
from streamnorm.dialects.gemini.body.request import REQUEST_CAPABILITIES
from streamnorm.validation import validate_request

PLACEHOLDER = "skip_thought_signature_validator"
G3, G25 = "gemini-3-flash-preview", "gemini-2.5-flash"


def to_vertex(body: dict[str, Any], name: str = G3) -> Encoded:
    path = f"/v1beta/models/{name}:generateContent"
    made = encode_request(decode_request(body, "gemini", path=path), "gemini", server="vertex")
    assert validate_request(made.body, "gemini", model=name, server="vertex") == []
    return made


def lost(made: Encoded) -> dict[str, int]:
    return {loss.feature: loss.count for loss in made.losses}


def test_ids_are_not_sent_to_vertex() -> None:
    body = request(user("q"), model(call(SIGNATURE, id="1")), user(result(id="1")))
    made = to_vertex(body)
    assert made.body == request(user("q"), model(call(SIGNATURE)), user(result()))
    assert lost(made) == {"id": 2}


def test_first_call_without_a_signature_is_signed_for_vertex() -> None:
    body = request(user("q"), model("a", call(), call()), user(result(), result()))
    made = to_vertex(body)
    assert made.body["contents"][1] == model("a", call(PLACEHOLDER), call())
    assert lost(made) == {"signature_placeholder": 1}
    assert to_vertex(body, G25).body == body


def test_image_of_the_model_without_a_signature_is_signed_for_vertex() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}
    drawn = model(image, {**image, "thoughtSignature": SIGNATURE}, call(), call())
    body = request(user("q"), drawn, user(result(), result()), model("a"), user(image))
    made = to_vertex(body)
    assert made.body["contents"] == [
        user("q"),
        model(
            {**image, "thoughtSignature": PLACEHOLDER},
            {**image, "thoughtSignature": SIGNATURE},
            call(PLACEHOLDER),
            call(),
        ),
        *body["contents"][2:],
    ]
    assert lost(made) == {"signature_placeholder": 2}


@pytest.mark.parametrize("contents", ["q", [1], [{"role": "model", "parts": "q"}]], ids=str)
def test_contents_that_are_none_stay(contents: Any) -> None:
    target = structs.replace(REQUEST_CAPABILITIES, signature_placeholder=PLACEHOLDER)
    body = {"contents": contents}
    assert fit_body(body, WriteContext(target, Losses(), named=True)) is body


def test_fields_that_vertex_does_not_have_are_dropped() -> None:
    body = request(
        {**user("q"), "odd": 1},
        store=False,
        tools=[declared(), {"mcpServers": [{"name": "m"}]}],
        toolConfig={"includeServerSideToolInvocations": True},
    )
    made = to_vertex(body)
    assert made.body == request(user("q"), tools=[declared()])
    assert lost(made) == {
        "includeServerSideToolInvocations": 1,
        "mcp_server_dropped": 1,
        "odd": 1,
        "store": 1,
    }


def asked(name: str, *messages: dict[str, Any], **fields: Any) -> Encoded:
    body = {"model": name, "messages": list(messages), **fields}
    return translate_request(body, dialect="openai_chat", to="gemini")


QUESTION = {"role": "user", "content": "q"}


def test_server_tools_beside_functions_ask_for_their_calls() -> None:
    tools = [{"type": "web_search"}, {"type": "function", "name": "f", "parameters": {}}]
    newer, older = (
        translate_request(
            {"model": name, "input": "q", "tools": tools}, dialect="openai_responses", to="gemini"
        )
        for name in (G3, G25)
    )
    assert newer.body["toolConfig"] == {"includeServerSideToolInvocations": True}
    assert "toolConfig" not in older.body
    assert [list(tool) for tool in older.body["tools"]] == [["functionDeclarations"]]


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("gemini-3-pro-preview", {"thinkingLevel": "HIGH"}),
        ("gemini-3.1-pro-preview", {"thinkingLevel": "MEDIUM"}),
        (G25, {"thinkingBudget": 10000}),
        ("gemini-2.0-flash", None),
    ],
)
def test_an_effort_is_written_in_the_words_of_each_model(
    name: str, config: dict[str, Any] | None
) -> None:
    made = asked(name, QUESTION, reasoning_effort="medium")
    assert made.body.get("generationConfig", {}).get("thinkingConfig") == config


def test_penalties_and_candidates_are_dropped_for_models_that_refuse_them() -> None:
    options = {"frequency_penalty": 0.5, "n": 2}
    assert "generationConfig" not in asked(G3, QUESTION, **options).body
    kept = {"frequencyPenalty": 0.5, "candidateCount": 2}
    assert asked("gemini-2.0-flash", QUESTION, **options).body["generationConfig"] == kept


def test_penalties_of_gemini_2_5_are_for_vertex_alone() -> None:
    options = {"frequency_penalty": 0.5, "presence_penalty": -1}
    made = asked(G25, QUESTION, **options)
    assert "generationConfig" not in made.body
    assert lost(made) == {"frequency_penalty": 1, "presence_penalty": 1}
    body = {"model": G25, "messages": [QUESTION], **options}
    on_vertex = translate_request(body, dialect="openai_chat", to="gemini", server="vertex")
    assert on_vertex.body["generationConfig"] == {"frequencyPenalty": 0.5, "presencePenalty": -1}
    assert on_vertex.losses == ()


@pytest.mark.parametrize("name", ["gemini-3.7-flash", "gemini-flash-latest"])
def test_last_answer_is_dropped_for_models_that_do_not_continue_it(name: str) -> None:
    answer = {"role": "assistant", "content": "a"}
    made = asked(name, QUESTION, answer)
    assert made.body["contents"] == [user("q")]
    assert lost(made)["prefill_dropped"] == 1
    assert asked(G3, QUESTION, answer).body["contents"] == [user("q"), model("a")]

"""JSON mode and labels of requests to OpenAI, which refuses either without a word of the other."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm import Encoded, Loss, translate_request
from streamnorm.validation import validate_request

ASKED = {"role": "system", "content": "Answer with a JSON object."}
LOSS = Loss("json_asked", "messages", 1, "asked for by a system message")


def of_google(text: str, instruction: str | None = None) -> dict[str, Any]:
    """Return a request of Gemini for any JSON object."""
    body = {
        "contents": [{"role": "user", "parts": [{"text": text}]}],
        "generationConfig": {"responseMimeType": "application/json"},
    }
    if instruction is not None:
        body["systemInstruction"] = {"parts": [{"text": instruction}]}
    return body


def to_chat(body: dict[str, Any], server: str | None, dialect: str = "gemini") -> Encoded:
    return translate_request(body, dialect=dialect, to="openai_chat", server=server)


@pytest.mark.parametrize("server", [None, "azure", "deepseek"])
def test_json_is_asked_for_in_words_where_the_server_demands_them(server: str | None) -> None:
    encoded = to_chat(of_google("Rome?"), server)
    assert encoded.body["messages"][0] == ASKED
    assert encoded.body["response_format"] == {"type": "json_object"}
    assert LOSS in encoded.losses
    assert validate_request(encoded.body, "openai_chat", server=server, model="gpt-4.1") == []


def test_words_stand_beside_the_instructions() -> None:
    first, *others = to_chat(of_google("Rome?", "Be brief."), None).body["messages"]
    assert (first, others[0]["content"]) == (ASKED, "Be brief.")


@pytest.mark.parametrize(
    "body", [of_google("Rome? As JSON."), of_google("Rome?", "You write json."), of_google("jsonl")]
)
def test_nothing_is_added_where_the_word_stands(body: dict[str, Any]) -> None:
    encoded = to_chat(body, None)
    assert "with a JSON object" not in str(encoded.body)
    assert LOSS not in encoded.losses


def test_nothing_is_added_for_servers_without_the_rule_or_requests_for_text() -> None:
    assert ASKED not in to_chat(of_google("Rome?"), "vllm").body["messages"]
    text = {"contents": [{"role": "user", "parts": [{"text": "Rome?"}]}]}
    assert ASKED not in to_chat(text, None).body["messages"]
    client = {
        "model": "gpt-4.1",
        "messages": [{"role": "user", "content": "Rome?"}],
        "response_format": {"type": "json_object"},
    }
    assert to_chat(client, None, "openai_chat").body == client


@pytest.mark.parametrize(("server", "store", "kept"), [(None, True, True), (None, None, False)])
def test_labels_need_a_stored_answer_at_openai(
    server: str | None, store: bool | None, kept: bool
) -> None:
    body: dict[str, Any] = {"model": "gpt-4.1", "input": "Rome?", "metadata": {"k": "v"}}
    if store is not None:
        body["store"] = store
    encoded = to_chat(body, server, "openai_responses")
    assert ("metadata" in encoded.body) is kept
    assert validate_request(encoded.body, "openai_chat", server=server) == []
    lost = [loss for loss in encoded.losses if loss.feature == "metadata"]
    assert lost == ([] if kept else [Loss("metadata", "request", 1, "dropped without store")])


def test_labels_reach_other_servers() -> None:
    body = {"model": "m", "input": "Rome?", "metadata": {"k": "v"}}
    assert to_chat(body, "vllm", "openai_responses").body["metadata"] == {"k": "v"}

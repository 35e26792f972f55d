"""State of a client of interactions: turns, and requests about a stored interaction."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamnorm import DecodeError, Reply, UnknownDialect
from streamnorm.state import (
    MemoryStore,
    Operation,
    StateError,
    Turn,
    error_body,
    read_operation,
)
from streamnorm.state.turn import CheckedTurn, forbid_storing, form_of

OWN = "gemini_interactions"
SNOW = {"type": "user_input", "content": [{"type": "text", "text": "Snow?"}]}
CALL = {"type": "function_call", "id": "c1", "name": "f", "arguments": {"city": "Oslo"}}
RESULT = {"type": "function_result", "call_id": "c1", "result": "snow"}
PATH = "/v1beta/interactions/{}"


def answered(
    store: MemoryStore, /, *steps: dict[str, Any], status: str = "completed", **body: Any
) -> tuple[str, dict[str, Any]]:
    """Answer a request with steps; return the id of the answer, and the request as sent."""
    turn = Turn({"model": "m", **body}, OWN)
    sent = turn.expand(store.find("a", turn.lookup))
    answer = {"object": "interaction", "status": status, "steps": list(steps)}
    stored = turn.stored({**answer, **turn.reply(Reply()).response})
    if stored is not None:
        store.put("a", stored)
    return turn.id, sent


def ask(store: MemoryStore, id: str, method: str = "GET", **query: str) -> dict[str, Any]:
    operation = read_operation(method, PATH.format(id), query)
    assert operation is not None
    return operation.answer(store.find("a", operation.lookup))


def test_interaction_is_continued_by_its_steps() -> None:
    store = MemoryStore()
    first, _ = answered(store, CALL, status="requires_action", input="Snow?")
    assert first.startswith("interaction_")
    _, sent = answered(store, input=RESULT, previous_interaction_id=first, store=False)
    assert sent == {"model": "m", "input": [SNOW, CALL, RESULT], "store": False}


def test_options_of_the_previous_request_are_not_inherited() -> None:
    store = MemoryStore()
    tools = [{"type": "function", "name": "f"}]
    id, _ = answered(store, CALL, input="Snow?", system_instruction="Be brief.", tools=tools)
    _, sent = answered(store, input=[RESULT], previous_interaction_id=id)
    assert sent.keys() == {"model", "input"}


def test_retrieved_interaction_has_its_steps_and_its_input_if_asked_for() -> None:
    store = MemoryStore()
    first, _ = answered(store, CALL, input="Snow?")
    second, _ = answered(store, SNOW, input=[RESULT], previous_interaction_id=first)
    whole = {
        "object": "interaction",
        "status": "completed",
        "id": second,
        "previous_interaction_id": first,
        "steps": [SNOW],
    }
    assert ask(store, second) == ask(store, second, stream="false", include_input="false") == whole
    assert ask(store, second, include_input="true") == {**whole, "input": [RESULT]}
    assert ask(store, first, "DELETE") == {}


@pytest.mark.parametrize("status", ["failed", "cancelled", "in_progress"])
def test_interaction_that_did_not_end_is_not_stored(status: str) -> None:
    store = MemoryStore()
    id, _ = answered(store, SNOW, status=status, input="Snow?")
    with pytest.raises(StateError, match=f"^Interaction with id '{id}' not found.$") as caught:
        ask(store, id)
    assert caught.value.status == 404


def test_missing_interaction_is_an_error_in_the_vendor_s_form() -> None:
    turn = Turn({"input": "Hi", "previous_interaction_id": "interaction_0"}, OWN)
    with pytest.raises(StateError, match="Previous interaction with id") as caught:
        turn.expand(MemoryStore().find("a", turn.lookup))
    error = caught.value
    assert (error.status, error.param) == (400, "previous_interaction_id")
    body = json.loads(error_body(error, OWN))
    assert body == {"error": {"code": 400, "message": str(error), "status": "INVALID_ARGUMENT"}}


def test_interaction_that_has_ended_is_neither_cancelled_nor_streamed() -> None:
    store = MemoryStore()
    id, _ = answered(store, SNOW, input="Snow?")
    cancel = read_operation("POST", PATH.format(id) + "/cancel")
    assert cancel == Operation("cancel", id, dialect=OWN)
    with pytest.raises(StateError, match="Cannot cancel a synchronous interaction"):
        cancel.answer(store.find("a", cancel.lookup))
    with pytest.raises(StateError, match="expected false for interactions"):
        ask(store, id, stream="true")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1beta/interactions"),
        ("GET", "/v1beta/interactions"),
        ("GET", "/v1beta/interactions/i/input_items"),
        ("PATCH", "/v1beta/interactions/i"),
    ],
)
def test_other_requests_are_no_operations(method: str, path: str) -> None:
    assert read_operation(method, path) is None


def test_background_is_state_of_another_kind() -> None:
    with pytest.raises(StateError, match="'background'"):
        CheckedTurn({"input": "Hi", "background": True}, OWN)
    assert Turn({"input": "Hi", "background": False}, OWN).stores


@pytest.mark.parametrize("input", [7, [7], True])
def test_input_of_another_form_is_an_error(input: Any) -> None:
    with pytest.raises(DecodeError) as caught:
        Turn({"input": input}, OWN)
    assert caught.value.path.startswith("$.input")


def test_provider_is_told_not_to_store() -> None:
    body = {"model": "m", "input": "Hi"}
    assert forbid_storing(body, OWN, encrypts_reasoning=True) == {**body, "store": False}


def test_dialect_without_stored_answers_is_refused() -> None:
    with pytest.raises(UnknownDialect, match="anthropic"):
        form_of("anthropic")

"""A Responses request and its answer, with the state that connects it to others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.state.responses import answered, asked, call, message, output, reasoning, said

from streamnorm import DecodeError, LocalProtocolError, Reply
from streamnorm._core.bodies.request import ToolName
from streamnorm.state import (
    Found,
    Item,
    Lookup,
    MemoryStore,
    Operation,
    StateError,
    StoredResponse,
    Turn,
)
from streamnorm.state.turn import CheckedTurn, forbid_storing

ENCRYPTED = "reasoning.encrypted_content"
ASKED = said("Snow?")
THOUGHT = reasoning("rs_1", "Look it up.")
CALLED = call("c1", city="Oslo")
TOLD = message("msg_1", "It snows.")


def sent_input(store: MemoryStore, /, **body: Any) -> Any:
    return asked(store, **body)[1]["input"]


def refused(store: MemoryStore, scope: str = "a", /, **body: Any) -> StateError:
    with pytest.raises(StateError) as caught:
        asked(store, scope, **body)
    return caught.value


# Requests that need no state


def test_body_that_was_checked_is_read_and_not_written_to_be_checked() -> None:
    body = {"model": "m", "input": [ASKED], "metadata": {"a": object()}}
    with pytest.raises(DecodeError):
        Turn(body)
    turn = CheckedTurn(body)
    assert (turn.stores, turn.lookup) == (True, Lookup())
    with pytest.raises(StateError):
        CheckedTurn({"input": [], "conversation": "c"})


@pytest.mark.parametrize("body", [{"input": "Hi"}, {"input": [ASKED]}, {"input": None}, {}])
def test_request_without_references_is_sent_as_it_is(body: dict[str, Any]) -> None:
    turn, sent = asked(MemoryStore(), **body, previous_response_id=None, tools=[])
    assert turn.lookup == Lookup()
    assert sent == {"model": "m", **body, "previous_response_id": None, "tools": []}


def test_body_may_be_json_text() -> None:
    turn = Turn(b'{"model":"m","input":"Hi"}')
    assert turn.expand(Found()) == {"model": "m", "input": "Hi"}


def test_own_store_replaces_the_provider_s() -> None:
    assert "store" not in asked(MemoryStore(), input="Hi", store=True)[1]
    assert asked(MemoryStore(), input="Hi", store=False)[1]["store"] is False


def test_body_of_the_caller_is_not_changed() -> None:
    store = MemoryStore()
    id, _ = answered(store, CALLED, input="Hi")
    body = {"model": "m", "store": True, "previous_response_id": id, "input": [output("c1")]}
    before = json.dumps(body)
    turn = Turn(body)
    turn.expand(store.find("a", turn.lookup))
    assert json.dumps(body) == before


# Chains


def test_output_of_a_call_follows_the_stored_call() -> None:
    store = MemoryStore()
    id, _ = answered(store, THOUGHT, CALLED, input=[ASKED])
    turn, sent = asked(store, previous_response_id=id, input=[output("c1")])
    assert sent == {"model": "m", "input": [ASKED, THOUGHT, CALLED, output("c1")]}
    assert turn.lookup == Lookup(id)


def test_chain_is_the_conversation_from_its_start() -> None:
    store = MemoryStore()
    first, _ = answered(store, CALLED, input="Snow?")
    second, _ = answered(store, TOLD, previous_response_id=first, input=[output("c1")])
    assert sent_input(store, previous_response_id=second, input="Sure?") == [
        said("Snow?"),
        CALLED,
        output("c1"),
        TOLD,
        said("Sure?"),
    ]


@pytest.mark.parametrize("more", [{}, {"input": None}, {"input": []}])
def test_request_without_input_continues_the_chain(more: dict[str, Any]) -> None:
    store = MemoryStore()
    id, _ = answered(store, TOLD, input=[ASKED])
    assert sent_input(store, previous_response_id=id, **more) == [ASKED, TOLD]


def test_options_of_the_previous_request_are_not_inherited() -> None:
    store = MemoryStore()
    tool = {"type": "function", "name": "get_weather", "parameters": {}}
    id, _ = answered(store, TOLD, input="Hi", instructions="Be brief.", tools=[tool])
    _, sent = asked(store, previous_response_id=id, input="Go on")
    assert sent.keys() == {"model", "input"}


def test_two_answers_to_one_response_are_two_branches() -> None:
    store = MemoryStore()
    root, _ = answered(store, TOLD, input="Hi")
    left, _ = answered(store, message("msg_2", "L"), previous_response_id=root, input="left")
    right, _ = answered(store, message("msg_3", "R"), previous_response_id=root, input="right")
    start = [said("Hi"), TOLD]
    assert sent_input(store, previous_response_id=left) == [
        *start,
        said("left"),
        message("msg_2", "L"),
    ]
    assert sent_input(store, previous_response_id=right) == [
        *start,
        said("right"),
        message("msg_3", "R"),
    ]


@pytest.mark.parametrize("length", [1, 300])
def test_each_request_begins_with_the_one_before(length: int) -> None:
    store = MemoryStore()
    previous, sent = answered(store, message("m0", "0"), input="start")
    for number in range(1, length + 1):
        before = sent
        previous, sent = answered(
            store, message(f"m{number}", "x"), previous_response_id=previous, input=f"{number}"
        )
    kept = before["input"] if length > 1 else [said("start")]
    assert sent["input"][: len(kept)] == kept
    assert len(sent["input"]) == 2 * length + 1


# Chains that are not stored


def assert_previous_is_missing(error: StateError, id: str) -> None:
    assert str(error).startswith(f"Previous response with id {id} not found.")
    found = (error.status, error.code, error.param)
    assert found == (400, "previous_response_not_found", "previous_response_id")


def test_unknown_response_is_refused() -> None:
    error = refused(MemoryStore(), previous_response_id="resp_9", input="Hi")
    assert_previous_is_missing(error, "'resp_9'")


def test_response_that_was_not_stored_is_refused() -> None:
    store = MemoryStore()
    id, _ = answered(store, TOLD, input="Hi", store=False)
    assert_previous_is_missing(refused(store, previous_response_id=id), f"'{id}'")
    assert len(store) == 0


def test_response_of_another_scope_is_refused_as_an_unknown_one() -> None:
    store = MemoryStore()
    id, _ = answered(store, TOLD, input="Hi")
    assert_previous_is_missing(refused(store, "b", previous_response_id=id), f"'{id}'")
    error = refused(store, "b", input=[{"type": "item_reference", "id": "msg_1"}])
    assert (error.status, error.param) == (404, "input")


def test_chain_that_lacks_a_response_is_refused() -> None:
    store = MemoryStore()
    first, _ = answered(store, TOLD, input="Hi")
    second, _ = answered(store, CALLED, previous_response_id=first, input="a")
    third, _ = answered(store, TOLD, previous_response_id=second, input=[output("c1")])
    store.delete("a", second)
    error = refused(store, previous_response_id=third)
    assert (error.code, error.param) == ("previous_response_not_found", "previous_response_id")
    assert str(error) == (
        f"Previous response with id '{second}' not found, which '{third}' continues. "
        "Send the whole conversation as `input` instead."
    )
    assert sent_input(store, previous_response_id=first) == [said("Hi"), TOLD]


@pytest.mark.parametrize("status", ["queued", "in_progress", "failed", "cancelled"])
def test_response_without_a_complete_output_is_not_continued(status: str) -> None:
    store = MemoryStore()
    body = b'{"id": "resp_1", "status": "%b"}' % status.encode()
    store.put("a", StoredResponse("resp_1", None, body, (), ()))
    error = refused(store, previous_response_id="resp_1", input="Go on.")
    assert (error.status, error.param) == (400, "previous_response_id")
    # By this code agents send their whole input again.
    assert error.code == "previous_response_not_found"
    assert str(error) == (
        "Previous response with id 'resp_1' has no complete output. "
        "Send the whole conversation as `input` instead."
    )


@pytest.mark.parametrize("status", ["queued", "failed", "cancelled"])
def test_failed_response_is_retrieved_and_one_under_way_is_not(status: str) -> None:
    store = MemoryStore()
    body = b'{"id": "resp_1", "status": "%b"}' % status.encode()
    store.put("a", StoredResponse("resp_1", None, body, (), ()))
    retrieve = Operation("retrieve", "resp_1")
    found = store.find("a", retrieve.lookup)
    if status == "queued":
        with pytest.raises(StateError, match="not found"):
            retrieve.answer(found)
    else:
        assert retrieve.answer(found) == {"id": "resp_1", "status": status, "output": []}


def test_response_that_has_not_ended_is_stored_with_its_input() -> None:
    turn = CheckedTurn({"model": "m", "input": [{"role": "user", "content": "Hi", "id": "msg_1"}]})
    turn.expand(Found())
    stored = turn.unended({"id": turn.id, "status": "queued", "output": []})
    assert (stored.id, stored.previous, stored.output) == (turn.id, None, ())
    assert [item.id for item in stored.input] == ["msg_1"]
    assert json.loads(stored.body) == {"id": turn.id, "status": "queued"}
    store = MemoryStore()
    store.put("a", stored)
    error = refused(store, previous_response_id=turn.id, input="Go on.")
    assert error.code == "previous_response_not_found"


def test_store_that_finds_another_response_is_not_believed() -> None:
    other = StoredResponse("resp_2", None, b"{}", (), ())
    turn = Turn({"previous_response_id": "resp_1"})
    with pytest.raises(StateError, match="'resp_1' not found"):
        turn.expand(Found((other,)))


def test_chain_that_is_a_circle_is_refused() -> None:
    store = MemoryStore()
    for id, previous in (("resp_1", "resp_2"), ("resp_2", "resp_1")):
        store.put("a", StoredResponse(id, previous, b"{}", (), ()))
    assert_previous_is_missing(refused(store, previous_response_id="resp_1"), "'resp_1'")


@pytest.mark.parametrize("id", ["", "a" * 129, "resp\n1", "résp", "x'y"])
def test_odd_id_is_not_repeated(id: str) -> None:
    error = refused(MemoryStore(), previous_response_id=id)
    assert_previous_is_missing(error, f"of {len(id)} characters")


# References to items


def test_references_become_the_stored_items() -> None:
    store = MemoryStore()
    answered(store, THOUGHT, CALLED, input=[ASKED])
    items = [
        ASKED,
        {"type": "item_reference", "id": "rs_1"},
        {"id": "fc_c1"},  # the type may be left out
        output("c1"),
    ]
    turn, sent = asked(store, input=items)
    assert sent == {"model": "m", "input": [ASKED, THOUGHT, CALLED, output("c1")]}
    assert turn.lookup == Lookup(None, ("rs_1", "fc_c1"))


def test_stored_input_holds_items_instead_of_references() -> None:
    store = MemoryStore()
    first, _ = answered(store, CALLED, input=[ASKED])
    reference = {"type": "item_reference", "id": "fc_c1"}
    second, _ = answered(store, TOLD, input=[ASKED, reference, output("c1")])
    store.delete("a", first)
    assert sent_input(store, previous_response_id=second) == [ASKED, CALLED, output("c1"), TOLD]
    assert sent_input(store, input=[reference]) == [CALLED]


def test_chain_and_references_go_together() -> None:
    store = MemoryStore()
    answered(store, message("msg_7", "Other"), input="a")
    id, _ = answered(store, TOLD, input="b")
    reference = {"type": "item_reference", "id": "msg_7"}
    items = sent_input(store, previous_response_id=id, input=[reference])
    assert items == [said("b"), TOLD, message("msg_7", "Other")]


def test_reference_to_an_unknown_item_is_refused() -> None:
    error = refused(MemoryStore(), input=[{"type": "item_reference", "id": "rs_9"}])
    assert str(error).startswith("Item with id 'rs_9' not found. Items are not persisted when ")
    assert (error.status, error.code, error.param) == (404, None, "input")


@pytest.mark.parametrize("in_chain", [True, False])
def test_item_may_stand_only_once_in_an_input(in_chain: bool) -> None:
    store = MemoryStore()
    id, _ = answered(store, TOLD, input="Hi")
    reference = {"type": "item_reference", "id": "msg_1"}
    previous = {"previous_response_id": id} if in_chain else {}
    error = refused(store, input=[reference] * (2 - in_chain), **previous)
    assert str(error).startswith("Duplicate item found with id 'msg_1'.")
    assert (error.status, error.code, error.param) == (400, None, "input")


def test_items_of_the_input_get_ids_for_references() -> None:
    store = MemoryStore()
    id, _ = answered(store, TOLD, input=[ASKED, {**said("a"), "id": "msg_own"}, output("c1")])
    stem = id.removeprefix("resp_")
    for item_id, item in (
        (f"msg_{stem}_in_0", ASKED),
        ("msg_own", {**said("a"), "id": "msg_own"}),
        (f"item_{stem}_in_2", output("c1")),
    ):
        assert sent_input(store, input=[{"id": item_id}]) == [item]


# What is not supported, and what is no request


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("conversation", "conv_1"),
        ("conversation", {"id": "conv_1"}),
        ("prompt", {"id": "pmpt_1"}),
        ("background", True),
    ],
)
def test_state_of_another_kind_is_refused(name: str, value: Any) -> None:
    error = refused(MemoryStore(), input="Hi", **{name: value})
    assert str(error) == f"Unsupported parameter: '{name}' is not supported by this provider."
    assert (error.status, error.code, error.param) == (400, "unsupported_parameter", name)


def test_state_that_is_not_asked_for_is_no_error() -> None:
    body = {"input": "Hi", "conversation": None, "prompt": None, "background": False}
    assert asked(MemoryStore(), **body)[1] == {"model": "m", **body}


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"previous_response_id": 1}, "$.previous_response_id"),
        ({"store": "no"}, "$.store"),
        ({"input": 1}, "$.input"),
        ({"input": [ASKED, 1]}, "$.input[1]"),
        ({"input": [ASKED, {"type": "item_reference"}]}, "$.input[1].id"),
        ({"input": [{"id": None}]}, "$.input[0].id"),
        ({"input": [{}]}, "$.input[0].id"),
        (b"[]", "$"),
        (b"{", "$"),
    ],
)
def test_body_of_another_shape_is_refused(body: Any, path: str) -> None:
    with pytest.raises(DecodeError) as caught:
        Turn(body)
    assert caught.value.path == path


# Answers


def test_reply_names_the_answer() -> None:
    store = MemoryStore()
    first, _ = answered(store, TOLD, input="Hi")
    turn, _ = asked(store, previous_response_id=first, input="Go on")
    tools = {"a": ToolName("b")}
    repeated = {"temperature": 0.2}
    expected = {**repeated, "id": turn.id, "store": True, "previous_response_id": first}
    assert turn.reply(Reply(tools, repeated)) == Reply(tools, expected)
    assert turn.id.startswith("resp_")
    assert len(turn.id) == 37
    assert turn.id != first


def test_answer_that_is_not_stored_keeps_the_provider_s_id() -> None:
    turn, _ = asked(MemoryStore(), input="Hi", store=False)
    assert turn.reply(Reply()) == Reply()
    assert turn.stored({"id": "resp_up", "status": "completed", "output": []}) is None


def test_stored_answer_is_the_client_s() -> None:
    turn, _ = asked(MemoryStore(), input=[ASKED])
    body = {"id": turn.id, "status": "incomplete", "model": "m", "output": [CALLED, {"type": "x"}]}
    stem = turn.id.removeprefix("resp_")
    stored = turn.stored(body)
    assert stored is not None
    assert (stored.id, stored.previous) == (turn.id, None)
    assert json.loads(stored.body) == {"id": turn.id, "status": "incomplete", "model": "m"}
    assert [item.id for item in stored.output] == ["fc_c1", f"item_{stem}_1"]
    assert [json.loads(item.json) for item in stored.output] == [CALLED, {"type": "x"}]
    assert stored.input == (
        Item(f"msg_{stem}_in_0", json.dumps(ASKED).replace(": ", ":").replace(", ", ",").encode()),
    )


@pytest.mark.parametrize(
    "body",
    [
        {"status": "failed", "output": []},
        {"status": "cancelled", "output": []},
        {"status": "in_progress", "output": []},
        {"output": []},
        {"status": "completed"},  # an output beyond the bound of a message
    ],
)
def test_answer_without_an_end_is_not_stored(body: dict[str, Any]) -> None:
    turn, _ = asked(MemoryStore(), input="Hi")
    assert turn.stored({"id": turn.id, **body}) is None


def test_output_of_another_shape_is_refused() -> None:
    turn, _ = asked(MemoryStore(), input="Hi")
    with pytest.raises(DecodeError) as caught:
        turn.stored({"id": turn.id, "status": "completed", "output": [{}, None]})
    assert caught.value.path == "$.output[1]"


def test_answer_under_another_id_is_a_mistake_of_the_caller() -> None:
    turn, _ = asked(MemoryStore(), input="Hi")
    with pytest.raises(LocalProtocolError, match=r"^answer with another id, expected that of "):
        turn.stored({"id": "resp_up", "status": "completed", "output": []})


def test_answer_before_expand_is_a_mistake_of_the_caller() -> None:
    turn = Turn({"input": "Hi"})
    with pytest.raises(LocalProtocolError, match=r"^answer stored before `expand`, "):
        turn.stored({"id": turn.id, "status": "completed", "output": []})


@pytest.mark.parametrize(
    ("asked_for", "included"),
    [
        ({}, [ENCRYPTED]),
        ({"include": None}, [ENCRYPTED]),
        ({"include": ["a", ENCRYPTED]}, ["a", ENCRYPTED]),
        ({"include": ["a"]}, ["a", ENCRYPTED]),
    ],
)
def test_request_for_a_provider_that_stores_nothing(
    asked_for: dict[str, Any], included: list[str]
) -> None:
    body = {"input": "Hi", "store": True, **asked_for}
    sent = forbid_storing(body, encrypts_reasoning=True)
    assert sent == {"input": "Hi", "store": False, "include": included}
    assert forbid_storing(body, encrypts_reasoning=False) == {**body, "store": False}
    assert body == {"input": "Hi", "store": True, **asked_for}

"""Requests about a stored response: retrieve, delete, cancel, list its input items."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.responses import Response
from openai.types.responses.response_item_list import ResponseItemList
from support.state.responses import answered, asked, call, message, output, said

from streamnorm import Message, Reply, Text, encode_message
from streamnorm.state import (
    Found,
    Item,
    Lookup,
    MemoryStore,
    Operation,
    StateError,
    StoredResponse,
    read_operation,
)

ITEMS = "/v1/responses/{}/input_items"


def ask(
    store: MemoryStore, id: str, method: str = "GET", path: str = "/v1/responses/{}", **query: str
) -> dict[str, Any]:
    """Return the answer to an operation, as a transport gets it."""
    operation = read_operation(method, path.format(id), query)
    assert operation is not None
    answer = operation.answer(store.find("a", operation.lookup))
    if operation.deletes:
        store.delete("a", operation.id)
    return answer


def refused(*args: Any, **query: str) -> StateError:
    with pytest.raises(StateError) as caught:
        ask(*args, **query)
    return caught.value


def conversation() -> tuple[MemoryStore, str, str]:
    """Return a store, and the ids of two responses of a chain."""
    store = MemoryStore()
    first, _ = answered(store, call("c1"), input="Snow?")
    second, _ = answered(
        store, message("msg_1", "Yes."), previous_response_id=first, input=[output("c1")]
    )
    return store, first, second


@pytest.mark.parametrize(
    ("method", "path", "action", "id"),
    [
        ("GET", "/v1/responses/resp_1", "retrieve", "resp_1"),
        ("get", "/responses/resp_1", "retrieve", "resp_1"),
        ("DELETE", "/v1/responses/resp_1", "delete", "resp_1"),
        ("POST", "/v1/responses/resp_1/cancel", "cancel", "resp_1"),
        ("GET", "/openai/v1/responses/resp_1/input_items", "list_input", "resp_1"),
    ],
)
def test_operation_is_read(method: str, path: str, action: Any, id: str) -> None:
    assert read_operation(method, path) == Operation(action, id)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/responses"),
        ("GET", "/v1/responses"),
        ("GET", "/v1/responses/"),
        ("POST", "/v1/responses/compact"),
        ("POST", "/v1/responses/input_tokens"),
        ("POST", "/v1/responses/resp_1/input_items"),
        ("GET", "/v1/responses/resp_1/cancel"),
        ("GET", "/v1/responses/resp_1/other"),
        ("GET", "/v1/models/resp_1"),
    ],
)
def test_other_requests_are_no_operations(method: str, path: str) -> None:
    assert read_operation(method, path) is None


def test_retrieved_response_is_the_one_that_the_client_got() -> None:
    store = MemoryStore()
    turn, _ = asked(store, input="Hi")
    text = Message("up", "m", (Text("Hello"),), "end_turn")
    answer = encode_message(text, "openai_responses", reply=turn.reply(Reply())).body
    stored = turn.stored(answer)
    assert stored is not None
    store.put("a", stored)
    assert ask(store, turn.id) == answer
    assert Response.model_validate(answer, strict=True).output_text == "Hello"
    assert (answer["id"], answer["store"]) == (turn.id, True)


def test_deleted_response_is_gone() -> None:
    store, first, second = conversation()
    assert ask(store, first, "DELETE") == {"id": first, "object": "response", "deleted": True}
    error = refused(store, first)
    assert str(error) == f"Response with id '{first}' not found."
    assert (error.status, error.code, error.param) == (404, None, None)
    assert ask(store, second)["id"] == second
    assert refused(store, second, "GET", ITEMS).status == 404


def test_response_is_deleted_without_being_read() -> None:
    operation = read_operation("DELETE", "/v1/responses/resp_1")
    assert operation is not None
    deleted = {"id": "resp_1", "object": "response", "deleted": True}
    assert operation.answer_deleted(was_stored=True) == deleted
    with pytest.raises(StateError, match=r"^Response with id 'resp_1' not found.$"):
        operation.answer_deleted(was_stored=False)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/{}"),
        ("DELETE", "/v1/responses/{}"),
        ("POST", "/v1/responses/{}/cancel"),
        ("GET", ITEMS),
    ],
)
def test_response_of_another_scope_is_not_found(method: str, path: str) -> None:
    store, first, _ = conversation()
    operation = read_operation(method, path.format(first))
    assert operation is not None
    with pytest.raises(StateError, match=f"^Response with id '{first}' not found.$"):
        operation.answer(store.find("b", operation.lookup))


def test_response_that_has_ended_cannot_be_cancelled() -> None:
    store, first, _ = conversation()
    error = refused(store, first, "POST", "/v1/responses/{}/cancel")
    assert str(error) == "Cannot cancel a synchronous response."
    assert (error.status, error.code, error.param) == (400, None, None)


def test_response_cannot_be_streamed_again() -> None:
    store, first, _ = conversation()
    assert ask(store, first, stream="false")["id"] == first
    error = refused(store, first, stream="true")
    assert (error.status, error.code, error.param) == (400, "invalid_value", "stream")


def test_response_whose_body_is_not_stored_is_not_found() -> None:
    store, first, second = conversation()
    operation = read_operation("GET", f"/v1/responses/{first}")
    assert operation is not None
    found = store.find("a", Lookup(second))  # of which the first response alone has its body
    with pytest.raises(StateError, match=f"^Response with id '{first}' not found.$"):
        operation.answer(Found(found.chain[1:]))
    assert ask(store, first)["id"] == first


# In the background


def background(status: str) -> MemoryStore:
    """Return a store with a response that was made in the background."""
    store = MemoryStore()
    body = b'{"id": "resp_1", "background": true, "status": "%b"}' % status.encode()
    items = (Item("msg_1", b'{"role": "user", "content": "Snow?"}'),)
    store.put("a", StoredResponse("resp_1", None, body, items, ()))
    return store


def test_background_response_that_has_ended_is_the_answer_to_its_cancellation() -> None:
    """https://platform.openai.com/docs/guides/background: cancelling twice is idempotent."""
    for _ in range(2):
        answer = ask(background("completed"), "resp_1", "POST", "/v1/responses/{}/cancel")
        assert (answer["id"], answer["status"], answer["output"]) == ("resp_1", "completed", [])


@pytest.mark.parametrize("status", ["queued", "in_progress"])
def test_background_response_without_an_end_has_input_alone(status: str) -> None:
    """What has become of it, the log of streams alone knows."""
    store = background(status)
    for method, path in (("GET", "/v1/responses/{}"), ("POST", "/v1/responses/{}/cancel")):
        assert refused(store, "resp_1", method, path).status == 404
    assert [item["id"] for item in ask(store, "resp_1", "GET", ITEMS)["data"]] == ["msg_1"]
    assert ask(store, "resp_1", "DELETE")["deleted"] is True


# Input items


def test_input_items_of_a_chain_that_lacks_a_response_name_that_response() -> None:
    store, first, second = conversation()
    store.delete("a", first)
    error = refused(store, second, "GET", ITEMS)
    assert (error.status, str(error)) == (404, f"Response with id '{first}' not found.")


def test_input_items_are_those_of_the_whole_chain() -> None:
    store, first, second = conversation()
    listed = ask(store, second, "GET", ITEMS, order="asc")
    ids = [f"msg_{first[5:]}_in_0", "fc_c1", f"item_{second[5:]}_in_0"]
    assert listed["data"] == [
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "Snow?"}],
            "id": ids[0],
            "type": "message",
        },
        call("c1"),
        {**output("c1"), "id": ids[2]},
    ]
    assert (listed["first_id"], listed["last_id"]) == (ids[0], ids[-1])
    assert (listed["object"], listed["has_more"]) == ("list", False)


def test_text_of_an_assistant_is_listed_as_output() -> None:
    store = MemoryStore()
    id, _ = answered(store, input=[said("Hi", "assistant"), {**said("a"), "content": []}])
    last, first = ask(store, id, "GET", ITEMS)["data"]
    assert first["content"] == [{"type": "output_text", "annotations": [], "text": "Hi"}]
    assert last["content"] == []


def test_input_items_are_listed_newest_first_by_pages() -> None:
    store = MemoryStore()
    items = [{**said(str(number)), "id": f"msg_{number}"} for number in range(25)]
    id, _ = answered(store, input=items)

    def page(**query: str) -> tuple[list[int], bool]:
        listed = ask(store, id, "GET", ITEMS, **query)
        return [int(item["id"][4:]) for item in listed["data"]], listed["has_more"]

    assert page() == (list(range(24, 4, -1)), True)
    assert page(after="msg_5") == ([4, 3, 2, 1, 0], False)
    assert page(order="asc", limit="2", after="msg_3") == ([4, 5], True)
    assert page(limit="1") == ([24], True)
    assert page(limit="100", order="asc") == (list(range(25)), False)
    assert page(after="msg_0") == ([], False)
    assert ResponseItemList.model_validate(ask(store, id, "GET", ITEMS, after="msg_0")).data == []


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "101"}, "limit"),
        ({"limit": "9" * 5000}, "limit"),
        ({"limit": "²"}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"order": "random"}, "order"),
        ({"after": "msg_9"}, "after"),
    ],
)
def test_page_that_does_not_exist_is_refused(query: dict[str, str], param: str) -> None:
    store, first, _ = conversation()
    error = refused(store, first, "GET", ITEMS, **query)
    assert str(error).startswith(f"Invalid value for '{param}': expected ")
    assert (error.status, error.code, error.param) == (400, "invalid_value", param)

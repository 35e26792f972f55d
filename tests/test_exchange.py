"""The exchange of a client with a provider of another dialect, as steps without I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from msgspec import structs

from streamnorm import (
    Abandoned,
    Completed,
    Encoded,
    LimitExceeded,
    Loss,
    Message,
    StreamError,
    ToolCall,
    Usage,
)
from streamnorm._core.bodies.token_count import TokenEstimator
from streamnorm._exchange import (
    Answer,
    Delete,
    ExchangeOptions,
    Find,
    Put,
    Step,
    UpstreamExchange,
    client_scope,
    last_answer,
    store_scope,
)
from streamnorm._registry import DIALECTS, lookup
from streamnorm._upstream.answers import TranslatedAnswer
from streamnorm._upstream.auxiliary import UpstreamCall, UpstreamReply
from streamnorm._upstream.requests import ClientRequest, RequestRefused, Upstream, UpstreamRequest
from streamnorm.state import MemoryStore

RESPONSES, CHAT = lookup("openai_responses"), lookup("openai_chat")
SNOW = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "text", "text": "It snows."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 7, "output_tokens": 3},
}


def asking(body: Any, path: str = "/v1/responses", method: str = "POST") -> ClientRequest:
    return ClientRequest(
        method=method,
        path=path,
        headers={"authorization": "Bearer key", "content-type": "application/json"},
        body=json.dumps(body).encode() if body else b"",
    )


def options(client: str = "openai_responses", *, stores: bool = True) -> ExchangeOptions:
    return ExchangeOptions(
        client=lookup(client),
        upstream=Upstream(dialect="anthropic", base_url="https://h/v1"),
        stores=stores,
        estimator=TokenEstimator(),
    )


def reply(body: object) -> UpstreamReply:
    data = json.dumps(body).encode()
    return UpstreamReply(status=200, content_type="application/json", body=data)


def run(
    exchange: UpstreamExchange, store: MemoryStore, replies: Iterable[object] = ()
) -> tuple[list[Step], Answer]:
    """Perform the steps of an exchange; return them, and the answer."""
    steps, seen, given = exchange.steps(), list[Step](), iter(replies)
    result: Any = None
    while True:
        try:
            step = steps.send(result)
        except StopIteration as done:
            return seen, done.value
        seen.append(step)
        match step:
            case Find():
                result = store.find(step.scope, step.lookup)
            case Put():
                result = store.put(step.scope, step.response)
            case Delete():
                result = store.delete(step.scope, step.id)
            case _:
                result = reply(next(given))


def ask(body: Any, store: MemoryStore, answer: object = SNOW) -> tuple[list[Step], dict[str, Any]]:
    exchange = UpstreamExchange(asking(body), options(), created=1.0)
    steps, answered = run(exchange, store, [answer])
    assert isinstance(answered, TranslatedAnswer)
    return steps, json.loads(answered.body)


def kinds(steps: list[Step]) -> list[str]:
    return [type(step).__name__ for step in steps]


def test_answer_is_stored_and_continued() -> None:
    store = MemoryStore()
    steps, first = ask({"model": "m", "input": "Snow?"}, store)
    assert kinds(steps) == ["Find", "UpstreamRequest", "Put"]
    assert (first["id"][:5], first["store"], first["created_at"]) == ("resp_", True, 1)
    asked = {"model": "m", "input": "Sure?", "previous_response_id": first["id"]}
    (_, sent, _), second = ask(asked, store)
    assert isinstance(sent, UpstreamRequest)
    roles = [message["role"] for message in json.loads(sent.body)["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert second["previous_response_id"] == first["id"]


def test_answer_is_not_stored_where_the_client_says_so() -> None:
    steps, answered = ask({"model": "m", "input": "Snow?", "store": False}, MemoryStore())
    assert kinds(steps) == ["Find", "UpstreamRequest"]
    assert answered["store"] is False


def test_clients_of_other_dialects_store_nothing() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Snow?"}]}
    received = asking(body, "/v1/chat/completions")
    exchange = UpstreamExchange(received, options("openai_chat", stores=False), created=1.0)
    steps, answered = run(exchange, MemoryStore(), [SNOW])
    assert kinds(steps) == ["UpstreamRequest"]
    assert isinstance(answered, TranslatedAnswer)
    assert answered.outcome == Completed("end_turn", Usage(7, 3))
    assert exchange.put_of(b"data: {}\n\n", Message) is None


def test_response_that_is_not_stored_is_refused_before_the_provider_is_asked() -> None:
    body = {"model": "m", "input": "Sure?", "previous_response_id": "resp_x"}
    with pytest.raises(RequestRefused, match="resp_x") as caught:
        run(UpstreamExchange(asking(body), options(), created=1.0), MemoryStore())
    error = caught.value.error
    assert (error.code, error.status_hint) == ("previous_response_not_found", 400)


def test_response_of_another_client_is_refused() -> None:
    store = MemoryStore()
    _, first = ask({"model": "m", "input": "Snow?"}, store)
    received = asking({"model": "m", "input": "Sure?", "previous_response_id": first["id"]})
    other = structs.replace(received, headers={**received.headers, "authorization": "Bearer b"})
    with pytest.raises(RequestRefused) as caught:
        run(UpstreamExchange(other, options(), created=1.0), store)
    assert caught.value.error.code == "previous_response_not_found"


def test_answer_of_another_dialect_is_an_error_that_is_not_stored() -> None:
    exchange = UpstreamExchange(asking({"model": "m", "input": "Snow?"}), options(), created=1.0)
    steps, answered = run(exchange, MemoryStore(), [{"nothing": 1}])
    assert kinds(steps) == ["Find", "UpstreamRequest"]
    assert isinstance(answered, StreamError)
    assert answered.kind == "malformed"


def test_answer_that_failed_is_not_stored() -> None:
    store = MemoryStore()
    exchange = UpstreamExchange(asking({"model": "m", "input": "Snow?"}), options(), created=1.0)
    steps = exchange.steps()
    find = next(steps)
    assert isinstance(find, Find)
    steps.send(store.find(find.scope, find.lookup))
    failed = b'event: response.failed\ndata: {"type":"response.failed","response":{}}\n\n'
    assert exchange.put_of(failed, Message) is None
    assert exchange.put_of(b"", Message) is None


def test_stored_responses_are_shown_and_deleted() -> None:
    store = MemoryStore()
    _, answered = ask({"model": "m", "input": "Snow?"}, store)
    path = f"/v1/responses/{answered['id']}"
    for method, expected in (("GET", ["Find"]), ("DELETE", ["Find", "Delete"])):
        exchange = UpstreamExchange(asking(None, path, method), options(), created=1.0)
        steps, shown = run(exchange, store)
        assert kinds(steps) == expected
        assert isinstance(shown, Encoded)
        assert shown.body["id"] == answered["id"]
    with pytest.raises(RequestRefused) as caught:
        run(UpstreamExchange(asking(None, path, "GET"), options(), created=1.0), store)
    assert caught.value.error.status_hint == 404


def test_tokens_are_counted_by_the_provider() -> None:
    received = asking({"model": "m", "input": "Snow?"}, "/v1/responses/input_tokens")
    exchange = UpstreamExchange(received, options(), created=1.0)
    (step,), counted = run(exchange, MemoryStore(), [{"input_tokens": 9}])
    assert isinstance(step, UpstreamCall)
    assert isinstance(counted, Encoded)
    assert counted.body["input_tokens"] == 9


def test_tokens_of_a_whole_answer_improve_the_estimates() -> None:
    received = asking({"model": "m", "input": "Snow? " * 1000})
    exchange = UpstreamExchange(received, settings := options(), created=1.0)
    usage = {"input_tokens": 3000, "output_tokens": 3}
    (_, sent, _), _ = run(exchange, MemoryStore(), [{**SNOW, "usage": usage}])
    assert isinstance(sent, UpstreamRequest)
    assert sent.request is not None
    before = TokenEstimator().estimate(sent.request).input_tokens
    assert settings.estimator.estimate(sent.request).input_tokens > before


def test_reported_tokens_improve_the_estimates() -> None:
    body = {"model": "m", "input": "Snow? " * 1000}
    exchange = UpstreamExchange(asking(body), settings := options(), created=1.0)
    (_, sent, _), _ = run(exchange, MemoryStore(), [SNOW])
    assert isinstance(sent, UpstreamRequest)
    assert sent.request is not None
    before = settings.estimator.estimate(sent.request).input_tokens
    exchange.observe(sent, Abandoned())
    for _ in range(20):
        exchange.observe(sent, Completed("end_turn", Usage(3000, 1)))
    assert settings.estimator.estimate(sent.request).input_tokens > before


def test_losses_of_an_answer_are_reported() -> None:
    losses: list[Loss] = []
    known = options("openai_chat", stores=False)
    settings = ExchangeOptions(
        client=CHAT,
        upstream=known.upstream,
        stores=False,
        estimator=known.estimator,
        on_loss=losses.append,
    )
    body = {"model": "m", "messages": [{"role": "user", "content": "Snow?"}]}
    exchange = UpstreamExchange(asking(body, "/v1/chat/completions"), settings, created=1.0)
    block = {"type": "redacted_thinking", "data": "AAAA"}
    run(exchange, MemoryStore(), [{**SNOW, "content": [block, *SNOW["content"]]}])
    assert [loss.where for loss in losses] == ["RedactedReasoning"]


def test_scope_is_that_of_the_key_in_any_header() -> None:
    bare = asking({})
    both = {"authorization": "Bearer key", "api-key": "key"}
    same = ClientRequest(method="POST", path="/", headers=both, body=b"")
    other = ClientRequest(method="POST", path="/", headers={**both, "api-key": "k2"}, body=b"")
    assert client_scope(bare, RESPONSES) == client_scope(same, RESPONSES)
    assert client_scope(bare, RESPONSES) != client_scope(other, RESPONSES)


def test_scope_of_a_verified_signature_is_that_of_its_access_key() -> None:
    def scope(signature: str, **verified: str) -> str:
        headers = {"authorization": f"AWS4-HMAC-SHA256 Credential=AKID/day, Signature={signature}"}
        received = ClientRequest(method="POST", path="/", headers=headers, body=b"", **verified)
        return client_scope(received, RESPONSES)

    assert scope("a", signed_by="AKID") == scope("b", signed_by="AKID")
    assert scope("a", signed_by="AKID") != scope("a", signed_by="OTHER")
    # An id that nobody has verified opens nothing: it is no secret.
    assert scope("a") not in (scope("b"), scope("a", signed_by="AKID"))
    bearer = {"authorization": "Bearer AKID"}
    unsigned = ClientRequest(method="POST", path="/", headers=bearer, body=b"")
    assert client_scope(unsigned, RESPONSES) != scope("a", signed_by="AKID")


def test_clients_of_two_dialects_expect_a_store() -> None:
    stored = {name for name, known in DIALECTS.items() if known.stored is not None}
    assert stored == {"openai_responses", "gemini_interactions"}


INTERACTIONS = "/v1beta/interactions"


def ask_interactions(body: Any, store: MemoryStore) -> tuple[list[Step], UpstreamExchange, Any]:
    exchange = UpstreamExchange(
        asking(body, INTERACTIONS), options("gemini_interactions"), created=1.0
    )
    steps, answered = run(exchange, store, [SNOW])
    assert isinstance(answered, TranslatedAnswer)
    return steps, exchange, json.loads(answered.body)


def test_answer_that_the_store_does_not_take_is_not_said_to_be_stored() -> None:
    asked = {"model": "m", "input": "Snow?"}
    steps, answer = ask(asked, MemoryStore(max_bytes=9))
    assert kinds(steps) == ["Find", "UpstreamRequest", "Put"]
    assert answer["store"] is False
    _, _, interaction = ask_interactions(asked, MemoryStore(max_bytes=9))
    assert (interaction["id"], interaction["status"]) == ("", "completed")


def test_last_chunk_of_an_answer_that_is_not_stored() -> None:
    exchange = UpstreamExchange(asking({"model": "m", "input": "Hi."}), options(), created=1.0)
    chunk = b'event: a\ndata: {"response":{"store":true}}\n\nevent: b\ndata: {"c":1}\n\n'
    assert exchange.mark_unstored(chunk) == chunk  # before the request was read
    run(exchange, MemoryStore(), [SNOW])
    expected = chunk.replace(b"true", b"false")
    assert exchange.mark_unstored(chunk) == expected
    assert exchange.mark_unstored(b"data: [DONE]\n\n") == b"data: [DONE]\n\n"


def test_interaction_is_stored_and_continued() -> None:
    store = MemoryStore()
    steps, exchange, first = ask_interactions({"model": "m", "input": "Snow?"}, store)
    assert kinds(steps) == ["Find", "UpstreamRequest", "Put"]
    assert exchange.needs_message
    asked = {"model": "m", "input": "Sure?", "previous_interaction_id": first["id"]}
    (_, sent, _), _, second = ask_interactions(asked, store)
    assert isinstance(sent, UpstreamRequest)
    roles = [message["role"] for message in json.loads(sent.body)["messages"]]
    assert roles == ["user", "assistant", "user"]
    assert second["previous_interaction_id"] == first["id"]
    deletion = UpstreamExchange(
        asking(None, f"{INTERACTIONS}/{first['id']}", "DELETE"),
        options("gemini_interactions"),
        created=1.0,
    )
    steps, deleted = run(deletion, store)
    assert (kinds(steps), deleted) == (["Find", "Delete"], Encoded({}))


def test_stream_of_an_interaction_is_stored_by_its_message() -> None:
    store = MemoryStore()
    _, exchange, first = ask_interactions({"model": "m", "input": "Snow?"}, store)
    call = ToolCall("c1", "f", '{"city":"Oslo"}')
    put = exchange.put_of(b"", lambda: Message("msg_1", "m", (call,), "tool_use"))
    assert put is not None
    assert put.response.id == first["id"]
    [step] = [json.loads(item.json) for item in put.response.output]
    assert step == {
        "type": "function_call",
        "id": "c1",
        "name": "f",
        "arguments": {"city": "Oslo"},
    }


def read_too_large() -> Message:
    raise LimitExceeded("too large", limit="max_accumulated_bytes")


def read_unkept() -> Message:
    raise AssertionError("message of a stream that is not stored")


def test_stream_of_an_interaction_without_a_legal_form_is_not_stored() -> None:
    _, exchange, _ = ask_interactions({"model": "m", "input": "Snow?"}, MemoryStore())
    assert exchange.put_of(b"", read_too_large) is None
    broken = ToolCall("c1", "f", '{"city":')
    assert exchange.put_of(b"", lambda: Message("m", "m", (broken,), "tool_use")) is None


def test_interaction_that_is_not_to_be_stored_needs_no_message() -> None:
    _, exchange, answered = ask_interactions(
        {"model": "m", "input": "Snow?", "store": False}, MemoryStore()
    )
    assert not exchange.needs_message
    assert exchange.put_of(b"", read_unkept) is None
    assert "previous_interaction_id" not in answered


def test_scope_in_the_store_is_that_of_a_dialect() -> None:
    received = asking({})
    interactions = lookup("gemini_interactions")
    assert store_scope(received, RESPONSES) == client_scope(received, RESPONSES)
    assert store_scope(received, interactions) != client_scope(received, interactions)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", {}),
        (b"data: [DONE]\n\n", {}),
        (b'data: {"interaction":5}\n\n', {}),
        (
            b'data: {"interaction":{"id":"a"}}\n\ndata: {"interaction":{"id":"b"}}\n\n'
            b"data: [DONE]\n\n",
            {"id": "b"},
        ),
    ],
)
def test_last_answer_may_stand_before_the_last_frame(data: bytes, expected: Any) -> None:
    assert last_answer(data, "interaction") == expected

"""Chats of pages without a backend: what becomes of their histories."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs
from support.gateway.pages import (
    AG,
    AG_BODY,
    BODIES,
    HELLO,
    UI,
    UI_BODY,
    ask,
    between,
    chunks_of,
    every_page,
    text_of,
)
from support.streams.content import PROVIDERS

from streamnorm.gateway import PageConfig
from streamnorm.testing import tool_call

pytestmark = pytest.mark.anyio


async def test_answer_after_tools_of_the_page_continues_its_message() -> None:
    part = {
        "type": "tool-alert",
        "toolCallId": "c",
        "state": "output-available",
        "input": {"text": "x"},
        "output": "shown",
    }
    answer = {"id": "page-7", "role": "assistant", "parts": [{"type": "step-start"}, part]}
    async with between() as (app, _):
        start, *_ = chunks_of(await ask(app, UI, {**UI_BODY, "messages": [HELLO, answer]}))
    assert start["messageId"] == "page-7"


CALLED = {
    UI: {
        "id": "page-7",
        "role": "assistant",
        "parts": [
            {
                "type": "tool-alert",
                "toolCallId": "call_0",
                "state": "output-available",
                "input": {"text": "x"},
                "output": "shown",
            }
        ],
    },
    AG: {
        "id": "2",
        "role": "assistant",
        "toolCalls": [
            {
                "id": "call_0",
                "type": "function",
                "function": {"name": "alert", "arguments": '{"text":"x"}'},
            }
        ],
    },
}


@every_page
async def test_call_gets_no_id_of_an_earlier_call_of_the_page(page: str) -> None:
    """`useChat` overwrites the result of the earlier one, AG-UI's client appends to it."""
    messages = [*BODIES[page]["messages"], CALLED[page]]
    if page == AG:
        messages.append({"id": "3", "role": "tool", "toolCallId": "call_0", "content": "shown"})
    again = structs.replace(tool_call("alert", text="y"), id="call_0")
    async with between([[again]]) as (app, _):
        chunks = chunks_of(await ask(app, page, {**BODIES[page], "messages": messages}))
    ids = {each["toolCallId"] for each in chunks if "toolCallId" in each}
    assert ids == {"call_0-2"}


def chat_after_call(page: str, *, is_cut: bool) -> list[dict[str, Any]]:
    """Return what a client sends where the user writes and no call was answered."""
    again: dict[str, Any]
    if page == UI:
        state = "input-streaming" if is_cut else "input-available"
        part = {"type": "tool-alert", "toolCallId": "c", "state": state, "input": {"text": "x"}}
        said = {"type": "text", "text": "One moment.", "state": "done"}
        answer = {"id": "2", "role": "assistant", "parts": [{"type": "step-start"}, said, part]}
        again = {"id": "3", "role": "user", "parts": [{"type": "text", "text": "Well?"}]}
    else:
        function = {"name": "alert", "arguments": '{"te' if is_cut else '{"text":"x"}'}
        call = {"id": "c", "type": "function", "function": function}
        answer = {"id": "2", "role": "assistant", "content": "One moment.", "toolCalls": [call]}
        again = {"id": "3", "role": "user", "content": "Well?"}
    return [*BODIES[page]["messages"], answer, again]


@every_page
@pytest.mark.parametrize("is_cut", [False, True])
async def test_user_may_write_instead_of_answering_a_call(page: str, *, is_cut: bool) -> None:
    messages = chat_after_call(page, is_cut=is_cut)
    for dialect in PROVIDERS:
        async with between(dialect=dialect) as (app, provider):
            caller = await ask(app, page, {**BODIES[page], "messages": messages})
        assert caller.status == 200, (dialect, text_of(caller))
        written = json.dumps(provider.requests[0].body)
        assert "Well?" in written
        # `useChat` sends back a call that was cut, and no server reads it.
        is_called = page == AG or not is_cut
        assert ("No result was recorded" in written) == is_called, dialect


APPROVALS = [
    ("approval-requested", {}, None),
    ("approval-responded", {"approved": True}, "No result was recorded"),
    ("approval-responded", {"approved": False, "reason": "Not now."}, "Not now."),
]


@pytest.mark.parametrize(("state", "approval", "result"), APPROVALS)
async def test_nothing_is_executed_that_a_user_approves(
    state: str, approval: dict[str, Any], result: str | None
) -> None:
    *before, answer, again = chat_after_call(UI, is_cut=False)
    answer["parts"][-1] |= {"state": state, "approval": {"id": "a", **approval}}
    async with between() as (app, provider):
        caller = await ask(app, UI, {**UI_BODY, "messages": [*before, answer, again]})
    assert caller.status == 200
    written = json.dumps(provider.requests[0].body)
    assert ('"tool_use"' in written) == (result is not None)
    assert result is None or result in written


@every_page
async def test_chat_that_ends_in_an_answer_is_refused(page: str) -> None:
    *_, answer, _again = messages = chat_after_call(page, is_cut=False)
    async with between() as (app, provider):
        called_last = await ask(app, page, {**BODIES[page], "messages": messages[:-1]})
        assert called_last.status == 200
        answer.pop("toolCalls", None)
        answer["parts"] = answer.get("parts", [])[:-1]
        caller = await ask(app, page, {**BODIES[page], "messages": messages[:-1]})
        assert caller.status == 400
        assert "$.messages: an answer at the end, expected a message of" in text_of(caller)
        assert len(provider.requests) == 1
        # AG-UI's client may run an agent without a message.
        assert (await ask(app, page, {**BODIES[page], "messages": []})).status == 400


def data_url(type: str) -> dict[str, str]:
    return {"type": "file", "mediaType": type, "url": f"data:{type};base64,UEsDBA=="}


DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
UNREADABLE: list[tuple[str, dict[str, Any], str]] = [
    *[(dialect, data_url("image/svg+xml"), "image") for dialect in PROVIDERS],
    *[(dialect, {"type": "data-note", "data": 1}, "data") for dialect in PROVIDERS],
    *[(dialect, {"type": "text", "text": " "}, "blank text") for dialect in PROVIDERS],
    ("anthropic", data_url(DOCX), "document"),
    ("anthropic", data_url("audio/wav"), "audio"),
    ("openai_responses", data_url("audio/wav"), "audio"),
    ("openai_chat", data_url("video/mp4"), "video"),
]


@pytest.mark.parametrize(("dialect", "part", "kind"), UNREADABLE)
@pytest.mark.parametrize("is_first", [False, True])
async def test_message_that_the_model_cannot_read_is_refused(
    dialect: str, part: dict[str, Any], kind: str, *, is_first: bool
) -> None:
    """The model would go on with its own answer, or answer the text of the configuration."""
    said = {"id": "2", "role": "assistant", "parts": [{"type": "text", "text": "Hello."}]}
    last = {"id": "3", "role": "user", "parts": [part]}
    async with between(dialect=dialect) as (app, provider):
        messages = [last] if is_first else [HELLO, said, last]
        caller = await ask(app, UI, {**UI_BODY, "messages": messages})
    assert caller.status == 400
    assert text_of(caller) == (
        f"$.messages: nothing that the model can read at the end ({kind}), "
        "expected a text or another file"
    )
    assert not provider.requests


@pytest.mark.parametrize("dialect", PROVIDERS)
async def test_run_without_a_message_is_refused(dialect: str) -> None:
    """AG-UI's client may run an agent without one; the text of the configuration is none."""
    said = {"id": "2", "role": "assistant", "content": "Hello."}
    blank = {"id": "3", "role": "user", "content": ""}
    async with between(dialect=dialect) as (app, provider):
        for messages in ([], [*AG_BODY["messages"], said, blank]):
            caller = await ask(app, AG, {**AG_BODY, "messages": messages})
            assert caller.status == 400
    assert not provider.requests


@pytest.mark.parametrize("dialect", PROVIDERS)
async def test_file_alone_is_a_message(dialect: str) -> None:
    said = {"id": "2", "role": "assistant", "parts": [{"type": "text", "text": "Hello."}]}
    image = {"id": "3", "role": "user", "parts": [data_url("image/png")]}
    again = {"id": "4", "role": "user", "parts": [data_url("image/svg+xml")]}
    async with between(dialect=dialect) as (app, provider):
        caller = await ask(app, UI, {**UI_BODY, "messages": [HELLO, said, image, again]})
    assert caller.status == 200
    assert "UEsDBA==" in json.dumps(provider.requests[0].body)


def paused_answer(page: str, said: str, *, has_result: bool) -> list[dict[str, Any]]:
    """Return the messages of an answer that ends in a search of its provider."""
    if page == UI:
        search = {"toolCallId": "srvtoolu_1", "input": {"query": "x"}, "providerExecuted": True}
        state = {"state": "output-available", "output": []}
        part = {"type": "tool-web_search", "state": "input-available", **search}
        text = {"type": "text", "text": said}
        parts = [text, {**part, **state} if has_result else part]
        return [{"id": "2", "role": "assistant", "parts": parts}]
    call = {
        "id": "srvtoolu_1",
        "type": "function",
        "function": {"name": "web_search", "arguments": '{"query":"x"}'},
        "metadata": {"providerExecuted": True, "kind": "server_tool_use"},
    }
    answer = {"id": "2", "role": "assistant", "content": said, "toolCalls": [call]}
    result = {
        "id": "3",
        "role": "tool",
        "toolCallId": "srvtoolu_1",
        "content": "[]",
        "metadata": {"providerExecuted": True, "kind": "web_search_tool_result", "isJson": True},
    }
    return [answer, result] if has_result else [answer]


@every_page
@pytest.mark.parametrize("said", ["", "Let me look."])
@pytest.mark.parametrize("has_result", [False, True])
@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses"])
async def test_answer_that_its_provider_has_paused_is_refused(
    page: str, said: str, dialect: str, *, has_result: bool
) -> None:
    """No request has what a provider executed: the model would go on with the text before it."""
    options = PageConfig(model="m-1", tools=["web_search"])
    answer = paused_answer(page, said, has_result=has_result)
    async with between(dialect=dialect, options=options) as (app, provider):
        messages = [*BODIES[page]["messages"], *answer]
        caller = await ask(app, page, {**BODIES[page], "messages": messages})
    assert caller.status == 400
    assert "$.messages: an answer at the end, expected a message of" in text_of(caller)
    assert not provider.requests


@pytest.mark.parametrize("dialect", PROVIDERS)
async def test_chat_goes_on_without_what_a_provider_has_executed(dialect: str) -> None:
    """A call of the page beside that of the provider gets its result as any other."""
    (searched,) = paused_answer(UI, "Let me look.", has_result=True)
    shown = {**searched, "parts": [*CALLED[UI]["parts"], *searched["parts"]]}
    async with between(dialect=dialect) as (app, provider):
        for messages in ([HELLO, searched, HELLO], [HELLO, shown]):
            caller = await ask(app, UI, {**UI_BODY, "messages": messages})
            assert caller.status == 200
    for sent in provider.requests:
        written = json.dumps(sent.body)
        assert "Let me look." in written
        assert "srvtoolu_1" not in written


async def test_citation_of_a_search_result_that_is_left_out_is_left_out() -> None:
    """Anthropic refuses it: `Could not find search result for citation index`."""
    (searched,) = paused_answer(UI, "It snows.", has_result=True)
    own = {"kind": "web_search_result_location", "extra": {"encrypted_index": "Eo8="}}
    source = {"type": "source-url", "sourceId": "source-0", "url": "https://a.example/"}
    cited = {**source, "providerMetadata": {"streamnorm": own}}
    answered = {**searched, "parts": [*searched["parts"][1:], *searched["parts"][:1], cited]}
    async with between() as (app, provider):
        caller = await ask(app, UI, {**UI_BODY, "messages": [HELLO, answered, HELLO]})
    assert caller.status == 200
    assert provider.requests[0].body["messages"][1] == {"role": "assistant", "content": "It snows."}


@every_page
async def test_messages_of_a_request_are_bounded(page: str) -> None:
    options = PageConfig(model="m-1", max_messages=3)
    first, answer, again = chat_after_call(page, is_cut=True)
    async with between(options=options) as (app, provider):
        body = {**BODIES[page], "messages": [first, answer, again]}
        assert (await ask(app, page, body)).status == 200
        body["messages"] = [first, answer, again, again]
        caller = await ask(app, page, body)
    assert caller.status == 400
    problem = "$.messages: 4 messages, expected at most 3 (max_messages)"
    assert problem in text_of(caller)
    assert len(provider.requests) == 1


async def test_problems_of_a_chat_name_no_message_that_the_page_lacks() -> None:
    """Steps of one message are messages of the request, at other positions."""
    part = {"type": "tool-alert", "toolCallId": "c", "state": "input-available", "input": {}}
    step = [{"type": "step-start"}, part]
    answer = {"id": "2", "role": "assistant", "parts": [*step, *step]}
    async with between() as (app, _):
        caller = await ask(app, UI, {**UI_BODY, "messages": [HELLO, answer, HELLO]})
    assert caller.status == 400
    assert text_of(caller) == "$.messages: two calls with one id, expected an id for each"

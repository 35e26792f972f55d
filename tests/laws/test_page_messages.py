"""Law: a stored chat that a page loads and sends back is the same chat, within the losses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hypothesis import given
from msgspec import structs
from support.bodies.checks import BODIES
from support.bodies.request_strategies import conversation, make_request
from support.draws import Draws, draws
from support.streams.content import PROVIDERS
from support.streams.corpus import recordings

from streamnorm import (
    EncodeError,
    InputBlock,
    InputMessage,
    Message,
    Reasoning,
    RedactedReasoning,
    Refusal,
    Request,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
    accumulate,
    decode_request,
    encode_request,
)
from streamnorm._core.tools import qualified_name
from streamnorm.codec import decoder
from streamnorm.frontend import encode_messages
from streamnorm.validation import validate_request

PAGES = ("ui_message_stream", "ag_ui")
# A result of the provider names a call that no block stands for, and that a page is shown.
NAMELESS = "openai_responses/openai/shell-and-unknown-item"
ASKED = InputMessage("user", (Text("Go on."),))


def recorded_answers() -> Iterator[tuple[str, Message]]:
    for dialect in PROVIDERS:
        for each in recordings(dialect):
            reader = decoder(dialect, server=each.server)
            message = accumulate(reader.feed(each.body) + reader.close())
            name = f"{dialect}/{each.name}"
            if message.stop_reason is None or has_repeated_call(message) or name == NAMELESS:
                continue
            yield name, message


def has_repeated_call(message: Message) -> bool:
    """Whether a call has the id of another one, which a message of a page refuses."""
    ids = [block.id for block in message.blocks if isinstance(block, ToolCall | ServerToolCall)]
    return len(set(ids)) < len(ids)


def sent_back(history: list[Message | InputMessage], page: str) -> tuple[InputMessage, ...]:
    written = encode_messages(history, page)
    body = {"threadId": "t", "runId": "r", "messages": written.messages}
    return decode_request(json.dumps(body), page).messages


def contents(blocks: tuple[InputBlock, ...]) -> list[InputBlock]:
    """Return the blocks that a page keeps, as it keeps them, but for results."""
    kept: list[InputBlock] = []
    executed = {id for id, _ in results(blocks)}
    for block in blocks:
        match block:
            case Refusal(text):
                kept.append(Text(text))
            case Text(text, _, signature, issuer) if text or signature:
                kept.append(Text(text, (), signature, issuer))
            case Reasoning(parts, signature, issuer, id):
                kept.append(Reasoning(tuple(filter(None, parts)), signature, issuer, id))
            case RedactedReasoning() | ToolResult():
                kept.append(structs.replace(block, extra=None))
            case ToolCall(id, _, arguments) if id in executed:  # by Google itself
                kept.append(ServerToolCall(id, "", as_json(arguments)))
            case ToolCall(id, name, arguments):
                if block.kind == "custom":
                    arguments = json.dumps({"input": arguments})
                call = ToolCall(id, qualified_name(name, block.namespace), as_json(arguments))
                signed = {"signature": block.signature, "issuer": block.issuer}
                kept.append(structs.replace(call, **signed))
            case ServerToolCall(id, _, arguments):
                kept.append(ServerToolCall(id, "", as_json(arguments)))
            case _:
                pass
    return merged(kept)


def shown(message: InputMessage) -> tuple[str, list[InputBlock]]:
    """Return the role and the contents of a message."""
    return message.role, contents(message.blocks)


def merged(blocks: list[InputBlock]) -> list[InputBlock]:
    """Return blocks with the unsigned reasoning before an item's as a part of it."""
    joined: list[InputBlock] = []
    for block in blocks:
        before = joined[-1] if joined else None
        if (
            isinstance(block, Reasoning)
            and isinstance(before, Reasoning)
            and block.id is not None
            and before.signature is None
            and before.id in (None, block.id)
        ):
            joined.pop()
            block = structs.replace(block, parts=(*before.parts, *block.parts))
        joined.append(block)
    return joined


def as_json(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments or "{}"), sort_keys=True)
    except ValueError:
        return arguments


def results(blocks: tuple[InputBlock, ...]) -> list[tuple[str, object]]:
    """Return the results of the providers' tools by the ids of their calls."""
    found = [block for block in blocks if isinstance(block, ServerToolResult)]
    return sorted((block.tool_call_id, json.dumps(block.content)) for block in found)


def test_every_recorded_answer_comes_back() -> None:
    for page in PAGES:
        for name, message in recorded_answers():
            messages = sent_back([message, ASKED], page)
            assert messages[-1] == ASKED, (page, name)
            answers = [each for each in messages if each.role == "assistant"]
            blocks = tuple(block for each in answers for block in each.blocks)
            assert contents(blocks) == contents(message.blocks), (page, name)
            known = {
                block.id for block in message.blocks if isinstance(block, ToolCall | ServerToolCall)
            }
            expected = [each for each in results(message.blocks) if each[0] in known]
            assert results(blocks) == expected, (page, name)


@given(draws(600))
def test_what_is_written_is_read_and_written_alike(d: Draws) -> None:
    """Whatever a history holds, a page sends back what is read, and then stays the same."""
    history = [*make_request(d, conversation(d, hostile=d.flag())).messages]
    for page in PAGES:
        try:
            first = sent_back([*history, ASKED], page)
        except EncodeError:  # a call without a name
            continue
        assert first[-1] == ASKED
        second = sent_back([*first], page)
        # Calls without arguments become calls with an empty object.
        assert list(map(shown, second)) == list(map(shown, first))
        assert sent_back([*second], page) == second
        for dialect in BODIES:
            with suppress(EncodeError):
                encode_request(Request(messages=first), dialect, repair="fill", arguments="raw")


def said(kind: str, **fields: Any) -> dict[str, Any]:
    return {"id": "2", "role": kind, **fields}


def tool_part(state: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool-f", "toolCallId": "c", "state": state, "input": {"a": 1}, **fields}


def tool_call(id: str = "c", arguments: str = "{}", **fields: Any) -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    return {"id": id, "type": "function", "function": function, **fields}


BUILT_IN = {"metadata": {"providerExecuted": True, "kind": "web_search"}}
STEP = {"type": "step-start"}
# What clients hold of an answer that was cut, refused, stopped or left.
ANSWERS: dict[str, list[list[dict[str, Any]]]] = {
    "ui_message_stream": [
        [said("assistant", parts=[STEP, *parts])]
        for parts in (
            [],
            [{"type": "reasoning", "text": "Hm", "state": "streaming"}],
            [{"type": "text", "text": "", "state": "streaming"}],
            [{"type": "text", "text": " ", "state": "streaming"}],
            [tool_part("input-streaming")],
            [tool_part("input-available")],
            [tool_part("input-available", providerExecuted=True)],
            [tool_part("output-error", errorText="no", providerExecuted=True)],
            [tool_part("output-error", input=None, rawInput='{"a', errorText="no")],
            [tool_part("output-error", input='{"a', errorText="no")],
            [tool_part("output-available", output=1, preliminary=True)],
            [tool_part("output-available", output=1, input=[1])],
            [tool_part("output-available", output=1), {"type": "text", "text": "Well"}],
            [tool_part("approval-responded", approval={"id": "a", "approved": True})],
            [tool_part("input-available"), STEP, {"type": "text", "text": "Well"}],
        )
    ],
    "ag_ui": [
        [said("reasoning", content="Hm")],
        [said("assistant", content="")],
        [said("assistant", toolCalls=[tool_call(arguments='{"a')])],
        [said("assistant", toolCalls=[tool_call(arguments="[1]")])],
        [said("assistant", toolCalls=[{**tool_call(), **BUILT_IN}])],
        [
            said("assistant", toolCalls=[tool_call(), tool_call("d")]),
            said("tool", toolCallId="d", content="r"),
        ],
        [
            said("assistant", toolCalls=[tool_call()]),
            *[said("tool", toolCallId="c", content=text) for text in ("r", "s")],
        ],
        [
            said("assistant", toolCalls=[tool_call()]),
            said("user", content="Well?"),
            said("assistant", content="Yes."),
            said("tool", toolCallId="c", content="r"),
        ],
    ],
}


def test_no_answer_of_a_page_locks_its_chat() -> None:
    """Whatever came of an answer, the next message of the user has a legal request."""
    for page, answers in ANSWERS.items():
        asked = said("user", parts=[{"type": "text", "text": "Hi"}], content="Hi")
        for answer in answers:
            body = {"threadId": "t", "runId": "r", "messages": [asked, *answer, asked]}
            request = structs.replace(decode_request(body, page), model="m", max_tokens=9)
            for dialect in PROVIDERS:
                sent = encode_request(request, dialect, repair="fill", arguments="raw")
                found = validate_request(sent.body, dialect, path=sent.path)
                assert found == [], (page, dialect, answer)

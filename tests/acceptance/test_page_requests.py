"""What a page sends is read as the AI SDK reads it: by `ai` 5, 6 and 7, and by its providers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from acceptance.node_sdks import ask, missing
from msgspec import structs
from support.streams.content import PROVIDERS
from support.streams.corpus import recordings
from support.ui_message_stream.pages import CAT, UI, assistant, call, chat, file, text, user

from streamnorm import (
    BlockStart,
    BlockStop,
    Completed,
    Document,
    Image,
    InputBlock,
    InputMessage,
    Message,
    MessageStart,
    MessageStop,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    Transcoder,
    accumulate,
    decode_request,
    encode_request,
    project,
)
from streamnorm.codec import decoder
from streamnorm.frontend import Run, encode_messages

pytestmark = [pytest.mark.outside, pytest.mark.skipif(bool(missing()), reason=missing())]

Reading = list[tuple[str, Any]]

STEP = {"type": "step-start"}
LAST = user(text("Go on."))
DENIED = {"id": "a", "approved": False, "reason": "No."}


def reasoning(value: str, **metadata: Any) -> dict[str, Any]:
    fields = {"providerMetadata": metadata} if metadata else {}
    return {"type": "reasoning", "text": value, **fields}


def item(content: str | None = None, id: str = "rs_1") -> dict[str, Any]:
    return {"itemId": id, "reasoningEncryptedContent": content}


CHATS: dict[str, tuple[dict[str, Any], ...]] = {
    "texts": (user(text("Hi")), assistant(STEP, text("Hello"), text("there")), LAST),
    "system": ({"role": "system", "parts": [text("Be "), text("brief.")]}, LAST),
    "steps": (
        user(text("Hi")),
        assistant(
            STEP,
            text("I look."),
            call("output-available", output={"t": 20}),
            call("output-available", "c2", output="rain"),
            STEP,
            text("20 degrees."),
        ),
        LAST,
    ),
    "dynamic": (
        user(text("Hi")),
        assistant(
            STEP,
            {
                **call("output-available", output=[1, None]),
                "type": "dynamic-tool",
                "toolName": "search",
            },
        ),
        LAST,
    ),
    "failed": (user(), assistant(STEP, call("output-error", errorText="it failed")), LAST),
    "raw-input": (
        user(),
        assistant(STEP, call("output-error", input=None, rawInput={"a": 2}, errorText="no")),
        LAST,
    ),
    "denied": (user(), assistant(STEP, call("output-denied", approval=DENIED)), LAST),
    "refused": (user(), assistant(STEP, call("approval-responded", approval=DENIED))),
    "requested": (
        user(),
        assistant(STEP, text("May I?"), call("approval-requested", approval={"id": "a"})),
        LAST,
    ),
    "streaming": (user(), assistant(STEP, text("I"), call("input-streaming")), LAST),
    "anthropic": (
        user(),
        assistant(
            STEP,
            reasoning("Hm.", anthropic={"signature": "s"}),
            reasoning("", anthropic={"redactedData": "r"}),
            call("output-available", output=1),
        ),
        LAST,
    ),
    "openai": (
        user(),
        assistant(
            STEP,
            reasoning("One", openai=item()),
            reasoning("Two", openai=item("e")),
            text("Hello", providerMetadata={"openai": {"itemId": "msg_1"}}),
            call("output-available", output="x", callProviderMetadata={"openai": {"itemId": "f"}}),
        ),
        LAST,
    ),
    "google": (
        user(),
        assistant(
            STEP,
            text("Hello", providerMetadata={"google": {"thoughtSignature": "QQ=="}}),
            call(
                "output-available",
                output={"a": 1},
                callProviderMetadata={"google": {"thoughtSignature": "QUE="}},
            ),
        ),
        LAST,
    ),
    "files": (
        user(
            text("See"),
            file("image/png", "data:image/png;base64,iVBORw0KGgo="),
            file("application/pdf", "data:application/pdf;base64,JVBERi0=", filename="a.pdf"),
        ),
    ),
    "text-file": (user(file("text/plain", f"data:text/plain;base64,{CAT}")),),
    "by-provider": (
        user(),
        assistant(
            STEP, call("output-available", output={"hits": 1}, providerExecuted=True), text("Found")
        ),
        LAST,
    ),
    "steering": (
        user(),
        assistant(
            STEP,
            text("One"),
            {"type": "steering-message", "id": "s", "parts": [text("And?")]},
            STEP,
            text("Two"),
        ),
        LAST,
    ),
    "other-parts": (
        user(text("Hi"), {"type": "data-page", "data": {"x": 1}}),
        assistant(
            STEP,
            text("See"),
            {"type": "source-url", "sourceId": "1", "url": "https://a.example/"},
            {"type": "data-chart", "data": [1]},
        ),
        LAST,
    ),
}

# Parts and rules that a version does not have.
NEWER = {
    "ai5": {"steering", "denied", "refused", "requested"},
    "ai6": {"steering", "refused", "requested"},
    "ai7": set[str](),
}


def read_messages(messages: tuple[InputMessage, ...]) -> Reading:
    reading: Reading = []
    for message in messages:
        for block in message.blocks:
            match block:
                case Text(value):
                    reading.append((message.role, value))
                case Reasoning(parts):
                    reading += [("reasoning", part) for part in parts or ("",)]
                case RedactedReasoning():
                    reading.append(("reasoning", ""))
                case ToolCall(id, name, arguments, "custom"):
                    reading.append(("call", (id, name, arguments)))
                case ToolCall(id, name, arguments) | ServerToolCall(id, name, arguments):
                    reading.append(("call", (id, name, as_json(arguments or "{}"))))
                case ToolResult(id):
                    value = "".join(part.text for part in block.content if isinstance(part, Text))
                    reading.append(("result", (id, value)))
                case ServerToolResult(id, _, content):
                    reading.append(("result", (id, as_text(content))))
                case Image() | Document():
                    reading.append(("file", block.media_type))
                case _:
                    pass
    return reading


def as_json(arguments: str) -> Any:
    """Return the arguments of a call, or their text if they are no JSON."""
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def read_model_messages(messages: list[dict[str, Any]]) -> Reading:
    reading: Reading = []
    for message in messages:
        content, role = message["content"], message["role"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        for part in content:
            match part["type"]:
                case "text":
                    reading.append((role, part["text"]))
                case "reasoning":
                    reading.append(("reasoning", part["text"]))
                case "tool-call":
                    named = part["toolCallId"], part["toolName"], part["input"]
                    reading.append(("call", named))
                case "tool-result":
                    output = part["output"]
                    value = output.get("value", output.get("reason"))
                    reading.append(("result", (part["toolCallId"], as_text(value))))
                case "file":
                    reading.append(("file", part["mediaType"]))
                case _:  # approvals
                    pass
    return reading


@pytest.mark.parametrize("version", NEWER)
def test_messages_are_those_of_the_sdk(version: str) -> None:
    names = [name for name in CHATS if name not in NEWER[version]]
    answers = ask("ui_history", version, [chat(*CHATS[name]) for name in names])
    for name, heard in zip(names, answers, strict=True):
        assert "error" not in heard, (name, heard)
        ours = read_messages(decode_request(chat(*CHATS[name]), UI).messages)
        assert ours == read_model_messages(heard["messages"]), name


# The provider's own package against our writer, each with the messages of one page.
PACKAGES = {
    "anthropic": ("anthropic", "claude-opus-4-5"),
    "openai": ("openai_responses", "gpt-5"),
    "google": ("gemini", "gemini-3-pro"),
}
# Written otherwise by us, on purpose: errors in tags for OpenAI, texts of files as texts, no
# reasoning of another vendor, no call of another provider.
OTHERWISE = {
    "anthropic": set[str](),
    "openai": {"failed", "raw-input", "denied", "text-file"},
    "google": {"text-file", "by-provider", "anthropic", "openai"},
}


@pytest.mark.parametrize("provider", PACKAGES)
def test_provider_is_sent_what_its_package_sends(provider: str) -> None:
    dialect, model = PACKAGES[provider]
    names = [name for name in CHATS if name not in OTHERWISE[provider]]
    answers = ask("ui_history", provider, [chat(*CHATS[name]) for name in names])
    for name, theirs in zip(names, answers, strict=True):
        assert "error" not in theirs, (name, theirs)
        page = structs.replace(decode_request(chat(*CHATS[name]), UI), model=model)
        ours = encode_request(page, dialect).body
        assert signed(ours, dialect) == signed(theirs, dialect), name


def signed(body: dict[str, Any], dialect: str) -> Reading:
    """Return what a body says, with the signatures that it carries."""
    if dialect == "gemini":
        for content in body["contents"]:
            for part in content["parts"]:
                if result := part.get("functionResponse"):
                    result["response"] = unwrapped(result["response"])
    request = decode_request({"model": "m", **body}, dialect)
    reading = [("system", text.text) for text in request.system] + read_messages(request.messages)
    for message in request.messages:
        for block in message.blocks:
            if isinstance(block, Text | Reasoning | ToolCall) and block.signature:
                reading.append(("signature", block.signature))
            elif isinstance(block, RedactedReasoning):
                reading.append(("redacted", block.data))
    # Which of the two roles a model has is the vendor's affair.
    return [("system" if role == "developer" else role, value) for role, value in reading]


def unwrapped(response: dict[str, Any]) -> dict[str, Any]:
    """Return a result of Google's without the wrapping, which each writer chooses."""
    for name in ("content", "output", "error"):
        if name in response:
            value = response[name]
            return value if isinstance(value, dict) else {"output": as_text(value)}
    return response


# AG-UI

THREADS: dict[str, list[dict[str, Any]]] = {
    "roles": [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "And kind.", "name": "d"},
        {"role": "user", "content": "Hi", "name": "Ada"},
        {"role": "activity", "activityType": "plan", "content": {"x": 1}},
        {"role": "reasoning", "content": "Hm.", "encryptedValue": "sn1.anthropic.s"},
        {"role": "assistant", "content": "Hello"},
    ],
    "calls": [
        {"role": "user", "content": "Hi"},
        {
            "role": "assistant",
            "toolCalls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "f", "arguments": "{}"},
                    "encryptedValue": "sn1.google.s",
                    "metadata": {"x": 1},
                }
            ],
        },
        {"role": "tool", "toolCallId": "c1", "content": "", "error": "it failed"},
    ],
    "media": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "See"},
                {
                    "type": kind,
                    "source": {"type": "data", "value": CAT, "mimeType": media_type},
                },
                {"type": kind, "source": {"type": "url", "value": "https://a.example/x"}},
            ],
        }
        for kind, media_type in (
            ("image", "image/png"),
            ("audio", "audio/wav"),
            ("video", "video/mp4"),
            ("document", "application/pdf"),
        )
    ],
}


@pytest.mark.parametrize("version", ["0", "1"])
def test_run_that_is_read_is_one_of_the_protocol(version: str) -> None:
    """Each thread here is read whole, and is legal for both versions of `@ag-ui/core`."""
    bodies = [
        {
            "threadId": "t",
            "runId": "r",
            "state": {"n": 1},
            "messages": [{"id": f"m{n}", **message} for n, message in enumerate(thread)],
            "tools": [{"name": "f", "description": "Do.", "parameters": {"type": "object"}}],
            "context": [{"description": "page", "value": "home"}],
            "forwardedProps": {},
            "resume": [{"interruptId": "i", "status": "resolved", "payload": {"x": 1}}],
        }
        for thread in THREADS.values()
    ]
    for body, heard in zip(
        bodies, ask("ag_ui_input", version, [{"body": body} for body in bodies]), strict=True
    ):
        assert heard == {}, body
        assert decode_request(body, "ag_ui").messages


# Stored chats

ASKED = InputMessage("user", (Text("Go on."),))


def stored_chats(page: str) -> list[tuple[str, list[dict[str, Any]]]]:
    chats: list[tuple[str, list[dict[str, Any]]]] = []
    for dialect in PROVIDERS:
        for each in recordings(dialect):
            reader = decoder(dialect, server=each.server)
            message = accumulate(reader.feed(each.body) + reader.close())
            ids = [block.id for block in message.blocks if isinstance(block, ToolCall)]
            is_legal = len(set(ids)) == len(ids)  # a page refuses two calls of one id
            if message.stop_reason is not None and message.blocks and is_legal:
                written = encode_messages([ASKED, message, ASKED], page).messages
                chats.append((f"{dialect}/{each.name}", written))
    return chats


@pytest.mark.parametrize("version", NEWER)
def test_stored_chat_is_one_of_the_sdk(version: str) -> None:
    chats = stored_chats(UI)
    answers = ask("ui_history", version, [{"messages": messages} for _, messages in chats])
    for (name, messages), heard in zip(chats, answers, strict=True):
        assert "error" not in heard, (name, heard)
        ours = decode_request({"messages": messages}, UI).messages
        # A call of OpenAI's MCP itself holds the result that the page has beside it.
        blocks = [block for message in ours for block in message.blocks]
        held = {call.id for call in blocks if getattr(call, "kind", "") == "mcp_call"}
        theirs = [
            (kind, said)
            for kind, said in read_model_messages(heard["messages"])
            if not (kind == "result" and said[0] in held)
        ]
        assert read_messages(ours) == theirs, name


@pytest.mark.parametrize("version", ["0", "1"])
def test_stored_thread_is_one_of_the_protocol(version: str) -> None:
    chats = stored_chats("ag_ui")
    names = {"threadId": "t", "runId": "r", "tools": [], "context": []}
    bodies = [{**names, "state": {}, "forwardedProps": {}, "messages": each} for _, each in chats]
    for (name, _), heard in zip(
        chats, ask("ag_ui_input", version, [{"body": body} for body in bodies]), strict=True
    ):
        assert heard == {}, (name, heard)


# There and back: a stream to the page, what its client makes of it, and the next request


def streamed_answers(page: str) -> list[tuple[str, str, Message]]:
    """Return the name of each recorded answer that is complete, its stream, and its message."""
    answers: list[tuple[str, str, Message]] = []
    for dialect in PROVIDERS:
        for each in recordings(dialect):
            run = Transcoder(dialect, page, server=each.server)
            body = b"".join([*run.feed(each.body), *run.close()]).decode()
            reader = decoder(dialect, server=each.server)
            passed, _ = project(reader.feed(each.body) + reader.close(), page)
            if isinstance(run.outcome, Completed):
                answers.append((f"{dialect}/{each.name}", body, accumulate(passed)))
    return answers


def signatures(blocks: tuple[InputBlock, ...]) -> list[tuple[str, Any]]:
    """Return the signatures and the redacted reasoning of blocks, with their issuers."""
    found: list[tuple[str, Any]] = []
    for block in blocks:
        match block:
            case Reasoning() if block.signature:
                found.append(("reasoning", (block.signature, block.issuer, block.id)))
            case Text() | ToolCall() if block.signature:
                found.append((type(block).__name__, (block.signature, block.issuer)))
            case RedactedReasoning():
                found.append(("redacted", (block.data, block.issuer, block.id)))
            case _:
                pass
    return found


@pytest.mark.parametrize("version", NEWER)
def test_signatures_survive_a_page_of_the_sdk(version: str) -> None:
    answers = streamed_answers(UI)
    signed = 0
    for (name, _, message), heard in zip(
        answers, ask("ui", version, [{"body": body} for _, body, _ in answers]), strict=True
    ):
        body = chat(user(), {"role": "assistant", "parts": heard["parts"]}, LAST)
        back = decode_request(body, UI).messages
        blocks = tuple(block for each in back if each.role == "assistant" for block in each.blocks)
        assert signatures(blocks) == signatures(message.blocks), name
        signed += bool(signatures(blocks))
    assert signed > 20


@pytest.mark.parametrize("version", ["0", "1"])
def test_signatures_survive_a_page_of_ag_ui(version: str) -> None:
    answers = streamed_answers("ag_ui")
    signed = 0
    for (name, _, message), heard in zip(
        answers, ask("ag_ui", version, [{"body": body} for _, body, _ in answers]), strict=True
    ):
        asked = {"id": "last", "role": "user", "content": "Go on."}
        names = {"threadId": "t", "runId": "r"}
        body = {**names, "messages": [*heard["messages"], asked]}
        back = decode_request(body, "ag_ui").messages
        blocks = tuple(block for each in back if each.role == "assistant" for block in each.blocks)
        assert signatures(blocks) == signatures(message.blocks), name
        signed += bool(signatures(blocks))
    assert signed > 20


@pytest.mark.parametrize("client", ["ai6", "ai7"])
def test_call_that_was_approved_and_written_past_has_one_result(client: str) -> None:
    """The page shows the result in another message than the call, and executes nothing."""
    approved = call("approval-responded", approval={"id": "q", "approved": True})
    asked = (user(text("Hi")), assistant(STEP, approved), user(text("go")))
    run = Run(UI, request=decode_request(chat(*asked), UI))
    answer = [MessageStart("m", "m-1"), BlockStart(0, Text()), TextDelta(0, "It rains.")]
    items = [ToolResult("c1", (Text("rain"),)), *answer, BlockStop(0), MessageStop("end_turn")]
    body = (b"".join(map(run.write, items)) + run.finish()).decode()
    (shown,) = ask("ui", client, [{"body": body}])
    assert "error" not in shown
    assert shown["calls"] == []
    messages = [*asked, assistant(*shown["parts"]), LAST]
    (history,) = ask("ui_history", client, [chat(*messages)])
    assert "error" not in history
    results = [
        (part["toolCallId"], part["output"])
        for message in history["messages"]
        for part in message["content"]
        if part["type"] == "tool-result"
    ]
    assert results == [("c1", {"type": "text", "value": "rain"})]
    assert decode_request(chat(*messages), UI).messages[1:-1] == (
        InputMessage("assistant", (ToolCall("c1", "weather", '{"a":1}'),)),
        InputMessage("user", (ToolResult("c1", (Text("rain"),)),)),
        InputMessage("user", (Text("go"),)),
        InputMessage("assistant", (Text("It rains."),)),
    )

"""Parts of UI messages: calls in each state, metadata of the providers, sources and files.

By `src/ui/convert-to-model-messages.ts` of npm `ai` 7.0.173.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from support.ui_message_stream.pages import (
    CAT,
    UI,
    answer_of,
    assistant,
    blocks_of,
    call,
    chat,
    file,
    messages_of,
    problem_of,
    text,
    user,
)

from streamnorm import (
    Audio,
    Citation,
    Document,
    Image,
    InputMessage,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
    Video,
    decode_request,
    encode_request,
)

# Calls


@pytest.mark.parametrize(
    ("part", "result"),
    [
        (call("input-available"), None),
        (call("approval-requested", approval={"id": "a"}), None),
        (call("approval-responded", approval={"id": "a", "approved": True}), None),
        (call("output-available", output=[1], preliminary=True), None),
        (
            call("approval-responded", approval={"id": "a", "approved": False, "reason": "No."}),
            ToolResult("c1", (Text("No."),), is_error=True),
        ),
        (
            call("output-denied", approval={"id": "a", "approved": False}),
            ToolResult("c1", (Text("Tool call execution denied."),), is_error=True),
        ),
        (
            call("output-error", errorText="it failed"),
            ToolResult("c1", (Text("it failed"),), is_error=True),
        ),
        (call("output-available", output=[1, "x"]), ToolResult("c1", (Text('[1,"x"]'),))),
        (call("output-available"), ToolResult("c1", (Text("null"),))),
    ],
    ids=lambda value: value["state"] if isinstance(value, dict) else "",
)
def test_state_of_a_call_decides_about_its_result(
    part: dict[str, Any], result: ToolResult | None
) -> None:
    answer, *rest = answer_of(part)
    assert answer.blocks == (ToolCall("c1", "weather", '{"a":1}'),)
    assert rest == ([InputMessage("user", (result,))] if result is not None else [])


def test_call_whose_input_was_never_whole_is_no_call() -> None:
    part = call("input-streaming", input={"a": None})
    (block,) = blocks_of(part)
    assert block == OpaqueBlock(UI, "tool-weather", json.dumps(part, separators=(",", ":")))


def test_later_message_of_the_user_supersedes_a_request_for_approval() -> None:
    part = call("approval-requested", approval={"id": "a"})
    asked = assistant(text("May I?"), part)
    _, answer, _ = messages_of(user(), asked, user())
    assert [type(block) for block in answer.blocks] == [Text, OpaqueBlock]
    _, answer = messages_of(user(), asked)
    assert answer.tool_calls == (ToolCall("c1", "weather", '{"a":1}'),)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"input": {"n": 12345678901234567890}}, ("function", '{"n":12345678901234567890}')),
        ({"input": None}, ("function", "null")),
        ({}, ("function", "")),
        ({"input": "print(1)"}, ("custom", "print(1)")),
        ({"input": ' {"__proto__":{}}'}, ("function", ' {"__proto__":{}}')),
        ({"input": "{1}"}, ("custom", "{1}")),
        (
            {"input": "{}", "callProviderMetadata": {"streamnorm": {"kind": "custom"}}},
            ("custom", "{}"),
        ),
    ],
)
def test_input_is_json_or_free_text(fields: dict[str, Any], expected: tuple[str, str]) -> None:
    part = {"type": "dynamic-tool", "toolName": "run", "toolCallId": "c", "dynamic": True}
    (block,) = blocks_of({**part, "state": "input-available", **fields})
    assert (block.kind, block.arguments, block.name) == (*expected, "run")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"input": {"a": 1}, "errorText": "no"}, ("function", '{"a":1}')),
        ({"rawInput": {"a": 2}, "errorText": "no"}, ("function", '{"a":2}')),
        # Arguments that are no JSON: the client of v5 and v6 stores them as `rawInput`.
        ({"input": None, "rawInput": "{", "errorText": "no"}, ("function", "{")),
        ({"input": '{"a', "errorText": "Invalid input for tool"}, ("function", '{"a')),
        ({"errorText": "no"}, ("function", "")),
        # Marked by `encode_messages`.
        (
            {
                "input": "print(1)",
                "errorText": "no",
                "callProviderMetadata": {"streamnorm": {"kind": "custom"}},
            },
            ("custom", "print(1)"),
        ),
        (
            {
                "input": "x",
                "errorText": "no",
                "callProviderMetadata": {"streamnorm": {"kind": "function"}, "x": {"y": 1}},
            },
            ("function", '"x"'),
        ),
    ],
)
def test_input_of_a_failed_call_is_what_the_model_wrote(
    fields: dict[str, Any], expected: tuple[str, str]
) -> None:
    part = {"type": "tool-weather", "toolCallId": "c1", "state": "output-error", **fields}
    answer, results = answer_of(part)
    (block,) = answer.tool_calls
    assert (block.kind, block.arguments) == expected
    assert results.tool_results[0].is_error


def test_calls_of_the_provider_keep_their_results_beside_them() -> None:
    part = call("output-available", output={"hits": 1}, providerExecuted=True)
    failed = call("output-error", "c2", errorText="no", providerExecuted=True)
    open_call = call("input-available", "c3", providerExecuted=True)
    assert blocks_of(part, failed, open_call) == (
        ServerToolCall("c1", "weather", '{"a":1}', "weather"),
        ServerToolResult("c1", "weather", {"hits": 1}),
        ServerToolCall("c2", "weather", '{"a":1}', "weather"),
        ServerToolResult("c2", "weather", "no", is_error=True),
        ServerToolCall("c3", "weather", '{"a":1}', "weather"),
    )


def test_marked_calls_of_the_provider_keep_their_kinds() -> None:
    marks = [{"streamnorm": {"kind": kind}} for kind in ("mcp_tool_use", "mcp_tool_result")]
    fields = {"callProviderMetadata": marks[0], "resultProviderMetadata": marks[1]}
    part = call("output-available", output=[1], providerExecuted=True, **fields)
    assert blocks_of(part) == (
        ServerToolCall("c1", "weather", '{"a":1}', "mcp_tool_use"),
        ServerToolResult("c1", "mcp_tool_result", [1]),
    )
    forged = {"callProviderMetadata": {"streamnorm": {"kind": 1, "x": 2}}}
    assert blocks_of(call("input-available", providerExecuted=True, **forged)) == (
        ServerToolCall(
            *("c1", "weather", '{"a":1}', "weather"),
            extra={UI: {"callProviderMetadata": {"streamnorm": {"x": 2}}}},
        ),
    )


def test_id_may_come_again_in_a_later_step_alone() -> None:
    step, part = {"type": "step-start"}, call("output-available", output=1)
    assert len(answer_of(step, part, step, part)) == 4
    body = chat(user(), assistant(step, part, part))
    problem = "id of another call of the step, expected one of its own"
    assert problem_of(body) == (problem, "$.messages[1].parts[2]")


# Metadata of the providers


SIGNED = [
    ({"anthropic": {"signature": "s"}}, ("s", "anthropic", None)),
    (
        {"openai": {"itemId": "rs_1", "reasoningEncryptedContent": "s"}},
        ("s", "openai", "rs_1"),
    ),
    ({"google": {"thoughtSignature": "s"}}, ("s", "google", None)),
    ({"vertex": {"thoughtSignature": "s"}}, ("s", "google", None)),
    ({"streamnorm": {"signature": "s", "issuer": "xai", "id": "rs_2"}}, ("s", "xai", "rs_2")),
    (
        {"pydantic_ai": {"signature": "s", "id": "rs_3", "provider_name": "openai"}},
        ("s", "openai", "rs_3"),
    ),
    (
        {
            "pydantic_ai": {
                "provider_name": "google-gla",
                "provider_details": {"thought_signature": "s"},
            }
        },
        ("s", "google", None),
    ),
]


@pytest.mark.parametrize(("metadata", "signed"), SIGNED)
def test_signature_of_reasoning_reaches_its_block(metadata: Any, signed: Any) -> None:
    part = {"type": "reasoning", "text": "Hm.", "state": "done", "providerMetadata": metadata}
    assert blocks_of(part) == (Reasoning(("Hm.",), *signed),)


@pytest.mark.parametrize(("metadata", "signed"), SIGNED)
def test_signature_of_texts_and_calls_reaches_their_blocks(metadata: Any, signed: Any) -> None:
    signature, issuer, _ = signed
    assert blocks_of(
        text("Hi", providerMetadata=metadata),
        call("input-available", callProviderMetadata=metadata),
    ) == (
        Text("Hi", signature=signature, issuer=issuer),
        ToolCall("c1", "weather", '{"a":1}', signature=signature, issuer=issuer),
    )


def test_signature_of_a_failed_call_may_stand_at_its_result() -> None:
    metadata = {"google": {"thoughtSignature": "s"}}
    part = call("output-error", errorText="no", resultProviderMetadata=metadata)
    assert answer_of(part)[0].tool_calls[0].signature == "s"


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"anthropic": {"redactedData": "r"}}, RedactedReasoning("r", "anthropic")),
        (
            {"streamnorm": {"redactedData": "r", "issuer": "bedrock", "id": "i"}},
            RedactedReasoning("r", "bedrock", "i"),
        ),
        (
            {
                "pydantic_ai": {
                    "id": "redacted_thinking",
                    "signature": "r",
                    "provider_name": "anthropic",
                }
            },
            RedactedReasoning("r", "anthropic"),
        ),
    ],
)
def test_redacted_reasoning_is_a_block_of_its_own(metadata: Any, expected: Any) -> None:
    part = {"type": "reasoning", "text": "", "providerMetadata": metadata}
    assert blocks_of(part) == (expected,)
    assert blocks_of({**part, "text": "Hm."})[-1] == expected


def test_summaries_of_one_item_are_parts_of_one_block() -> None:
    item = {"openai": {"itemId": "rs_1", "reasoningEncryptedContent": None}}
    signed = {"openai": {"itemId": "rs_1", "reasoningEncryptedContent": "s"}}
    first = {"type": "reasoning", "text": "One", "providerMetadata": item}
    second = {"type": "reasoning", "text": "Two", "providerMetadata": signed}
    whole = (Reasoning(("One", "Two"), "s", "openai", "rs_1"),)
    assert blocks_of(first, second) == whole
    assert blocks_of(second, {**first, "text": "Three"}) == (
        Reasoning(("Two", "Three"), "s", "openai", "rs_1"),
    )
    plain = {"type": "reasoning", "text": "One"}
    assert blocks_of(plain, plain) == (Reasoning(("One",)), Reasoning(("One",)))
    # A server that stores responses has no encrypted content.
    assert blocks_of(first) == (Reasoning(("One",), id="rs_1"),)
    other = {"openai": {"itemId": "rs_2"}}
    assert len(blocks_of(second, {**first, "providerMetadata": other})) == 2
    assert len(blocks_of({**first, "providerMetadata": {"x": {"y": 1}}}, second)) == 2
    many = [{**first, "text": str(number)} for number in range(20_000)]
    assert blocks_of(*many, second) == (
        Reasoning((*map(str, range(20_000)), "Two"), "s", "openai", "rs_1"),
    )


def test_marked_reasoning_goes_on_in_the_next_part() -> None:
    more = {"providerMetadata": {"streamnorm": {"isContinued": True}}}
    signed = {"providerMetadata": {"anthropic": {"signature": "s"}}}
    one, two, three = ({"type": "reasoning", "text": word} for word in ("One", "Two", "Three"))
    assert blocks_of({**one, **more}, {**two, **more}, {**three, **signed}, one) == (
        Reasoning(("One", "Two", "Three"), "s", "anthropic"),
        Reasoning(("One",)),
    )
    other = {"anthropic": {"signature": "t"}, **more["providerMetadata"]}
    assert blocks_of({**one, "providerMetadata": other}, {**two, **signed}) == (
        Reasoning(("One",), "t", "anthropic"),
        Reasoning(("Two",), "s", "anthropic"),
    )
    assert blocks_of({**one, **more}, text("Hi"), two) == (
        Reasoning(("One",)),
        Text("Hi"),
        Reasoning(("Two",)),
    )


def test_part_without_metadata_belongs_to_an_item_without_a_mark() -> None:
    """Older versions of the encoder marked no part, and named the item on the last part alone."""
    item = {"itemId": "rs_1", "reasoningEncryptedContent": "s"}
    signed = {"type": "reasoning", "text": "Two", "providerMetadata": {"openai": item}}
    plain = {"type": "reasoning", "text": "One"}
    assert blocks_of(plain, signed) == (Reasoning(("One", "Two"), "s", "openai", "rs_1"),)
    whole = {"openai": item, "streamnorm": {"isContinued": False}}
    assert blocks_of(plain, {**signed, "providerMetadata": whole}) == (
        Reasoning(("One",)),
        Reasoning(("Two",), "s", "openai", "rs_1"),
    )
    # Its id stood on the signed part alone.
    unsigned = {**signed, "providerMetadata": {"openai": {"itemId": "rs_1"}}}
    assert len(blocks_of(plain, unsigned)) == 2
    assert len(blocks_of({**plain, "providerMetadata": {"x": {"y": 1}}}, signed)) == 2


def test_signature_of_an_item_is_never_lost_for_another() -> None:
    def signed(text: str, signature: str) -> dict[str, Any]:
        metadata = {"openai": {"itemId": "rs_1", "reasoningEncryptedContent": signature}}
        return {"type": "reasoning", "text": text, "providerMetadata": metadata}

    # `@ai-sdk/openai` repeats the encrypted content with each summary.
    assert blocks_of(signed("One", "s"), signed("Two", "s")) == (
        Reasoning(("One", "Two"), "s", "openai", "rs_1"),
    )
    assert blocks_of(signed("One", "s"), signed("Two", "t")) == (
        Reasoning(("One",), "s", "openai", "rs_1"),
        Reasoning(("Two",), "t", "openai", "rs_1"),
    )


def test_metadata_that_no_block_holds_is_lost_by_name() -> None:
    metadata = {"openai": {"itemId": "msg_1"}}
    parts = (
        text("Hi", providerMetadata=metadata),
        {"type": "reasoning", "text": "Hm.", "providerMetadata": {"x": {"y": 1}}},
        call(
            "output-available",
            output=1,
            callProviderMetadata=metadata,
            resultProviderMetadata=metadata,
        ),
    )
    answer, results = answer_of(*parts)
    assert answer.blocks[0].extra == {UI: {"providerMetadata": metadata}}
    assert results.blocks[0].extra == {UI: {"resultProviderMetadata": metadata}}
    body = chat(user(), assistant(*parts))
    losses = encode_request(decode_request(body, UI), "openai_chat").losses
    assert {loss.feature for loss in losses} == {
        *("providerMetadata", "callProviderMetadata", "resultProviderMetadata", "reasoning_dropped")
    }


# Sources, files and the rest


def test_sources_are_citations_of_the_text_before_them() -> None:
    url = {"type": "source-url", "sourceId": "1", "url": "https://a.example/", "title": "A"}
    document = {"type": "source-document", "sourceId": "2", "mediaType": "text/plain", "title": "B"}
    assert blocks_of(text("See."), call("input-available"), url, document)[0] == Text(
        "See.",
        (
            Citation("source-url", "https://a.example/", "A"),
            Citation("source-document", None, "B"),
        ),
    )
    assert [type(block) for block in blocks_of(url)] == [OpaqueBlock]
    each = tuple({**url, "sourceId": str(number)} for number in range(20_000))
    (cited,) = blocks_of(text("See."), *each)
    assert cited.citations == (Citation("source-url", "https://a.example/", "A"),) * 20_000


def test_citations_of_a_text_are_not_repeated_by_their_sources() -> None:
    source = {"type": "source", "sourceType": "url", "id": "1", "url": "https://a.example/"}
    entry = {"source": source, "startIndex": 0, "endIndex": 4, "citedText": "quoted"}
    part = {"type": "source-url", "sourceId": "1", "url": "https://a.example/"}
    assert blocks_of(text("See.", citations=[entry]), part) == (
        Text("See.", (Citation("source-url", "https://a.example/", None, "quoted", 0, 4),)),
    )


@pytest.mark.parametrize(
    ("part", "block"),
    [
        (file("image/png", f"data:image/png;base64,{CAT}"), Image("image/png", CAT)),
        (file("image/*", f"data:image/jpeg;base64,{CAT}"), Image("image/jpeg", CAT)),
        (file("image/*", "https://a.example/x"), Image(None, url="https://a.example/x")),
        (
            file(
                *("image/png", f"data:image/png;base64,{CAT}"),
                providerMetadata={"google": {"thoughtSignature": "s"}},
            ),
            Image("image/png", CAT, signature="s", issuer="google"),
        ),
        (file("audio/wav", f"data:;base64,{CAT}"), Audio("audio/wav", CAT)),
        (file("video/mp4", "https://a.example/x"), Video("video/mp4", url="https://a.example/x")),
        (
            file("application/pdf", f"DATA:application/pdf;base64,{CAT}", filename="a.pdf"),
            Document("application/pdf", CAT, title="a.pdf"),
        ),
        (file("text/csv", f"data:text/csv;base64,{CAT}"), Document("text/csv", "cat")),
        (
            file("text/plain", "data:text/plain;charset=utf-8,a%20%C3%A9"),
            Document("text/plain", "a \u00e9"),
        ),
        (
            file("", "data:,x"),
            Document("application/octet-stream", base64.b64encode(b"x").decode()),
        ),
        (
            file("image/png", "", providerReference={"openai": "file-1"}),
            Image("image/png", file_id="file-1", issuer="openai"),
        ),
        (
            file("application/pdf", "", providerReference={"anthropic": "f"}, filename="a"),
            Document("application/pdf", title="a", file_id="f", issuer="anthropic"),
        ),
    ],
)
def test_file_is_the_block_of_its_media_type(part: dict[str, Any], block: Any) -> None:
    assert messages_of(user(part)) == (InputMessage("user", (block,)),)
    assert blocks_of(part) == (block,)


def test_parts_that_no_model_reads_are_lost_by_their_type() -> None:
    parts = (
        {"type": "data-chart", "data": {"x": 1}},
        {"type": "custom", "kind": "openai.compaction"},
        {"type": "reasoning-file", "mediaType": "image/png", "url": "https://a.example/"},
        file("audio/wav", "", providerReference={"openai": "f"}),
    )
    assert [block.kind for block in blocks_of(*parts)] == [
        *("data-chart", "custom", "reasoning-file", "file")
    ]
    shown = {"type": "source-url", "sourceId": "1", "url": "https://a.example/"}
    (message,) = messages_of(user(text("Hi"), parts[0], shown))
    assert [type(block) for block in message.blocks] == [Text, OpaqueBlock, OpaqueBlock]
    request = decode_request(chat(user(), assistant(*parts)), UI)
    losses = encode_request(request, "anthropic").losses
    assert sorted({loss.detail for loss in losses if loss.feature == "opaque_block"}) == [
        *("custom dropped", "data-chart dropped", "file dropped", "reasoning-file dropped")
    ]

"""Blocks of messages: each as the unified block that it is, and written as AWS has it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from streamnorm import (
    Audio,
    CacheMark,
    Citation,
    DecodeError,
    Document,
    EncodeError,
    Image,
    InputMessage,
    OpaqueBlock,
    Reasoning,
    RedactedReasoning,
    Refusal,
    Request,
    ServerToolCall,
    ServerToolResult,
    Text,
    ToolCall,
    ToolResult,
    Video,
    decode_request,
    encode_request,
)
from streamnorm._core.codec import WriteContext
from streamnorm._core.losses import Losses
from streamnorm.dialects.bedrock_converse.body.content import ContentWriter
from streamnorm.dialects.bedrock_converse.body.request import REQUEST_CAPABILITIES

DIALECT = "bedrock_converse"
PNG = "iVBORw0KGgo="


def own(**fields: Any) -> dict[str, dict[str, Any]]:
    return {DIALECT: fields}


def read(*blocks: Any, role: str = "user") -> tuple[Any, ...]:
    """Return the unified blocks of a message."""
    body = {"messages": [{"role": role, "content": list(blocks)}]}
    return decode_request(body, DIALECT).messages[0].blocks


def write(*blocks: Any, role: Any = "assistant") -> Any:
    """Return the content of a message with blocks, behind a question."""
    content, _ = written(*blocks, role=role)
    return content


def written(*blocks: Any, role: Any = "assistant") -> tuple[Any, list[str]]:
    question = InputMessage("user", (Text("q"),))
    answer = InputMessage("assistant", (Text("a"),))
    before = (question,) if role == "assistant" else (question, answer)
    request = Request(messages=(*before, InputMessage(role, blocks)))
    encoded = encode_request(request, DIALECT)
    losses = [loss.feature for loss in encoded.losses]
    return encoded.body["messages"][-1]["content"], losses


BOTH_WAYS = [
    ({"text": "hello"}, Text("hello")),
    (
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}},
        Reasoning(("hm",), "c2ln", "anthropic"),
    ),
    (
        {"reasoningContent": {"reasoningText": {"text": "", "signature": "c2ln"}}},
        Reasoning((), "c2ln", "anthropic"),
    ),
    # Base64 of the text `sealed`, which is the vendor's own.
    (
        {"reasoningContent": {"redactedContent": "c2VhbGVk"}},
        RedactedReasoning("sealed", "anthropic"),
    ),
    (
        {
            "citationsContent": {
                "content": [{"text": "Oslo"}],
                "citations": [
                    {
                        "title": "facts",
                        "sourceContent": [{"text": "Oslo is"}],
                        "location": {"documentChar": {"documentIndex": 0, "start": 0, "end": 7}},
                    }
                ],
            }
        },
        Text(
            "Oslo",
            (
                Citation(
                    "documentChar",
                    title="facts",
                    cited_text="Oslo is",
                    extra={"location": {"documentIndex": 0, "start": 0, "end": 7}},
                ),
            ),
        ),
    ),
    (
        {"toolUse": {"toolUseId": "c1", "name": "f", "input": {"a": 1}}},
        ToolCall("c1", "f", '{"a":1}'),
    ),
    ({"toolAddition": {"tool": {"name": "f"}}}, None),
]


@pytest.mark.parametrize(("wire", "block"), BOTH_WAYS, ids=lambda value: str(value)[:30])
def test_block_goes_both_ways(wire: dict[str, Any], block: Any) -> None:
    kind = next(iter(wire))
    block = block or OpaqueBlock(DIALECT, kind, json.dumps(wire, separators=(",", ":")))
    assert read(wire, role="assistant") == (block,)
    results = [{"toolResult": {"toolUseId": "c1", "content": []}}] if kind == "toolUse" else []
    body = {
        "messages": [
            {"role": "user", "content": [{"text": "q"}]},
            {"role": "assistant", "content": [wire]},
            *([{"role": "user", "content": results}] if results else []),
        ]
    }
    request = decode_request(body, DIALECT)
    messages = tuple(structs.replace(message, source=None) for message in request.messages)
    anew = structs.replace(request, messages=messages, source=None)
    assert encode_request(anew, DIALECT).body["messages"] == body["messages"]


@pytest.mark.parametrize(
    ("wire", "block"),
    [
        ({"text": "a", "toolUse": None}, Text("a")),
        ({"toolUse": {"toolUseId": "c", "name": "f"}}, ToolCall("c", "f", "{}")),
        ({"toolUse": {"toolUseId": "c", "name": "f", "input": " "}}, ToolCall("c", "f", "{}")),
        (
            {"toolUse": {"toolUseId": "c", "name": "f", "input": '{"a":'}},
            ToolCall("c", "f", '{"a":'),
        ),
        (
            {"toolUse": {"toolUseId": "c", "name": "f", "input": {}, "type": "tool_use"}},
            ToolCall("c", "f", "{}"),
        ),
        (
            {"toolUse": {"toolUseId": "c", "name": "f", "input": {}, "type": "server_tool_use"}},
            ServerToolCall("c", "f", "{}", "toolUse"),
        ),
        (
            {"toolUse": {"toolUseId": "c", "name": "f", "input": {}, "type": "odd"}},
            ToolCall("c", "f", "{}", extra=own(type="odd")),
        ),
        # What was escaped on the way to the client comes back as its provider wrote it.
        (
            {"toolUse": {"toolUseId": "snid_a_7cb", "name": "f", "input": {}}},
            ToolCall("a|b", "f", "{}"),
        ),
        (
            {"toolResult": {"toolUseId": "c", "content": [{"text": ""}], "status": "error"}},
            ToolResult("c", (Text(""),), is_error=True),
        ),
        ({"toolResult": {"toolUseId": "c"}}, ToolResult("c")),
        (
            {"toolResult": {"toolUseId": "c", "content": [{"json": {"a": 1}}]}},
            ToolResult("c", (Text('{"a":1}'),), value='{"a":1}'),
        ),
        (
            {"toolResult": {"toolUseId": "c", "content": [{"json": [1]}]}},
            ToolResult("c", (Text("[1]"),)),
        ),
        (
            {"toolResult": {"toolUseId": "c", "content": [{"json": {}}, {"text": "t"}]}},
            ToolResult("c", (Text("{}"), Text("t"))),
        ),
        (
            {"toolResult": {"toolUseId": "c", "content": [{"json": {}}], "type": "x_result"}},
            ServerToolResult("c", "toolResult", [{"json": {}}], extra=own(type="x_result")),
        ),
        (
            {"guardContent": {"text": {"text": "g", "qualifiers": ["query"]}}},
            Text("g", extra=own(guardContent={"qualifiers": ["query"]})),
        ),
        (
            {"citationsContent": {"content": [{"text": "a"}, {"text": "b"}], "odd": 1}},
            Text("ab", extra=own(citationsContent={"odd": 1})),
        ),
        (
            {
                "searchResult": {
                    "source": "s",
                    "title": "t",
                    "content": [{"text": "a"}, {"text": "b"}],
                }
            },
            Document(
                "text/plain",
                "a\nb",
                title="t",
                extra=own(searchResult={"source": "s", "content": [{"text": "a"}, {"text": "b"}]}),
            ),
        ),
        (
            {"searchResult": {"source": "s", "content": [{"text": "a"}]}},
            Document(
                "text/plain",
                "a",
                extra=own(searchResult={"source": "s", "content": [{"text": "a"}]}),
            ),
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_block_is_read(wire: dict[str, Any], block: Any) -> None:
    assert read(wire) == (block,)


@pytest.mark.parametrize(
    "wire",
    [
        {"guardContent": {"image": {"format": "png", "source": {"bytes": PNG}}}},
        {"citationsContent": {"content": [{"odd": 1}]}},
        {"searchResult": {"content": "a"}},
        {"reasoningContent": {"odd": 1}},
        {"cachePoint": {"type": "odd"}},
        {"cachePoint": {"type": "default", "odd": 1}},
        {"image": {"format": "bmp", "source": {"bytes": PNG}}},
        {"image": {"format": "png", "source": {"bytes": PNG, "odd": 1}}},
        {"image": {"format": "png", "source": {"s3Location": {}}}},
        {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://b/k"}}}},
        {"audio": {"format": "odd", "source": {"bytes": PNG}}},
        {"document": {"format": "odd", "name": "a", "source": {"bytes": PNG}}},
        {"document": {"format": "pdf", "name": "a", "source": {}}},
        # No text in UTF-8.
        {"document": {"format": "txt", "name": "a", "source": {"bytes": "/w=="}}},
    ],
    ids=lambda value: str(value)[:60],
)
def test_block_of_an_unknown_form_stays_as_it_is(wire: dict[str, Any]) -> None:
    block = OpaqueBlock(DIALECT, next(iter(wire)), json.dumps(wire, separators=(",", ":")))
    assert read({"text": "q"}, wire)[1:] == (block,)
    request = Request(messages=(InputMessage("user", (Text("q"), block)),))
    assert encode_request(request, DIALECT).body["messages"][0]["content"][1] == wire


@pytest.mark.parametrize(
    ("block", "path", "problem"),
    [
        ([], "$.messages[0].content[0]", "an array, expected an object"),
        ({}, "$.messages[0].content[0]", "object with 0 members, expected one"),
        ({"text": "a", "b": 1}, "$.messages[0].content[0]", "object with 2 members, expected one"),
        ({"text": 1}, "$.messages[0].content[0].text", "an integer, expected a string"),
        (
            {"toolUse": {"name": "f"}},
            "$.messages[0].content[0].toolUse.toolUseId",
            "missing, expected a string",
        ),
        (
            {"toolResult": {"toolUseId": "c", "content": [{"text": 1}]}},
            "$.messages[0].content[0].toolResult.content[0].text",
            "an integer, expected a string",
        ),
        (
            {"reasoningContent": {"redactedContent": "?"}},
            "$.messages[0].content[0].reasoningContent.redactedContent",
            "a blob of 1 characters, expected Base64",
        ),
        (
            {"citationsContent": {"content": [], "citations": [1]}},
            "$.messages[0].content[0].citationsContent.citations[0]",
            "an integer, expected an object",
        ),
    ],
)
def test_block_of_another_type_is_an_error_with_its_path(
    block: Any, path: str, problem: str
) -> None:
    with pytest.raises(DecodeError) as refused:
        read(block)
    assert (refused.value.path, refused.value.args[0]) == (path, problem)


def test_cache_point_marks_the_block_before_it() -> None:
    point, hour = ({"cachePoint": {"type": "default", **ttl}} for ttl in ({}, {"ttl": "1h"}))
    assert read({"text": "a"}, hour, {"text": "b"}, point) == (
        Text("a", cache=CacheMark("1h")),
        Text("b", cache=CacheMark()),
    )
    marked = (Text("a", cache=CacheMark("1h")), Text("b", cache=CacheMark()))
    assert write(*marked) == [{"text": "a"}, hour, {"text": "b"}, point]


def test_cache_point_behind_no_block_marks_an_empty_text() -> None:
    point = {"cachePoint": {"type": "default"}}
    marked = Text("", cache=CacheMark())
    assert read(point, {"text": "a"}, point, point) == (
        marked,
        Text("a", cache=CacheMark()),
        marked,
    )


def test_cache_point_never_stands_in_a_tool_result() -> None:
    body = {
        "messages": [
            {"role": "user", "content": "q"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "c",
                        "content": [
                            {"type": "text", "text": "r", "cache_control": {"type": "ephemeral"}}
                        ],
                    }
                ],
            },
        ],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    }
    written = encode_request(decode_request(body, "anthropic"), DIALECT).body
    assert written["messages"][2]["content"] == [
        {"toolResult": {"toolUseId": "c", "content": [{"text": "r"}]}},
        {"cachePoint": {"type": "default"}},
    ]


def test_blank_texts_are_left_out() -> None:
    assert write(Text(" \n"), Text("a"), Text("")) == [{"text": "a"}]
    # A point that marks no block of its message would mark those before.
    point = {"cachePoint": {"type": "default"}}
    message = {"role": "user", "content": [point, {"text": "a"}]}
    request = decode_request({"messages": [message]}, DIALECT)
    changed = structs.replace(request.messages[0], blocks=(*request.messages[0].blocks, Text("b")))
    anew = structs.replace(request, messages=(changed,))
    assert encode_request(anew, DIALECT).body["messages"] == [
        {"role": "user", "content": [{"text": "a"}, {"text": "b"}]}
    ]


def test_message_of_a_file_that_cannot_be_read_is_dropped() -> None:
    video = Video(url="https://a.b/c.mp4")
    content, losses = written(video, role="user")
    assert (content, losses) == ([{"text": "a"}], ["video_dropped", "empty_message_dropped"])


def test_block_that_the_api_lacks_never_reaches_the_writer() -> None:
    writer = ContentWriter(WriteContext(REQUEST_CAPABILITIES, Losses()), ())
    with pytest.raises(AssertionError, match="Refusal passed the projection"):
        writer.write_block(Refusal("no"), "blocks")


def test_answer_begins_with_its_reasoning() -> None:
    thought = Reasoning(("hm",), "c2ln", "anthropic")
    content, losses = written(Text("a"), thought, Text("b"))
    assert [next(iter(block)) for block in content] == ["reasoningContent", "text", "text"]
    assert losses == ["order_lost"]
    assert written(thought, Text("a"))[1] == []


def test_signature_of_another_vendor_is_not_sent() -> None:
    foreign = Reasoning(("hm",), "x", "google")
    content, losses = written(foreign, Text("a"))
    assert (content, losses) == ([{"text": "a"}], ["reasoning_dropped"])


def test_server_tools_of_its_own_stay() -> None:
    blocks = (
        ServerToolCall("c", "nova_code_interpreter", '{"snippet":"1"}', "toolUse"),
        ServerToolResult("c", "toolResult", [{"json": {}}], extra=own(type="x_result")),
    )
    wire = [
        {
            "toolUse": {
                "toolUseId": "c",
                "name": "nova_code_interpreter",
                "input": {"snippet": "1"},
                "type": "server_tool_use",
            }
        },
        {"toolResult": {"toolUseId": "c", "content": [{"json": {}}], "type": "x_result"}},
    ]
    assert read(*wire, role="assistant") == blocks
    question = {"role": "user", "content": [{"text": "q"}]}
    body = {"messages": [question, {"role": "assistant", "content": wire}]}
    request = structs.replace(decode_request(body, DIALECT), temperature=1)
    changed = structs.replace(request.messages[1], blocks=(*request.messages[1].blocks, Text("a")))
    anew = structs.replace(request, messages=(request.messages[0], changed))
    assert encode_request(anew, DIALECT).body["messages"][1]["content"] == [*wire, {"text": "a"}]
    failed = structs.replace(changed, blocks=(structs.replace(blocks[1], is_error=True),))
    again = structs.replace(request, messages=(request.messages[0], failed))
    [result] = encode_request(again, DIALECT).body["messages"][1]["content"]
    assert result == {"toolResult": {**wire[1]["toolResult"], "status": "error"}}


def call(id: str = "c") -> tuple[InputMessage, InputMessage]:
    question = InputMessage("user", (Text("q"),))
    return question, InputMessage("assistant", (ToolCall(id, "f", "{}"),))


def result_of(result: ToolResult) -> Any:
    request = Request(messages=(*call(), InputMessage("user", (result,))))
    return encode_request(request, DIALECT).body["messages"][2]["content"][0]["toolResult"]


def test_result_is_written() -> None:
    image = Image("image/png", PNG)
    assert result_of(ToolResult("c", (Text(""), image), is_error=True)) == {
        "toolUseId": "c",
        "content": [{"text": ""}, {"image": {"format": "png", "source": {"bytes": PNG}}}],
        "status": "error",
    }
    assert result_of(ToolResult("c", (Text('{"a":1}'),), value='{"a":1}'))["content"] == [
        {"json": {"a": 1}}
    ]
    # The API takes no other JSON than an object.
    assert result_of(ToolResult("c", (Text("[1]"),), value="[1]"))["content"] == [{"text": "[1]"}]
    assert result_of(ToolResult("c"))["content"] == []


@pytest.mark.parametrize(
    ("id", "wire"), [("call|1", "snid_call_7c1"), ("é", "snid__c3_a9"), ("f:0", "f:0")]
)
def test_id_is_escaped_once(id: str, wire: str) -> None:
    result = InputMessage("user", (ToolResult(id, (Text("a"),)),))
    body = encode_request(Request(messages=(*call(id), result)), DIALECT).body
    assert body["messages"][1]["content"][0]["toolUse"]["toolUseId"] == wire
    assert body["messages"][2]["content"][0]["toolResult"]["toolUseId"] == wire
    back = decode_request(body, DIALECT).messages
    assert back[1].tool_calls[0].id == id
    assert isinstance(read_back := back[2].blocks[0], ToolResult)
    assert read_back.tool_call_id == id


def test_block_that_only_a_stream_has_is_a_loss() -> None:
    held = OpaqueBlock(DIALECT, "x", '{"start":null,"deltas":[{"x":1}]}')
    assert written(Text("a"), held) == ([{"text": "a"}], ["opaque_block"])
    whole = OpaqueBlock(DIALECT, "x", '{"start":{"x":1},"deltas":[]}')
    assert write(Text("a"), whole) == [{"text": "a"}, {"x": 1}]


FILES = [
    ({"image": {"format": "jpeg", "source": {"bytes": PNG}}}, Image("image/jpeg", PNG)),
    (
        {"image": {"format": "gif", "source": {"s3Location": {"uri": "s3://b/k"}}}},
        Image("image/gif", file_id="s3://b/k", issuer="aws"),
    ),
    (
        {
            "image": {
                "format": "png",
                "source": {"s3Location": {"uri": "s3://b/k", "bucketOwner": "1"}},
            }
        },
        Image(
            "image/png",
            file_id="s3://b/k",
            issuer="aws",
            extra=own(source={"s3Location": {"bucketOwner": "1"}}),
        ),
    ),
    ({"video": {"format": "three_gp", "source": {"bytes": PNG}}}, Video("video/3gpp", PNG)),
    ({"audio": {"format": "wav", "source": {"bytes": PNG}}}, Audio("audio/wav", PNG)),
    (
        {"document": {"format": "pdf", "name": "a b", "source": {"bytes": PNG}}},
        Document("application/pdf", PNG, title="a b"),
    ),
    # Base64 of `Hi`, which a document of text has as text.
    (
        {"document": {"format": "md", "name": "untitled", "source": {"bytes": "SGk="}}},
        Document("text/markdown", "Hi"),
    ),
    (
        {
            "document": {
                "format": "pdf",
                "name": "a",
                "source": {"s3Location": {"uri": "s3://b/k"}},
                "context": "c",
            }
        },
        Document(
            "application/pdf",
            title="a",
            file_id="s3://b/k",
            issuer="aws",
            extra=own(context="c"),
        ),
    ),
    (
        {"document": {"format": "txt", "name": "a", "source": {"content": [{"text": "Hi"}]}}},
        Document("text/plain", "Hi", title="a", extra=own(source={"content": [{"text": "Hi"}]})),
    ),
]


@pytest.mark.parametrize(("wire", "block"), FILES, ids=lambda value: str(value)[:60])
def test_file_goes_both_ways(wire: dict[str, Any], block: Any) -> None:
    assert read({"text": "q"}, wire)[1:] == (block,)
    assert write(Text("q"), block, role="user") == [{"text": "q"}, wire]


def test_document_of_text_may_have_it_as_text() -> None:
    wire = {"document": {"name": "a", "source": {"text": "Hi"}}}
    assert read(wire) == (Document("text/plain", "Hi", title="a"),)
    nameless = {"document": {"format": "pdf", "source": {"text": "Hi"}}}
    assert read(nameless) == (Document("text/plain", "Hi"),)


def test_text_of_a_source_that_was_replaced_is_written() -> None:
    (block,) = read(FILES[-1][0])
    changed = structs.replace(block, data="Ho")
    assert write(Text("q"), changed, role="user")[1]["document"]["source"] == {"bytes": "SG8="}
    (found,) = read({"searchResult": {"source": "s", "title": "t", "content": [{"text": "a"}]}})
    assert write(found, role="user") == [
        {"searchResult": {"title": "t", "source": "s", "content": [{"text": "a"}]}}
    ]
    assert write(structs.replace(found, data="b", title=None), role="user") == [
        {"searchResult": {"title": "", "source": "s", "content": [{"text": "b"}]}}
    ]


@pytest.mark.parametrize(
    ("block", "loss"),
    [
        (Image(url="https://a.b/c.png"), "image_dropped"),
        (Document("application/pdf", url="https://a.b/c.pdf"), "document_dropped"),
        (Document("application/zip", PNG), "document_dropped"),
        (Audio("audio/wav", url="https://a.b/c.wav"), "audio_dropped"),
        (Audio("audio/midi", PNG), "audio_dropped"),
        (Video(url="https://a.b/c.mp4"), "video_dropped"),
        (Video(None, PNG), "video_dropped"),
    ],
    ids=str,
)
def test_file_that_the_api_cannot_read_is_a_loss(block: Any, loss: str) -> None:
    assert written(Text("q"), block, role="user") == ([{"text": "q"}], [loss])


def test_kindred_types_of_files_have_a_format() -> None:
    blocks = (Audio("audio/x-wav", PNG), Document("text/x-log", "Hi"), Video("video/mov", PNG))
    content = write(Text("q"), *blocks, role="user")[1:]
    assert [next(iter(block.values()))["format"] for block in content] == ["wav", "txt", "mov"]
    stored = Video("video/mp4", url="s3://b/k")
    assert write(stored, role="user")[0]["video"]["source"] == {"s3Location": {"uri": "s3://b/k"}}


def test_file_without_content_is_an_error() -> None:
    with pytest.raises(EncodeError, match="without content"):
        write(Video("video/mp4"), role="user")


def test_names_of_documents_are_legal_and_unique() -> None:
    titles = ["a/b: c.pdf", "a b c pdf", None, "x" * 250, "!"]
    documents = [Document("application/pdf", PNG, title=title) for title in titles]
    content, losses = written(Text("q"), *documents, role="user")
    assert [block["document"]["name"] for block in content[1:]] == [
        "a b c pdf",
        "a b c pdf 2",
        "untitled",
        "x" * 190,
        "untitled 2",
    ]
    assert losses == ["document_renamed"]


def test_message_with_a_document_has_a_text() -> None:
    document = Document("application/pdf", PNG, title="a")
    content, losses = written(document, role="user")
    assert (content[1:], losses) == ([{"text": "[document]"}], ["document_text_added"])
    content, _ = written(document, structs.replace(document, title="b"), role="user")
    assert content[2:] == [{"text": "[2 documents]"}]

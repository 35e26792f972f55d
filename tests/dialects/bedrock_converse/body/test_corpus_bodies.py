"""Recorded bodies of Converse: equal in their own dialect, and legal after a trip to any other.

botocore's model judges what is written.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

import pytest
from msgspec import structs
from support.bedrock_converse.bodies import (
    CorpusBody,
    corpus_bodies,
    request_problems,
    response_problems,
)
from support.streams.corpus import needs_corpus

from streamnorm import (
    DecodeError,
    EncodeError,
    Reasoning,
    Request,
    Text,
    ToolCall,
    ToolResult,
    UpstreamError,
    decode_message,
    decode_request,
    detect,
    encode_message,
    encode_request,
    translate_request,
)
from streamnorm._core.codec import Written
from streamnorm.dialects.bedrock_converse.body.response import COUNT

DIALECT = "bedrock_converse"
OTHERS = ("anthropic", "openai_chat", "openai_responses", "gemini")

each_request = pytest.mark.parametrize(
    "recorded", [body for body in corpus_bodies() if body.operation != "count-tokens"], ids=str
)
each_response = pytest.mark.parametrize(
    "recorded",
    [body for body in corpus_bodies() if body.status == 200 and "output" in body.response],
    ids=str,
)
each_other = pytest.mark.parametrize("other", OTHERS)


def read(recorded: CorpusBody) -> Request:
    return decode_request(recorded.request, DIALECT, path=recorded.path)


def without_sources(request: Request) -> Request:
    """Return a request that is written anew, part by part."""
    return structs.replace(
        request,
        source=None,
        messages=tuple(structs.replace(each, source=None) for each in request.messages),
        tools=tuple(structs.replace(each, source=None) for each in request.tools),
    )


def comparable(value: Any, name: str = "") -> Any:
    """Return a body without what means the same as nothing, and with schemas as JSON."""
    if isinstance(value, dict):
        found = {key: comparable(item, key) for key, item in value.items()}
        return {key: item for key, item in found.items() if (key, item) not in _NOTHING}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    return json.loads(value) if name == "schema" else value


_NOTHING = (("status", "success"), ("system", []), ("stopSequences", []))

# What a request that is written anew has in other words.
REWRITTEN = {
    30: "Nova's `topK`, which a profile of the model writes",
    31: "a text of a line end is left out",
    35: "`effort` is a field of `outputConfig`",
    37: "Nova's `reasoningConfig`, which a profile of the model writes",
    42: "a text document is written as bytes",
    **dict.fromkeys((57, 59, 60), "the schema of an output is closed"),
    74: "messages of one role are joined",
    79: "messages of one role are joined",
}


@needs_corpus
@each_request
def test_request_is_equal_in_its_own_dialect(recorded: CorpusBody) -> None:
    encoded = encode_request(read(recorded), DIALECT)
    assert encoded.body == recorded.request
    assert encoded.losses == ()
    assert detect(recorded.request) == DIALECT


@needs_corpus
@each_request
def test_path_names_the_model_and_whether_the_answer_is_a_stream(recorded: CorpusBody) -> None:
    request = read(recorded)
    resource, _, method = recorded.path.rpartition("/")
    assert request.model == unquote(resource.removeprefix("/model/"))
    assert request.stream is (method == "converse-stream")
    path = encode_request(request, DIALECT).path
    assert path.count("/") == 3  # the id is one segment, be it an ARN
    assert unquote(path) == unquote(recorded.path)


@needs_corpus
@each_request
def test_request_that_is_written_anew_says_the_same(recorded: CorpusBody) -> None:
    written = encode_request(structs.replace(without_sources(read(recorded)), model=""), DIALECT)
    assert request_problems(written.body) == ""
    is_equal = comparable(written.body) == comparable(recorded.request)
    assert is_equal is (recorded.number not in REWRITTEN)


@needs_corpus
@each_request
@each_other
def test_request_that_comes_back_is_legal(recorded: CorpusBody, other: str) -> None:
    request = read(recorded)
    if has_stored_file(request):
        with pytest.raises(EncodeError, match="file id of another vendor"):
            encode_request(request, other)
        return
    there = encode_request(request, other, missing_tools="drop")
    back = translate_request(there.body, to=DIALECT, dialect=other, path=there.path)
    assert request_problems(back.body) == ""
    again = decode_request(back.body, DIALECT)
    assert calls_of(again) == calls_of(request)
    said = [block.text.strip() for block in request.messages[0].blocks if isinstance(block, Text)]
    assert all(text in again.messages[0].text for text in said)


def has_stored_file(request: Request) -> bool:
    """Return whether a request has a file in S3, which other vendors cannot read."""
    blocks = [block for message in request.messages for block in message.blocks]
    blocks += [item for block in blocks if isinstance(block, ToolResult) for item in block.content]
    return any(getattr(block, "file_id", None) is not None for block in blocks)


def calls_of(request: Request) -> list[tuple[str, str, Any]]:
    calls = [call for message in request.messages for call in message.tool_calls]
    return [(call.id, call.name, call.input()) for call in calls]


@needs_corpus
@each_response
def test_response_is_equal_in_its_own_dialect(recorded: CorpusBody) -> None:
    message = decode_message(recorded.response, DIALECT)
    assert encode_message(message, DIALECT).body == recorded.response
    assert encode_message(message, DIALECT, model="m").body == recorded.response
    assert detect(recorded.response) == DIALECT


@needs_corpus
@each_response
def test_response_that_is_written_anew_says_the_same(recorded: CorpusBody) -> None:
    message = structs.replace(decode_message(recorded.response, DIALECT), id="changed")
    written = encode_message(message, DIALECT).body
    assert response_problems(written) == ""
    assert without_repetitions(written) == without_repetitions(recorded.response)


def test_signature_may_stand_before_the_text_that_it_signs() -> None:
    inner = {"signature": "c2ln", "text": "hm"}
    answer = {"role": "assistant", "content": [{"reasoningContent": {"reasoningText": inner}}]}
    body = {"output": {"message": answer}, "stopReason": "end_turn"}
    assert decode_message(body, DIALECT).blocks == (Reasoning(("hm",), "c2ln", "anthropic"),)


def without_repetitions(body: dict[str, Any]) -> dict[str, Any]:
    """Return a response without counts that Nova repeats, and with zeros for absent ones."""
    usage = {name: count for name, count in body["usage"].items() if not name.endswith("Count")}
    nothing = {"cacheReadInputTokens": 0, "cacheWriteInputTokens": 0}
    return {**body, "usage": nothing | usage}


@needs_corpus
@each_response
@each_other
def test_response_goes_to_any_other_dialect_and_back(recorded: CorpusBody, other: str) -> None:
    message = decode_message(recorded.response, DIALECT)
    there = encode_message(message, other)
    again = decode_message(there.body, other)
    back = encode_message(again, DIALECT)
    assert response_problems(back.body) == ""
    after = decode_message(back.body, DIALECT)
    assert [(call.id, call.input()) for call in calls_in(after)] == [
        (call.id, call.input()) for call in calls_in(message)
    ]
    assert after.text.strip() == message.text.strip()
    assert after.usage.input_tokens == message.usage.input_tokens
    assert after.stop_reason == message.stop_reason


def calls_in(message: Any) -> list[ToolCall]:
    return [block for block in message.blocks if isinstance(block, ToolCall)]


@needs_corpus
@pytest.mark.parametrize(
    "recorded", [body for body in corpus_bodies() if body.status != 200], ids=str
)
def test_error_is_no_response(recorded: CorpusBody) -> None:
    with pytest.raises((DecodeError, UpstreamError)):
        decode_message(recorded.response, DIALECT)


@needs_corpus
@pytest.mark.parametrize(
    "recorded", [body for body in corpus_bodies() if body.operation == "count-tokens"], ids=str
)
def test_token_count_is_read(recorded: CorpusBody) -> None:
    request = COUNT.read_request(recorded.request)
    written = encode_request(decode_request(request, DIALECT), DIALECT)
    assert COUNT.write_request(Written(written.body, "/model/m/converse")).body == recorded.request
    assert COUNT.write_count(COUNT.read_count(recorded.response)) == recorded.response

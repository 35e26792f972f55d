"""What we encode is what the official Anthropic SDK reads.

Every written recording and every real stream of the corpus is transcoded and served to
the SDK, which must arrive at the message that the projected events add up to.
"""

from __future__ import annotations

import fnmatch
import json
from typing import Any, NamedTuple

import anthropic
import httpx2
import pytest
from acceptance.anthropic_wire import broken_rules
from anthropic.types import Message as SDKMessage
from anthropic.types import RawMessageStreamEvent
from support.streams.content import error_words
from support.streams.corpus import (
    CorpusStream,
    corpus,
    each_recording,
    each_stream_of,
    needs_corpus,
    payloads,
    recordings,
)

from streamnorm import (
    Event,
    Message,
    Reasoning,
    RedactedReasoning,
    StreamError,
    Text,
    ToolCall,
    Transcoder,
    accumulate,
    project,
)
from streamnorm._core.text import escape_id, tag_signature
from streamnorm.codec import decoder
from streamnorm.recording import Recording

REQUEST: dict[str, Any] = {"model": "m", "max_tokens": 1, "messages": []}

# Arguments that are no JSON: the SDK reads as much of them as it can, so that its input
# says nothing of what was sent, and its raw events are judged alone.
INVALID_ARGUMENTS = {
    "cut by length": (
        "openai/length-in-arguments",
        "deepseek__rig__deepseek-truncation_matrix-streaming_*",
        "llamacpp__rig__llamacpp-truncation_matrix-streaming_tool_call_cut_mid_arguments",
        "mistral__rig__mistral-tool_truncation_matrix-*_mid_*",
        "openai__rig__openai-chat_terminal_metadata_matrix-*_tiny_tool",
        "openai__rig__openai-chat_tool_truncation_matrix-*",
        "openrouter__rig__openrouter-tool_truncation_contract_matrix-*",
    ),
    "the server lost the tail, and says tool_calls": (
        "together__maruel-genai__togetherai-deepseek-ai-DeepSeek-V4-Pro_thinking-*-Tools-*",
    ),
}
PATTERNS = [pattern for patterns in INVALID_ARGUMENTS.values() for pattern in patterns]


class Served(NamedTuple):
    """A stream on its way to the SDK, and what it should find.

    Attributes:
        exact: Whether no white space may be missing from its text.
    """

    name: str
    source: bytes
    body: bytes
    message: Message
    error: StreamError | None
    exact: bool


def serve(name: str, source: bytes, server: str | None = None) -> Served:
    transcoder = Transcoder("openai_chat", "anthropic", server=server)
    body = b"".join(transcoder.feed(source) + transcoder.close())
    events = decoded(source, server)
    last = events[-1]
    error = last if isinstance(last, StreamError) else None
    message = accumulate(project(events, "anthropic")[0])
    exact = not any(loss.feature == "whitespace_text" for loss in transcoder.losses)
    return Served(name, source, body, message, error, exact)


def text_of(source: bytes) -> str:
    """Return the text of the first choice, added up by hand."""
    text = ""
    for data in payloads(source):
        chunk = {} if data.startswith("[DONE]") else json.loads(data)
        for choice in chunk.get("choices") or ():
            delta = {} if choice.get("index") else choice.get("delta") or {}
            content = delta.get("content") or ""
            if isinstance(content, list):
                content = "".join(part.get("text", "") for part in content)
            text += content + (delta.get("refusal") or "")
    return text.encode("utf-16", "surrogatepass").decode("utf-16")


def decoded(source: bytes, server: str | None = None) -> list[Event]:
    chat = decoder("openai_chat", server=server)
    return chat.feed(source) + chat.close()


def client_of(body: bytes) -> anthropic.Anthropic:
    response = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)
    http = httpx2.Client(transport=httpx2.MockTransport(lambda _: response))
    return anthropic.Anthropic(api_key="-", base_url="http://t", http_client=http, max_retries=0)


def raw_events(client: anthropic.Anthropic) -> list[RawMessageStreamEvent]:
    return list(client.messages.create(**REQUEST, stream=True))


def final_message(client: anthropic.Anthropic) -> SDKMessage:
    with client.messages.stream(**REQUEST) as stream:
        return stream.get_final_message()


# What a message says, in our words and in theirs: arguments as text, then as a value


def our_blocks(message: Message) -> list[tuple[str, ...]]:
    blocks: list[tuple[str, ...]] = []
    for block in message.blocks:
        match block:
            case Text(text):
                blocks.append(("text", text))
            case Reasoning(signature=signature, issuer=issuer, id=id):
                blocks.append(("thinking", block.text, seal(signature, issuer, id)))
            case RedactedReasoning(data, issuer, id):
                blocks.append(("redacted_thinking", seal(data, issuer, id)))
            case ToolCall(id, name, arguments):
                blocks.append(("tool_use", escape_id(id), name, arguments or "{}"))
            case _:
                raise AssertionError(block)
    return blocks


def seal(signature: str | None, issuer: str | None, id: str | None) -> str:
    if signature is None or issuer == "anthropic":
        return signature or ""
    return tag_signature(signature, issuer, id)


def raw_blocks(events: list[RawMessageStreamEvent]) -> list[tuple[str, ...]]:
    blocks: list[list[str]] = []
    for event in events:
        if event.type == "content_block_start":
            match event.content_block:
                case anthropic.types.TextBlock(type=kind):
                    blocks.append([kind, ""])
                case anthropic.types.ThinkingBlock(type=kind):
                    blocks.append([kind, "", ""])
                case anthropic.types.RedactedThinkingBlock(type=kind, data=data):
                    blocks.append([kind, data])
                case anthropic.types.ToolUseBlock(type=kind, id=id, name=name):
                    blocks.append([kind, id, name, ""])
                case other:
                    raise AssertionError(other)
        elif event.type == "content_block_delta":
            match event.delta:
                case anthropic.types.TextDelta(text=text):
                    blocks[event.index][1] += text
                case anthropic.types.ThinkingDelta(thinking=text):
                    blocks[event.index][1] += text
                case anthropic.types.SignatureDelta(signature=text):
                    blocks[event.index][2] = text
                case anthropic.types.InputJSONDelta(partial_json=text):
                    blocks[event.index][3] += text
                case other:
                    raise AssertionError(other)
    return [tuple(block) for block in blocks]


def final_blocks(message: SDKMessage) -> list[tuple[Any, ...]]:
    fields = {
        "text": ("text",),
        "thinking": ("thinking", "signature"),
        "redacted_thinking": ("data",),
        "tool_use": ("id", "name", "input"),
    }
    return [
        (block.type, *(getattr(block, field) for field in fields[block.type]))
        for block in message.content
    ]


def parsed(blocks: list[tuple[str, ...]]) -> list[tuple[Any, ...]]:
    return [
        (*block[:3], json.loads(block[3])) if block[0] == "tool_use" else block for block in blocks
    ]


def parses(blocks: list[tuple[str, ...]]) -> bool:
    try:
        parsed(blocks)
    except ValueError:
        return False
    return True


def check(served: Served) -> None:
    assert broken_rules(served.body, failed=served.error is not None) == []
    if served.error is not None:
        for read in (raw_events, final_message):
            with client_of(served.body) as client, pytest.raises(anthropic.APIStatusError) as info:
                read(client)
            written = StreamError("upstream", info.value.body["error"]["message"])  # type: ignore[index]
            assert error_words(written) == error_words(served.error)
        return
    blocks = our_blocks(served.message)
    with client_of(served.body) as client:
        assert raw_blocks(raw_events(client)) == blocks
    with client_of(served.body) as client:
        final = final_message(client)
    if parses(blocks):
        assert final_blocks(final) == parsed(blocks)
    else:
        assert any(fnmatch.fnmatchcase(served.name, pattern) for pattern in PATTERNS)
    text = "".join(block.text for block in final.content if block.type == "text")
    said = text_of(served.source)
    assert text == said if served.exact else text.split() == said.split()
    message = served.message
    assert (final.id, final.model) == (message.id, message.model)
    assert final.stop_reason == message.stop_reason
    assert final.stop_sequence == message.stop_sequence
    check_usage(final, message)


def check_usage(final: SDKMessage, message: Message) -> None:
    read, usage, said = final.usage.cache_read_input_tokens, final.usage, message.usage
    written = final.usage.cache_creation_input_tokens
    assert usage.input_tokens + (read or 0) + (written or 0) == (said.input_tokens or 0)
    assert read == (said.cache_read_tokens or 0)
    assert written == (said.cache_write_tokens or 0)
    assert usage.output_tokens == (said.output_tokens or 0)
    details = usage.output_tokens_details
    assert (details.thinking_tokens if details else None) == said.reasoning_tokens


def name_of(recording: Recording) -> str:
    return f"{recording.path.parent.name}/{recording.path.stem}"


@each_recording
def test_written_recording_gives_the_sdk_its_message(recording: Recording) -> None:
    check(serve(name_of(recording), recording.body, recording.server))


@each_stream_of("openai_chat", one_in=4)
def test_real_stream_gives_the_sdk_its_message(stream: CorpusStream) -> None:
    check(serve(stream.name, stream.body))


def test_stream_without_a_first_choice_is_an_error_to_the_sdk() -> None:
    chunk = {"choices": [{"index": 1, "delta": {"content": "hi"}, "finish_reason": "stop"}]}
    source = b"data: %b\n\ndata: [DONE]\n\n" % json.dumps(chunk).encode()
    served = serve("choice 1 alone", source)
    assert served.error is not None
    check(served)


@needs_corpus
def test_every_pattern_of_invalid_arguments_is_in_use() -> None:
    sources = [(name_of(recording), recording.body) for recording in recordings()]
    sources += [(stream.name, stream.body) for stream in corpus()]
    served = (serve(name, body) for name, body in sources)
    invalid = [stream.name for stream in served if not parses(our_blocks(stream.message))]
    assert [pattern for pattern in PATTERNS if not fnmatch.filter(invalid, pattern)] == []

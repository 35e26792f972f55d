"""What the vendors themselves send is legal, but for a few streams that are explained."""

from __future__ import annotations

import fnmatch

import pytest
from corpus import CorpusStream, corpus, needs_corpus

from streamnorm import validate

# Who speaks a dialect by right; Bedrock's and Vertex's streams are Anthropic's own.
VENDORS = {"openai_chat": {"openai"}, "anthropic": {"anthropic", "bedrock", "vertex"}}

EXPLAINED: dict[str, tuple[str, ...]] = {
    # The API ends some cited answers with a text block that it would not take back.
    "anthropic__maruel-genai__anthropic-claude-*-Citations-text-*": (
        "block ? is an empty text, expected text or no block",
    ),
    # Fixtures of the SDKs, cut by hand.
    "anthropic__anthropic-sdk-*__*incomplete_partial_json_response": (
        "message_delta while block 1 is open, expected content_block_stop",
        "event of 51 bytes ends without a blank line, expected one",
    ),
    "anthropic__anthropic-sdk-python__streaming-tool_use_response": (
        "event of ?? bytes ends without a blank line, expected one",
    ),
    # A fixture that was written again, shorter.
    "anthropic__langchainrb__anthropic-chat_stream_with_empty_tool_input": (
        "message.usage is missing, expected an object",
    ),
    # OpenRouter's, by its `provider` and its `[DONE]`.
    "anthropic__rig__anthropic-streaming-gateway_message_delta_metadata": (
        "frame after message_stop, expected nothing",
    ),
    # OpenRouter's, by its `native_finish_reason`.
    "openai__axonhub__transformer-openai-openai-stop": (
        "second role of choice 0, expected it in the first delta alone",
        "delta after the finish_reason of choice 0, expected none",
        "usage beside 1 choices, expected it in a last chunk without any",
    ),
    # A fixture that lost most of its first choice.
    "openai__axonhub__transformer-openai-openai-multiple_choice_tool_2": (
        "choice 1 begins, expected 0",
        "first delta of choice 0 without role, expected assistant",
        "finish_reason is tool_calls without a tool call, expected another",
    ),
    # A fixture that lost the blank line at its end, and the role at its start.
    "openai__semantic-kernel__*-chat_completion_streaming_test_response": (
        "event of 13 bytes ends without a blank line, expected one",
        "first delta of choice 0 without role, expected assistant",
    ),
    # Models that speak break the vendor's own rules, and its helpers.
    "openai__*gpt-audio*": (
        "choices is missing, expected an array",
        "second role of choice 0, expected it in the first delta alone",
        "chunk after the usage chunk, expected [[]DONE]",
        "[[]DONE] before the finish_reason of choice 0, expected it after",
        "frame after an error, expected nothing",
    ),
    "openai__openai-dotnet__ChatTests-ChatWith*Audio*": (
        "choices is missing, expected an array",
        "second role of choice 0, expected it in the first delta alone",
        "chunk after the usage chunk, expected [[]DONE]",
        "[[]DONE] before the finish_reason of choice 0, expected it after",
    ),
}


def vendors_streams() -> list[CorpusStream]:
    return [
        stream
        for dialect, vendors in VENDORS.items()
        for stream in corpus(dialect)
        if stream.provider in vendors
    ]


def explained(name: str) -> tuple[str, ...]:
    return next((told for pattern, told in EXPLAINED.items() if fnmatch.fnmatch(name, pattern)), ())


@needs_corpus
@pytest.mark.parametrize("stream", vendors_streams() or [None], ids=str)
def test_stream_of_the_vendor_is_legal_or_explained(stream: CorpusStream) -> None:
    for violation in validate(stream.body, stream.dialect):
        assert any(
            fnmatch.fnmatchcase(violation.message, told) for told in explained(stream.name)
        ), violation


@needs_corpus
def test_every_explanation_is_needed() -> None:
    needed = {
        (stream_pattern, told)
        for stream in vendors_streams()
        for violation in validate(stream.body, stream.dialect)
        for stream_pattern, tolds in EXPLAINED.items()
        for told in tolds
        if fnmatch.fnmatch(stream.name, stream_pattern)
        and fnmatch.fnmatchcase(violation.message, told)
    }
    every = {(pattern, told) for pattern, tolds in EXPLAINED.items() for told in tolds}
    assert every - needed == set()


@needs_corpus
def test_compatible_servers_are_found_to_depart() -> None:
    """Each of these has a habit of its own in some stream, as its users report."""
    servers = {"openrouter", "mistral", "groq", "azure", "together", "perplexity"}
    departed = {
        stream.provider
        for stream in corpus("openai_chat")
        if stream.provider in servers and validate(stream.body, "openai_chat")
    }
    assert departed == servers

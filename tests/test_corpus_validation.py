"""Streams of the vendors pass the strict validator, except for a few that are explained."""

from __future__ import annotations

import fnmatch
from functools import cache

import pytest
from support.streams.corpus import CorpusStream, corpus, needs_corpus

from streamnorm.validation import validate

# Who speaks a dialect by right; Bedrock's and Vertex's streams are Anthropic's own, and Azure's
# responses are OpenAI's.
VENDORS = {
    "openai_chat": {"openai"},
    "anthropic": {"anthropic", "bedrock", "vertex"},
    "openai_responses": {"openai", "azure"},
    "gemini": {"google", "vertex"},
}

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
    # Recorded before the API told what it wrote to its cache, as its types now have it.
    "*": (
        "response.usage.input_tokens_details.cache_write_tokens is missing, "
        "expected an integer from 0",
    ),
    # Recorded in the first weeks of the API.
    "openai__llm-openai-plugin__test_openai-test_async_model": (
        "sequence_number is missing, expected an integer from 0",
        "logprobs is missing, expected an array",
    ),
    "openai__ruby-openai__responses_stream": (
        "sequence_number is missing, expected an integer from 0",
        "logprobs is missing, expected an array",
    ),
    "openai__braintrust-py__*openai_response_streaming_async": (
        "logprobs is missing, expected an array",
    ),
    # Resumed in their middle.
    "openai__openai-dotnet__ResponsesTests-CanStreamBackgroundResponses*-1": (
        "response.in_progress comes first, expected response.created",
    ),
    # Events that no SDK of the vendor knows.
    "openai__vercel-ai__openai-responses-openai-apply-patch-tool.1": (
        "type is unknown in ?? characters, expected one of the protocol",
    ),
    # A call that waits for what its program does is done and in progress at once.
    "openai__vercel-ai__openai-responses-programmatic-tool-calling.[12]": (
        "item.status is a string of 11 characters, expected completed or incomplete",
    ),
    # A search that is done and still searches.
    "azure__vercel-ai__azure-azure-web-search-preview-tool.1": (
        "item.status is a string of 9 characters, expected completed or incomplete or failed",
    ),
    # A call that the client is to answer has its id when it is done.
    "openai__vercel-ai__openai-responses-openai-client-tool-search.1": (
        "response.output_item.done has another call_id for item 0, expected that of its start",
    ),
    # Fixtures that were shortened by hand.
    "openai__agentgateway__response-responses-stream-image": (
        "response.output[[]1] is not item 1 as it was done, expected that",
    ),
    "openai__maruel-genai__openairesponses-gpt-5.6-sol_thinking-GenStream-MaxTokens": (
        "response.reasoning_summary_text.done has summary 0 of item 0 in 484 characters, "
        "expected its 926 of before",
    ),
    "openai__vercel-ai__openai-responses-openai-phase.1": (
        "response.* is missing, expected *",
        "logprobs is missing, expected an array",
        "sequence_number is *, expected *",
        "response.output_text.done has part 0 of item * characters, expected its * of before",
        "item 2 starts, expected item 1",
    ),
    "openai__vercel-ai__openai-responses-openai-shell-container.1": (
        "response.output_text.done has part 0 of item 2 in 190 characters, "
        "expected its 29 of before",
    ),
    # Fixtures of the SDKs that lost the blank line at their end.
    "google__firebase-vertexai-test-data__*": (
        "event of ??? bytes ends without a blank line, expected one",
    ),
    "google__generative-ai-swift__*-streaming-*": (
        "event of ??? bytes ends without a blank line, expected one",
    ),
    "vertex__firebase-vertexai-test-data__*-failure-prompt-blocked-safety-with-message": (
        "event of ??? bytes ends without a blank line, expected one",
    ),
    # Fixtures of streams that fail: an error without a frame, and an answer that never ends.
    "google__generative-ai-swift__*-streaming-failure-error-mid-stream": (
        "line of * bytes that is no field, expected a data line",
    ),
    "*-streaming-failure-empty-content": ("no finishReason of candidate 0, expected one",),
    # Recordings into which null was put by hand.
    "google__lmnr-python__test_google_genai-test_google_genai_no_*": (
        "candidates[[]0].content is null, expected an object",
        "usageMetadata.totalTokenCount is null, expected an integer from 0",
    ),
    # One token less than its parts have.
    "vertex__newrelic-py__mlmodel_gemini-11": (
        "usageMetadata.totalTokenCount is 214, expected 215",
    ),
    # Fixtures that were made to fail.
    "vertex__firebase-vertexai-test-data__*-streaming-success-image-invalid-safety-ratings": (
        "candidates[[]0].safetyRatings[[]?].category is missing, expected a string",
    ),
}


def vendors_streams() -> list[CorpusStream]:
    return [
        stream
        for dialect, vendors in VENDORS.items()
        for stream in corpus(dialect)
        if stream.provider in vendors and is_event_stream(stream)
    ]


def is_event_stream(stream: CorpusStream) -> bool:
    """Return whether a body is an event stream, and not the JSON array of Gemini."""
    return not stream.body.startswith(b"[")


def explained(name: str) -> list[str]:
    return [
        told
        for pattern, tolds in EXPLAINED.items()
        if fnmatch.fnmatch(name, pattern)
        for told in tolds
    ]


@cache
def departures(stream: CorpusStream) -> set[str]:
    return {violation.message for violation in validate(stream.body, stream.dialect)}


@needs_corpus
@pytest.mark.parametrize("stream", vendors_streams() or [None], ids=str)
def test_vendor_stream_is_legal_or_its_violations_are_explained(stream: CorpusStream) -> None:
    for message in departures(stream):
        assert any(fnmatch.fnmatchcase(message, told) for told in explained(stream.name)), message


@needs_corpus
def test_every_explanation_is_needed() -> None:
    needed = {
        (stream_pattern, told)
        for stream in vendors_streams()
        for message in departures(stream)
        for stream_pattern, tolds in EXPLAINED.items()
        for told in tolds
        if fnmatch.fnmatch(stream.name, stream_pattern) and fnmatch.fnmatchcase(message, told)
    }
    every = {(pattern, told) for pattern, tolds in EXPLAINED.items() for told in tolds}
    assert every - needed == set()


SERVERS = {
    "openai_chat": {"openrouter", "mistral", "groq", "azure", "together", "perplexity"},
    "openai_responses": {
        *("openrouter", "xai", "chatgpt-codex", "github-copilot", "lmstudio", "llamacpp", "vllm"),
    },
}


@needs_corpus
@pytest.mark.parametrize("dialect", SERVERS)
def test_compatible_servers_have_violations(dialect: str) -> None:
    """Each of these has a habit of its own in some stream, as its users report."""
    departed = {
        stream.provider
        for stream in corpus(dialect)
        if stream.provider in SERVERS[dialect] and departures(stream)
    }
    assert departed == SERVERS[dialect]

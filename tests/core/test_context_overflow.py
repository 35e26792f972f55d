"""Requests that are too long for their model, as servers spell it."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from streamnorm import StreamError
from streamnorm._core.context_overflow import (
    ContextOverflow,
    context_overflow,
    is_context_overflow,
)
from streamnorm._core.failures import error_subject, find_error, response_status


class Spelling(NamedTuple):
    """An error of a server: its body, and what it says of the tokens."""

    body: Any
    input_tokens: int | None = None
    output_tokens: int | None = None
    limit: int | None = None


def chat(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


SPELLINGS = {
    "Anthropic": Spelling(
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 213462 tokens > 200000 maximum",
            },
        },
        *(213462, None, 200000),
    ),
    "Anthropic, max_tokens": Spelling(
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "input length and `max_tokens` exceed context limit: 184915 + 20000 > "
                "204648, decrease input length or `max_tokens` and try again",
            },
        },
        *(184915, 20000, 204648),
    ),
    "Azure": Spelling(
        chat(
            "This model's maximum context length is 4097 tokens. However, your messages resulted "
            "in 4294 tokens. Please reduce the length of the messages.",
            type="invalid_request_error",
            param="messages",
            code="context_length_exceeded",
        ),
        *(4294, None, 4097),
    ),
    "Bedrock": Spelling({"message": "Input is too long for requested model.", "statusCode": 400}),
    "Cerebras": Spelling(
        chat(
            "Please reduce the length of the messages or completion. Current length is 9000 while "
            "limit is 8192",
            code="context_length_exceeded",
        ),
        *(9000, None, 8192),
    ),
    "Cohere": Spelling(
        {
            "error": "too many tokens: total number of tokens in the prompt cannot exceed 128000 - "
            "received 130000"
        },
        *(130000, None, 128000),
    ),
    "Copilot": Spelling(
        chat(
            "prompt token count of 131042 exceeds the limit of 128000",
            code="model_max_prompt_tokens_exceeded",
        ),
        *(131042, None, 128000),
    ),
    "DashScope": Spelling(
        chat(
            "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]"
        ),
    ),
    "DeepSeek": Spelling(
        chat(
            "This model's maximum context length is 131072 tokens. However, you requested 131134 "
            "tokens (122942 in the messages, 8192 in the completion). Please reduce the length of "
            "the messages or completion.",
            type="invalid_request_error",
            code="invalid_request_error",
        ),
        *(122942, 8192, 131072),
    ),
    "Fireworks": Spelling(
        chat("The prompt is too long: 132000, model maximum context length: 131071"),
        *(132000, None, 131071),
    ),
    "Gemini": Spelling(
        {
            "error": {
                "code": 400,
                "message": "The input token count (1196265) exceeds the maximum number of tokens "
                "allowed (1048575).",
                "status": "INVALID_ARGUMENT",
            }
        },
        *(1196265, None, 1048575),
    ),
    "GLM": Spelling(chat("Prompt exceeds max length", code="1261")),
    "Groq": Spelling(
        chat(
            "Please reduce the length of the messages or completion.",
            type="invalid_request_error",
            param="messages",
            code="context_length_exceeded",
        ),
    ),
    "Kimi": Spelling(
        chat(
            "Invalid request: Your request exceeded model token limit: 131072 (requested: 150000)",
            type="invalid_request_error",
        ),
        *(150000, None, 131072),
    ),
    "LM Studio": Spelling(
        {
            "error": "The number of tokens to keep from the initial prompt is greater than the "
            "context length. Try to load the model with a larger context length"
        }
    ),
    "LM Studio, with counts": Spelling(
        {
            "error": "The number of tokens to keep from the initial prompt is greater than the "
            "context length (n_keep: 10247 >= n_ctx: 4096). Try to load the model with a larger "
            "context length, or provide a shorter prompt."
        },
        *(10247, None, 4096),
    ),
    "LM Studio, the prompt": Spelling(
        {
            "error": "Trying to keep the first 14538 tokens when context the overflows. However, "
            "the model is loaded with context length of only 2048 tokens, which is not enough. Try "
            "to load the model with a larger context length, or provide a shorter input"
        },
        *(14538, None, 2048),
    ),
    "LM Studio, later versions": Spelling(
        {"error": "Cannot truncate prompt with n_keep (9000) >= n_ctx (4096)"},
        *(9000, None, 4096),
    ),
    "LM Studio, within the answer": Spelling(
        {
            "error": "Reached context length of 32000 tokens with model (arch: gpt-oss) that does "
            "not currently support mid-generation context overflow."
        },
        *(None, None, 32000),
    ),
    "LiteLLM": Spelling(
        {
            "object": "error",
            "type": "BadRequestError",
            "message": "Requested token count exceeds the model's maximum context length of 262144 "
            "tokens. You requested a total of 262462 tokens: 230462 tokens from the input "
            "messages and 32000 tokens for the completion.",
        },
        *(230462, 32000, 262144),
    ),
    "llama.cpp": Spelling(
        {
            "error": {
                "code": 400,
                "message": "request (2009 tokens) exceeds the available context size (512 tokens), "
                "try increasing it",
                "n_ctx": 512,
                "n_prompt_tokens": 2009,
                "type": "exceed_context_size_error",
            }
        },
        *(2009, None, 512),
    ),
    "llama.cpp, older": Spelling(
        {
            "error": {
                "code": 500,
                "message": "the request exceeds the available context size. try increasing the "
                "context size or enable context shift",
                "type": "server_error",
            }
        }
    ),
    "llama.cpp, within the answer": Spelling(
        {
            "error": {
                "code": 500,
                "message": "Context size has been exceeded.",
                "type": "server_error",
            }
        }
    ),
    "Llama on Bedrock": Spelling(
        {
            "message": "This model's maximum context length is 8192 tokens. Please reduce the "
            "length of the prompt",
            "statusCode": 400,
        },
        *(None, None, 8192),
    ),
    "MiniMax": Spelling(
        {
            "base_resp": {
                "status_code": 2013,
                "status_msg": "invalid params, context window exceeds limit",
            }
        }
    ),
    "Mistral": Spelling(
        {
            "object": "error",
            "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with "
            "32768 maximum context length",
            "type": "invalid_request_error",
        },
        *(40000, None, 32768),
    ),
    "NIM": Spelling(
        {"detail": "Input length 9000 exceeds maximum allowed token size 8192"}, 9000, None, 8192
    ),
    "Nova": Spelling(
        {
            "message": "Input Tokens Exceeded: Number of input tokens exceeds maximum length.",
            "statusCode": 400,
        }
    ),
    "Ollama": Spelling({"error": "prompt too long; exceeded max context length by 12 tokens"}),
    "Ollama, its runner": Spelling({"error": "the input length exceeds the context length"}),
    "oMLX": Spelling(
        {"detail": "Prompt too long: 32799 tokens exceeds max context window of 32768 tokens"},
        *(None, None, 32768),
    ),
    "OpenAI Responses": Spelling(
        chat(
            "Your input exceeds the context window of this model. Please adjust your input and "
            "try again.",
            type="invalid_request_error",
            param="input",
            code="context_length_exceeded",
        ),
    ),
    "OpenAI, a limit of the project": Spelling(
        chat(
            "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in "
            "290000 tokens. Please reduce the length of the messages."
        ),
        *(290000, None, 272000),
    ),
    "OpenRouter": Spelling(
        chat(
            "This endpoint's maximum context length is 131072 tokens. However, you requested about "
            "138956 tokens (7884 of text input, 131072 in the output). Please reduce the length of "
            'either one, or use the "middle-out" transform to compress your prompt automatically.',
            code=400,
            metadata={"provider_name": "Chutes"},
        ),
        *(7884, 131072, 131072),
    ),
    "OpenRouter, the provider's own": Spelling(
        chat(
            "Provider returned error",
            code=400,
            metadata={
                "raw": '{"type":"error","error":{"type":"invalid_request_error","message":"prompt '
                'is too long: 213462 tokens > 200000 maximum"}}',
                "provider_name": "Anthropic",
            },
        ),
        *(213462, None, 200000),
    ),
    "OpenRouter, plain text of the provider": Spelling(
        chat(
            "Provider returned error",
            code=400,
            metadata={"raw": "request (9 tokens) exceeds the available context size (8 tokens)"},
        ),
        *(9, None, 8),
    ),
    "Poolside": Spelling(
        chat("Input length 140000 exceeds the maximum allowed input length of 131,072 tokens."),
        *(140000, None, 131072),
    ),
    "SGLang": Spelling(
        {
            "object": "error",
            "message": "The input (61709 tokens) is longer than the model's context length (40960 "
            "tokens).",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        *(61709, None, 40960),
    ),
    "SGLang, memory": Spelling(
        {
            "object": "error",
            "message": "Input length (160062 tokens) exceeds the maximum allowed length (59862 "
            "tokens). Use a shorter input or enable --allow-auto-truncate.",
        },
        *(160062, None, 59862),
    ),
    "SiliconFlow": Spelling(
        {"detail": "length of prompt_tokens (40000) must be less than max_seq_len (32768)."},
        *(40000, None, 32768),
    ),
    "TensorRT-LLM": Spelling(
        chat(
            "The sum of prompt length (72417.0), query length (0) should not exceed "
            "max_num_tokens (69632)",
            type="BadRequestError",
        ),
        *(72417, None, 69632),
    ),
    "TGI": Spelling(
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. "
            "Given: 5000 `inputs` tokens and 512 `max_new_tokens`",
            "error_type": "validation",
        }
    ),
    "Vertex AI": Spelling(
        {
            "error": {
                "code": 400,
                "message": "Unable to submit request because the input token count is 1251952 but "
                "model only supports up to 1048576. Reduce the input token count and try again.",
                "status": "INVALID_ARGUMENT",
            }
        },
        *(1251952, None, 1048576),
    ),
    "Volcengine": Spelling(
        chat(
            "Total tokens of image and text exceed max message tokens. Request id: 0217724139",
            code="InvalidParameter",
            type="BadRequest",
        )
    ),
    "vLLM": Spelling(
        {
            "object": "error",
            "message": "This model's maximum context length is 8192 tokens. However, you requested "
            "8204 tokens (12 in the messages, 8192 in the completion). Please reduce the length of "
            "the messages or completion.",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        *(12, 8192, 8192),
    ),
    "vLLM 0.10": Spelling(
        chat(
            "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum "
            "context length is 40960 tokens and your request has 12000 input tokens (32000 > 40960 "
            "- 12000).",
            type="BadRequestError",
            code=400,
        ),
        *(12000, 32000, 40960),
    ),
    "vLLM 0.15": Spelling(
        chat(
            "This model's maximum context length is 32768 tokens. However, you requested 1024 "
            "output tokens and your prompt contains at least 31745 input tokens, for a total of at "
            "least 32769 tokens.",
            type="BadRequestError",
        ),
        *(31745, 1024, 32768),
    ),
    "vLLM 0.12": Spelling(
        chat(
            "You passed 32769 input tokens and requested 1 output tokens. However, the model's "
            "context length is only 32768 tokens, resulting in a maximum input length of 32767 "
            "tokens. Please reduce the length of the input prompt.",
            type="BadRequestError",
            param="input_tokens",
        ),
        *(32769, 1, 32768),
    ),
    "vLLM, the engine": Spelling(
        {
            "object": "error",
            "message": "The decoder prompt (length 40000) is longer than the maximum model length "
            "of 32768. Make sure that `max_model_len` is no smaller than the number of text "
            "tokens.",
        },
        *(40000, None, 32768),
    ),
    "vLLM, the scheduler": Spelling(
        {"detail": "Input prompt (36893 tokens) is too long and exceeds limit of 1000"},
        *(36893, None, 1000),
    ),
    "xAI": Spelling(
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 537812 "
            "tokens.",
        },
        *(537812, None, 131072),
    ),
}

each_server = pytest.mark.parametrize("server", SPELLINGS)


@each_server
def test_request_that_is_too_long_is_recognised(server: str) -> None:
    spelling = SPELLINGS[server]
    error = find_error(spelling.body)
    assert error is not None
    assert context_overflow(error) == ContextOverflow(*spelling[1:])
    assert error_subject(error) == "context"
    assert (error.status_hint, error.retryable, response_status(error)) == (400, False, 400)


@pytest.mark.parametrize(
    "body",
    [
        # Groq and OpenAI count the tokens of a minute.
        chat(
            "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested "
            "7000, please reduce the length of the messages and try again.",
            type="tokens",
            code="rate_limit_exceeded",
        ),
        chat("Too many tokens, please wait before trying again.", type="ThrottlingException"),
        chat("Prompt is too long to be free of charge", code="insufficient_quota"),
        chat("string too long. Expected a string with maximum length 64", code="invalid_value"),
        chat("max_tokens is too large: 100000. This model supports at most 16384 tokens"),
        chat("The maximum tokens you requested exceeds the model limit of 32768"),
        # Volcengine's limit of the answer (NousResearch/hermes-agent#51773).
        chat(
            "The parameter `max_tokens` specified in the request are not valid: integer above "
            "maximum value, expected a value <= 4096, but got 8192 instead.",
            code="InvalidParameter",
        ),
        chat("Provider returned error", code=400, metadata={"raw": "temperature is deprecated"}),
        chat("Provider returned error", code=429, metadata={"raw": "prompt is too long"}),
        chat("no"),
    ],
)
def test_other_error_is_none_of_the_context(body: Any) -> None:
    error = find_error(body)
    assert error is not None
    assert context_overflow(error) is None
    assert error_subject(error) is None


def test_status_of_a_quota_decides() -> None:
    assert is_context_overflow("prompt is too long", status=400)
    assert not is_context_overflow("prompt is too long", status=429)


def test_error_of_ours_is_none_of_the_context() -> None:
    assert context_overflow(StreamError("too_large", "maximum context length")) is None


def test_status_of_the_server_stays_where_it_is_the_client_s_fault() -> None:
    error = find_error({"error": {"message": "Prompt is too long", "code": 413}})
    assert error is not None
    assert error.status_hint == 413
    assert response_status(error) == 400


@pytest.mark.parametrize(
    ("error", "subject"),
    [
        (StreamError("upstream", "The model `x` does not exist", None, 404), "model"),
        (StreamError("upstream", "not here", "model_not_found", 404), "model"),
        (StreamError("upstream", "not here", None, 404, extra={"param": "model"}), "model"),
        (StreamError("upstream", "The API deployment does not exist", None, 404), "model"),
        (StreamError("upstream", "No endpoints found for acme/x.", None, 404), "model"),
        (StreamError("upstream", "Invalid URL (POST /v1/chat)", None, 404), None),
        (StreamError("upstream", "Cannot POST /v1beta/models/x:generateContent", None, 404), None),
        (StreamError("upstream", "models/x is not found for API version v1", None, 404), "model"),
        (StreamError("upstream", "Item with id 'rs_1' not found.", None, 404), None),
        (StreamError("upstream", "The model `x` is busy", None, 503), None),
    ],
)
def test_404_is_about_a_model_if_it_speaks_of_one(error: StreamError, subject: str | None) -> None:
    assert error_subject(error) == subject


@pytest.mark.parametrize(
    "message",
    [
        "prompt is too long: " + "9" * 200_000,
        "(1" * 100_000 + " maximum context length",
        "input token count " * 20_000,
        "`inputs`" * 50_000,
    ],
    ids=["digits", "brackets", "phrases", "half a spelling"],
)
def test_long_message_is_read_in_linear_time(message: str) -> None:
    """Quadratic time would take minutes."""
    found = context_overflow(StreamError("upstream", message))
    assert found is None or found.limit is None

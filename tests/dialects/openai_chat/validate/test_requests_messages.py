"""What OpenAI refuses in messages of Chat Completions, rule by rule."""

from __future__ import annotations

import pytest
from support.rules.chat import CALLING, IMAGE, RESULT, USER, Case, answered, called, messages, said

from streamnorm.validation import validate_request

ASSISTANT = {"role": "assistant", "content": "Hello"}
HEIC = {"type": "image_url", "image_url": {"url": "data:image/heic;base64,AAAA"}}
PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
PDF = {
    "type": "file",
    "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="},
}
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
FOLLOWED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each"
    " 'tool_call_id'. The following tool_call_ids did not have response messages: call_1"
)
STRAY = (
    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with"
    " 'tool_calls'."
)
NULL = "Invalid value for 'content': expected a string, got null."
UNSUPPORTED_IMAGE = (
    "You uploaded an unsupported image. Please make sure your image is valid and is of one the"
    " following formats: ['png', 'jpeg', 'gif', 'webp']."
)


def invalid(value: str, known: str) -> str:
    return f"Invalid value: '{value}'. Supported values are: {known}."


CASES = [
    *(
        Case(
            "openai_chat.unanswered_calls",
            messages(USER, CALLING, *after),
            path,
            FOLLOWED,
            messages(USER, CALLING, RESULT, *after),
            server=server,
        )
        for server in (None, "azure", "copilot")
        for after, path in [((USER,), "messages[2].role"), ((), "messages")]
    ),
    Case(  # a moved image between two results
        "openai_chat.unanswered_calls",
        messages(USER, called("call_2", "call_1"), answered("call_2"), USER, answered("call_1")),
        "messages[3].role",
        FOLLOWED,
        messages(USER, called("call_2", "call_1"), answered("call_2"), answered("call_1"), USER),
    ),
    Case(
        "openai_chat.stray_results",
        messages(USER, called("call_1"), RESULT, USER, RESULT),
        "messages[4].role",
        STRAY,
        messages(USER, called("call_1"), RESULT, USER),
    ),
    Case(
        "openai_chat.stray_results",
        messages(USER, RESULT),
        "messages[1].role",
        STRAY,
        messages(USER, CALLING, RESULT),
    ),
    Case(
        "openai_chat.content",
        messages({"role": "user", "content": None}),
        "messages[0].content",
        NULL,
        messages({"role": "user", "content": ""}),
    ),
    Case(
        "openai_chat.content",
        messages(USER, {"role": "assistant", "content": None}),
        "messages[1].content",
        NULL,
        messages(USER, {"role": "assistant", "content": None, "refusal": "No."}),
    ),
    Case(
        "openai_chat.images",
        messages(USER, CALLING, {**RESULT, "content": [IMAGE]}),
        "messages[2]",
        "Invalid 'messages[2]'. Image URLs are only allowed for messages with role 'user', but this"
        " message with role 'tool' contains an image URL.",
        messages(USER, CALLING, RESULT, {"role": "user", "content": [IMAGE]}),
        free="vllm",
    ),
    Case(
        "openai_chat.images",
        messages(USER, {"role": "assistant", "content": [IMAGE]}),
        "messages[1]",
        "Invalid 'messages[1]'. Image URLs are only allowed for messages with role 'user', but this"
        " message with role 'assistant' contains an image URL.",
        messages({"role": "user", "content": [IMAGE]}, ASSISTANT),
    ),
    Case(
        "openai_chat.parts",
        said({"type": "video_url", "video_url": {"url": "https://a"}}),
        "messages[0].content[0].type",
        invalid("video_url", "'text', 'image_url', 'input_audio' and 'file'"),
        said(IMAGE),
        free="qwen",
    ),
    Case(
        "openai_chat.parts",
        messages(USER, {"role": "assistant", "content": [{"type": "thinking", "thinking": "a"}]}),
        "messages[1].content[0].type",
        invalid("thinking", "'text' and 'refusal'"),
        messages(USER, {"role": "assistant", "content": [{"type": "text", "text": "a"}]}),
        free="mistral",
    ),
    Case(
        "openai_chat.parts",
        messages({"role": "system", "content": [PDF]}, USER),
        "messages[0].content[0].type",
        invalid("file", "'text'"),
        messages({"role": "system", "content": [{"type": "text", "text": "a"}]}, USER),
    ),
    Case(
        "azure.files",
        said(PDF),
        "messages[0].content[0].type",
        "Invalid Value: 'file'. This model does not support file content types.",
        said(PNG),
        server="azure",
        free="openrouter",
    ),
    Case(
        "openai_chat.image_types",
        said(HEIC),
        "messages[0].content[0].image_url.url",
        UNSUPPORTED_IMAGE,
        said(PNG),
        free="vllm",
    ),
    Case(
        "openai_chat.image_data",
        said({"type": "image_url", "image_url": {"url": "data:image/png;base64,no base64"}}),
        "messages[0].content[0].image_url.url",
        "Invalid 'messages[0].content[0].image_url.url'. Expected a base64-encoded data URL with an"
        " image MIME type (e.g. 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got an invalid"
        " base64-encoded value.",
        said(PNG),
        free="vllm",
    ),
    Case(
        "openai_chat.image_data",
        said({"type": "image_url", "image_url": {"url": "data:image/png,%89PNG"}}),
        "messages[0].content[0].image_url.url",
        "Invalid 'messages[0].content[0].image_url.url'. Expected a base64-encoded data URL with an"
        " image MIME type (e.g. 'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got an invalid"
        " base64-encoded value.",
        said(IMAGE),
    ),
    Case(
        "openai_chat.file_data",
        said({"type": "file", "file": {"file_data": "https://example.com/a.pdf"}}),
        "messages[0].content[0].file.file_data",
        "Invalid file data: 'messages[0].content[0].file.file_data'. Expected a base64-encoded data"
        " URL with an application/pdf MIME type (e.g."
        " 'data:application/pdf;base64,SGVsbG8sIFdvcmxkIQ=='), but got an invalid base64-encoded"
        " value.",
        said(PDF),
        free="openrouter",
    ),
    *(
        Case(
            "openai_chat.file_types",
            said({"type": "file", "file": {"file_data": f"data:{kind};base64,QQ=="}}),
            "messages[0].content[0].file.file_data",
            "Invalid file data: 'messages[0].content[0].file.file_data'. Expected a base64-encoded"
            " data URL with an application/pdf MIME type (e.g."
            " 'data:application/pdf;base64,SGVsbG8sIFdvcmxkIQ=='), but got unsupported MIME type"
            f" '{kind}'.",
            said(PDF),
            free="openrouter",
        )
        for kind in (XLSX, "text/markdown")
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_message_is_refused_as_the_vendor_refuses_it(case: Case) -> None:
    case.check()


def test_legacy_function_message_needs_no_content() -> None:
    called = {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}
    body = messages(USER, called, {"role": "function", "name": "f", "content": None})
    assert validate_request({"model": "gpt-4.1", **body}, "openai_chat") == []


@pytest.mark.parametrize("server", ["azure", "copilot"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_refused_request_of_a_client_reaches_a_cloud_legal_or_not_at_all(
    case: Case, server: str
) -> None:
    case.check_repair(server)

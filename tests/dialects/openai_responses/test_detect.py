"""Detection of Responses frames and of the terminals."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm.dialects.openai_responses import DIALECT
from streamnorm.dialects.openai_responses.decode import ResponsesDecoder
from streamnorm.sse import Frame


@pytest.mark.parametrize(
    ("data", "recognised"),
    [
        ('{"type":"response.created","response":{}}', True),
        ('{"type":"response.anything_new"}', True),
        ('{"type":"error","sequence_number":2,"error":{}}', True),
        ('{"type":"error","error":{"type":"api_error"}}', False),
        ('{"type":"message_start"}', False),
        ('{"choices":[]}', False),
        ('{"type":3}', False),
        ('{"type":null}', False),
        ("[]", False),
        ("[DONE]", False),
        ("", False),
    ],
)
def test_events_of_the_dialect_are_recognised(data: str, recognised: bool) -> None:
    assert DIALECT.recognises(Frame("message", data)) is recognised


@pytest.mark.parametrize("status", ["completed", "incomplete", "failed", "cancelled"])
def test_terminal_is_known_by_the_type_in_its_payload(status: str) -> None:
    assert DIALECT.is_terminal(Frame("message", f'{{"type":"response.{status}"}}'))
    assert not DIALECT.is_terminal(Frame(f"response.{status}", '{"type":"response.created"}'))


@pytest.mark.parametrize(
    ("body", "is_request"),
    [
        ({"model": "m", "input": "a", "instructions": "b"}, True),
        ({"model": "m", "input": [], "reasoning": {}}, True),
        ({"input": [{"role": "developer", "content": "a"}]}, True),
        ({"input": [{"role": "assistant", "content": "a"}]}, True),
        ({"input": [{"type": "message", "role": "user", "content": "a"}]}, True),
        ({"input": [{"role": "user", "content": [{"type": "input_text", "text": "a"}]}]}, True),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": ""}]}, True),
        ({"input": "a", "tools": [{"type": "function", "name": "f", "strict": False}]}, True),
        ({"input": "a", "tools": [{"type": "web_search_preview"}]}, True),
        ({"input": "a", "tools": [{"type": "mcp", "server_label": "a"}]}, True),
        ({"input": "a", "tool_choice": "auto"}, True),
        ({"input": "a", "temperature": 1}, True),
        # Embeddings, moderations and interactions have these, too.
        ({"model": "m", "input": "a"}, False),
        ({"model": "m", "input": ["a"]}, False),
        ({"model": "m", "input": [{"role": "user", "content": "a"}], "stream": True}, False),
        ({"model": "m", "input": [{"type": "text", "text": "a"}]}, False),
        ({"model": "m", "input": [5, {"role": [], "type": {}, "content": 5}]}, False),
        ({"input": "a", "tools": [{"type": "function", "name": "f"}, {"type": []}, 5]}, False),
        ({"model": "m", "instructions": "a"}, False),
        ({"messages": [], "input": [], "instructions": "a"}, False),
        ({"contents": [], "input": [], "instructions": "a"}, False),
        ({}, False),
    ],
)
def test_request_is_recognised_if_it_can_be_no_other(body: Any, is_request: bool) -> None:
    assert DIALECT.is_request(body) is is_request


@pytest.mark.parametrize(
    ("body", "is_response"),
    [
        ({"object": "response", "output": []}, True),
        ({"object": "response"}, False),
        ({"object": "response", "output": {}}, False),
        ({"object": "list", "output": []}, False),
        ({"output": []}, False),
    ],
)
def test_response_is_recognised(body: Any, is_response: bool) -> None:
    assert DIALECT.is_response(body) is is_response


def test_record_has_name_aliases_and_decoder() -> None:
    assert (DIALECT.name, DIALECT.aliases) == ("openai_responses", ("responses",))
    assert DIALECT.decoder is not None
    assert isinstance(DIALECT.decoder(), ResponsesDecoder)
    assert ResponsesDecoder.dialect == DIALECT.name
    assert DIALECT.body is not None
    assert DIALECT.body().capabilities.dialect == DIALECT.name

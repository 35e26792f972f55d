"""Detection of Responses frames and of the terminals."""

from __future__ import annotations

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


def test_record_has_name_aliases_and_decoder() -> None:
    assert (DIALECT.name, DIALECT.aliases) == ("openai_responses", ("responses",))
    assert DIALECT.decoder is not None
    assert isinstance(DIALECT.decoder(), ResponsesDecoder)
    assert ResponsesDecoder.dialect == DIALECT.name

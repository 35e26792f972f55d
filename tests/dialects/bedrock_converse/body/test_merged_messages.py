"""Messages of one role that follow each other, which Converse takes as one."""

from __future__ import annotations

import json
from typing import Any

from streamnorm import decode_request, encode_request

SNOW, ICE, HAIL = ({"role": "user", "content": text} for text in ("snow", "ice", "hail"))
ANSWER = {"role": "assistant", "content": "Noted."}


def write(messages: list[dict[str, Any]]) -> Any:
    body = json.dumps({"model": "m", "messages": messages}).encode()
    encoded = encode_request(decode_request(body, "openai_chat"), "bedrock_converse")
    assert encoded.losses == ()  # the blocks stay apart
    return encoded.body["messages"]


def test_messages_of_one_role_become_one() -> None:
    user = {"role": "user", "content": [{"text": "snow"}, {"text": "ice"}, {"text": "hail"}]}
    answer = {"role": "assistant", "content": [{"text": "Noted."}]}
    messages = [SNOW, ICE, HAIL, ANSWER, SNOW, ICE, HAIL]
    assert write(messages) == [user, answer, user]


def test_merged_messages_change_no_message_of_the_request() -> None:
    body = json.dumps({"model": "m", "messages": [SNOW, ICE, HAIL]}).encode()
    request = decode_request(body, "openai_chat")
    first = encode_request(request, "bedrock_converse").body
    assert encode_request(request, "bedrock_converse").body == first


def test_reasoning_alone_is_not_sent_to_claude() -> None:
    """The messages around it become one."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "eA=="}
    messages = [SNOW, {"role": "assistant", "content": [thought]}, ICE]
    body = {"model": "anthropic.claude-haiku-4-5-20251001-v1:0", "messages": messages}
    encoded = encode_request(
        decode_request({**body, "max_tokens": 9}, "anthropic"), "bedrock_converse"
    )
    user = {"role": "user", "content": [{"text": "snow"}, {"text": "ice"}]}
    assert encoded.body["messages"] == [user]
    lost = [loss.feature for loss in encoded.losses]
    assert lost == ["reasoning_dropped", "empty_message_dropped"]

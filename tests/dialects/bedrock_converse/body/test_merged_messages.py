"""Consecutive messages of one role, which Converse takes as one."""

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

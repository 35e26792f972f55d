"""Values of a wrong JSON type: one problem each, and no other."""

from __future__ import annotations

import pytest
from support.openai_responses.violations import (
    REASONING,
    SOURCE,
    TEXT,
    Event,
    answer,
    changed,
    edited,
    message_of,
    part,
    refusal,
    settled,
    shell,
    sse,
    thought,
    with_more,
)

from streamnorm.validation import Violation, validate

SOURCED = answer(*message_of(part("msg_0", "a", annotations=(SOURCE,))))
SHELL = answer(*shell("ls"))


@pytest.mark.parametrize(
    ("events", "at", "message"),
    [
        (
            with_more(TEXT, 5, changed(TEXT[4], "content_index", to=None)),
            *(5, "content_index is null, expected an integer from 0"),
        ),
        (
            with_more(TEXT, 5, changed(TEXT[4], "delta", to=None)),
            5,
            "delta is null, expected a string",
        ),
        (edited(TEXT, 6, "text", to=None), 6, "text is null, expected a string"),
        (edited(TEXT, 3, "part", to=None), 3, "part is null, expected an object"),
        (edited(TEXT, 7, "part", to=None), 7, "part is null, expected an object"),
        (edited(TEXT, 3, "part", "type", to=[]), 3, "part.type is an array, expected a string"),
        (
            edited(TEXT, 3, "part", "type", to="odd"),
            *(3, "part.type is unknown in 3 characters, expected one of the protocol"),
        ),
        (
            edited(answer(*message_of(refusal())), 3, "part", to={"type": "refusal"}),
            *(3, "part.refusal is missing, expected an empty string"),
        ),
        (
            edited(TEXT, 3, "part", "text", to="H"),
            *(3, "part.text is a string of 1 characters, expected an empty string"),
        ),
        (
            edited(REASONING, 3, "part", "text", to="H"),
            *(3, "part.text is a string of 1 characters, expected an empty string"),
        ),
        (
            edited(answer(*thought()), 3, "part", "text", to="H"),
            *(3, "part.text is a string of 1 characters, expected an empty string"),
        ),
        (
            edited(answer(*message_of(refusal())), 3, "part", "refusal", to="N"),
            *(3, "part.refusal is a string of 1 characters, expected an empty string"),
        ),
        (
            edited(answer(*message_of(refusal())), 6, "part", to={"type": "refusal"}),
            *(6, "part.refusal is missing, expected a string"),
        ),
        (
            edited(answer(*thought()), 6, "part", to={"type": "reasoning_text"}),
            *(6, "part.text is missing, expected a string"),
        ),
        (
            edited(REASONING, 6, "part", to={"type": "summary_text"}),
            *(6, "part.text is missing, expected a string"),
        ),
        (
            edited(TEXT, 7, "part", "logprobs", to=1),
            *(7, "part.logprobs is an integer, expected an array or null"),
        ),
        (
            edited(TEXT, 4, "logprobs", to=[{"token": "a", "logprob": 0, "top_logprobs": 1}]),
            *(4, "logprobs[0].top_logprobs is an integer, expected an array"),
        ),
        (
            edited(TEXT, 7, "part", to={"type": "output_text", "text": "Hello"}),
            *(7, "part.annotations is missing, expected an array"),
        ),
        (
            edited(TEXT, 7, "part", "logprobs", to=[{"logprob": 0}, {"token": "a", "logprob": 0}]),
            *(7, "part.logprobs[0].token is missing, expected a string"),
        ),
        (
            edited(SOURCED, 5, "annotation_index", to=None),
            *(5, "annotation_index is null, expected an integer from 0"),
        ),
        (
            settled(edited(TEXT, 8, "item", "content", to=None)),
            *(8, "item.content is null, expected an array"),
        ),
        (
            settled(edited(TEXT, 8, "item", "content", to=[1])),
            *(8, "item.content[0] is an integer, expected an object"),
        ),
        (
            settled(edited(SHELL, 6, "item", "action", to={})),
            *(6, "item.action.commands is missing, expected an array"),
        ),
        (
            settled(edited(SHELL, 6, "item", "action", to=1)),
            *(6, "item.action is an integer, expected an object"),
        ),
    ],
)
def test_value_of_a_wrong_type_is_one_violation(
    events: list[Event | str], at: int, message: str
) -> None:
    assert validate(sse(*events), "openai_responses") == [Violation(at, message)]

"""Requests of any shape that are compacted: our own errors, and no request without its trigger."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.bodies.compactions import FORGED, KEY, TRIGGER, sealed

from streamnorm import DecodeError
from streamnorm.state import StateError
from streamnorm.state.compaction import (
    Sealer,
    add_trigger,
    asks_for_compaction,
    compact_response,
    open_summaries,
    summary_request,
)

NAMES = st.sampled_from(["type", "role", "id", "call_id", "content", "encrypted_content"])
TYPES = st.sampled_from(
    [
        *("compaction", "compaction_trigger", "message", "function_call", "custom_tool_call"),
        *("function_call_output", "reasoning", "additional_tools", "x", ""),
    ]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TYPES
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=6,
)
SEALED = sealed("It snows.")
ITEMS = st.lists(
    st.sampled_from([TRIGGER, SEALED, {"role": "user", "content": "Hi"}])
    | st.fixed_dictionaries({"type": TYPES}, optional={"call_id": TYPES, "role": VALUES})
    | st.fixed_dictionaries(
        {"type": st.just("compaction"), "encrypted_content": st.sampled_from([*FORGED.values(), 5])}
    )
    | VALUES,
    max_size=6,
)
BODIES = st.fixed_dictionaries(
    {"model": st.just("m")},
    optional={
        "input": ITEMS | VALUES,
        "tools": VALUES,
        "text": VALUES,
        "stream": VALUES,
        "store": VALUES,
        "tool_choice": VALUES,
        "context_management": VALUES,
    },
)
SEALER = Sealer([KEY])


@given(BODIES, st.booleans(), st.booleans())
def test_any_request_is_summarized_or_refused(
    body: dict[str, Any], passes_others: bool, is_whole: bool
) -> None:
    before = json.dumps(body)
    try:
        request = add_trigger(body) if is_whole else body
        asks = asks_for_compaction(request)
        found = open_summaries(request, SEALER, passes_others=passes_others)
        summary = summary_request(found)
        answer = compact_response({"output": []}, body)
    except (DecodeError, StateError) as exc:
        refusal = str(exc)
    else:
        refusal = ""
    assert json.dumps(body) == before
    assert not any(text in refusal for text in FORGED.values() if len(text) > 20)
    if refusal:
        return
    assert asks or not is_whole
    assert SEALED["encrypted_content"] not in json.dumps(found)
    assert summary["stream"] is True
    assert summary["input"][-1]["role"] == "user"
    if asks:
        assert TRIGGER not in summary["input"]
    json.dumps(answer)

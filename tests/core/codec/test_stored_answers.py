"""How the answers of a dialect are stored, and what an answer says of that."""

from __future__ import annotations

from typing import Any

import pytest

from streamnorm._registry import DIALECTS

RESPONSE, INTERACTION = "openai_responses", "gemini_interactions"


@pytest.mark.parametrize(
    ("dialect", "id", "previous", "expected"),
    [
        (RESPONSE, "a", None, {"id": "a", "store": True, "previous_response_id": None}),
        (RESPONSE, "a", "b", {"id": "a", "store": True, "previous_response_id": "b"}),
        (RESPONSE, None, "b", {"store": False, "previous_response_id": "b"}),
        (INTERACTION, "a", None, {"id": "a"}),
        (INTERACTION, "a", "b", {"id": "a", "previous_interaction_id": "b"}),
        (INTERACTION, None, "b", {"id": "", "previous_interaction_id": "b"}),
        (INTERACTION, None, None, {"id": ""}),
    ],
)
def test_answer_says_whether_it_is_stored_and_what_it_continues(
    dialect: str, id: str | None, previous: str | None, expected: dict[str, Any]
) -> None:
    form = DIALECTS[dialect].stored
    assert form is not None
    assert form.answer_fields(id, previous) == expected


def test_items_of_interactions_refer_to_none() -> None:
    form = DIALECTS[INTERACTION].stored
    assert form is not None
    assert form.references([{"type": "item_reference", "id": "a"}]) == {}

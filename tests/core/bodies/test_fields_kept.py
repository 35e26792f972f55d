"""Fields of a body that stay as a client spelt them."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from streamnorm import Request
from streamnorm._core.bodies.fields import keep_fields
from streamnorm._core.bodies.request import Source

PARTS = {
    "limit": ("max_tokens",),
    "model": ("model",),
    "seed": ("seed",),
    "effort": ("reasoning",),
    "thinking": ("reasoning",),
}
BEFORE = {"thinking": {}, "model": "m", "x": 1, "limit": 5}


def kept(
    body: dict[str, Any],
    *,
    before: dict[str, Any] = BEFORE,
    **changes: Any,
) -> dict[str, Any]:
    part = Request(model="m", max_tokens=5)
    request = structs.replace(part, source=Source("d", before, part), **changes)
    return keep_fields(body, request, PARTS)


def test_unchanged_fields_are_spelt_and_stand_as_they_were() -> None:
    found = kept({"x": 1, "limit": 5.0, "model": "n", "added": 2}, model="n")
    assert list(found.items()) == [("thinking", {}), ("model", "n"), ("x", 1), ("limit", 5)]
    assert found["thinking"] is BEFORE["thinking"]


def test_changed_fields_are_those_that_were_written() -> None:
    found = kept({"model": "m", "seed": 7}, max_tokens=None, seed=7)
    assert found == {"thinking": {}, "model": "m", "x": 1, "seed": 7}


def test_field_that_is_no_longer_set_is_dropped() -> None:
    assert "limit" not in kept({"model": "m"}, max_tokens=None)

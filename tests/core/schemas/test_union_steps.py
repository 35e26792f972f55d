"""The cost of a union in a tool's schema."""

from __future__ import annotations

import pytest
from support.operation_counts import lines

from streamnorm._core.losses import Losses
from streamnorm._core.schemas.simplify import simplify_schema


@pytest.mark.parametrize("definitions", [False, True])
def test_a_union_of_values_takes_as_many_steps_for_each(definitions: bool) -> None:
    def steps(count: int) -> int:
        each = [{"const": f"v{number}"} for number in range(count)]
        defined = {f"d{number}": value for number, value in enumerate(each)}
        references = [{"$ref": f"#/$defs/{name}"} for name in defined]
        schema = {
            "type": "object",
            "properties": {"p": {"anyOf": references if definitions else each}},
        }
        return lines(
            lambda: simplify_schema({**schema, "$defs": defined}, Losses(), path="tools[0]")
        )

    steps(1)  # what is imported and cached at the first
    assert steps(800) < 9 * steps(100)

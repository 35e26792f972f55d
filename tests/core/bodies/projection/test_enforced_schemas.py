"""Bounds on the schemas that a provider enforces, of all tools and of the answer together."""

from __future__ import annotations

from typing import Any

import pytest
from support.bodies.projection_targets import Projection, request, user

from streamnorm import EncodeError, Loss, OutputFormat, Tool
from streamnorm._core.schemas.strict import EnforcedSchemas

TEXT = {"type": "string"}
CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}
OPEN = {**CLOSED, "properties": {"p": TEXT}}  # its property may be missing


def strict(name: str, schema: dict[str, Any] | None = None) -> Tool:
    return Tool(name, "Look.", schema or CLOSED, strict=True)


def projected(*tools: Tool, form: EnforcedSchemas, **more: Any) -> Projection:
    fields = {name: more.pop(name) for name in ("output",) if name in more}
    return Projection(request(user("Go"), tools=tools, **fields), enforced_schemas=form, **more)


def marks(done: Projection) -> list[bool | None]:
    return [tool.strict for tool in done.request.tools if isinstance(tool, Tool)]


def test_first_tools_take_the_bound_on_tools() -> None:
    done = projected(strict("f"), strict("g"), form=EnforcedSchemas(most_tools=1))
    assert marks(done) == [True, None]
    text = "not enforced: more than 1 tools of all strict schemas"
    assert done.losses == (Loss("strict", "tools", 1, text),)


def test_properties_that_are_not_required_count_for_all_tools() -> None:
    done = projected(strict("f", OPEN), strict("g", OPEN), form=EnforcedSchemas(most_optional=1))
    assert marks(done) == [True, None]


def test_schema_of_the_answer_counts_where_answers_are_enforced() -> None:
    form, output = EnforcedSchemas(most_optional=1), OutputFormat("json_schema", OPEN)
    both = projected(strict("f", OPEN), form=form, output=output, enforces_outputs=True)
    assert marks(both) == [None]
    free = projected(strict("f", OPEN), form=form, output=output)
    assert marks(free) == [True]


def test_schema_of_the_answer_is_no_tool() -> None:
    output = OutputFormat("json_schema", OPEN, strict=True)
    done = projected(form=EnforcedSchemas(most_tools=0), output=output, enforces_outputs=True)
    assert done.request.output == output
    with pytest.raises(EncodeError, match="more than 0 properties that are not required"):
        projected(form=EnforcedSchemas(most_optional=0), output=output, enforces_outputs=True)


def test_keyword_that_is_removed_is_a_loss() -> None:
    keywords = frozenset({"pattern"})
    schema = {**CLOSED, "properties": {"p": {**TEXT, "pattern": "a"}}}
    done = projected(strict("f", schema), form=EnforcedSchemas(refused=keywords, removed=keywords))
    assert marks(done) == [True]
    assert done.lost == {"schema.pattern": 1}


def test_schema_of_an_answer_that_is_no_object_is_refused() -> None:
    texts = OutputFormat("json_schema", {"type": "string"})
    with pytest.raises(EncodeError, match="a schema of an answer that is no object"):
        Projection(request(user("Go"), output=texts), output_schema_needs=frozenset({"object"}))
    unread = Projection(
        request(user("Go"), output=OutputFormat("text")), output_schema_needs={"object"}
    )
    assert unread.request.output == OutputFormat("text")

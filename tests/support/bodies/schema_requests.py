"""Requests of every dialect with one function or output, for a given schema."""

from __future__ import annotations

from typing import Any

__all__ = ["CLOSED", "OBJECT", "answering", "calling", "gemini_parameters", "gemini_response"]

OBJECT: dict[str, Any] = {"type": "object", "properties": {}}
"""The simplest schema of a function."""

CLOSED: dict[str, Any] = {"additionalProperties": False, "required": [], **OBJECT}
"""The simplest schema of a strict function."""

_TEXT = [{"role": "user", "content": "Hi"}]
_CONTENTS = [{"role": "user", "parts": [{"text": "Hi"}]}]


def calling(dialect: str, schema: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """Return a request in a dialect with a function `f`."""
    said = {} if strict is None else {"strict": strict}
    match dialect:
        case "openai_chat":
            function = {"name": "f", "parameters": schema, **said}
            return {"messages": _TEXT, "tools": [{"type": "function", "function": function}]}
        case "openai_responses":
            tool = {"type": "function", "name": "f", "parameters": schema, "strict": bool(strict)}
            return {"input": "Hi", "tools": [tool]}
        case "anthropic":
            tool = {"name": "f", "input_schema": schema, **said}
            return {"max_tokens": 64, "messages": _TEXT, "tools": [tool]}
        case _:
            return gemini_parameters(schema, field="parametersJsonSchema")


def answering(dialect: str, schema: Any, *, strict: bool | None = None) -> dict[str, Any]:
    """Return a request in a dialect with an output format `f`."""
    said = {} if strict is None else {"strict": strict}
    match dialect:
        case "openai_chat":
            output = {"name": "f", "schema": schema, **said}
            form = {"type": "json_schema", "json_schema": output}
            return {"messages": _TEXT, "response_format": form}
        case "openai_responses":
            form = {"type": "json_schema", "name": "f", "schema": schema, **said}
            return {"input": "Hi", "text": {"format": form}}
        case "anthropic":
            form = {"format": {"type": "json_schema", "schema": schema}}
            return {"max_tokens": 64, "messages": _TEXT, "output_config": form}
        case _:
            return gemini_response(schema, field="responseJsonSchema")


def gemini_parameters(schema: Any, *, field: str = "parameters") -> dict[str, Any]:
    """Return a Gemini request with a function whose schema is in a given field."""
    return {
        "contents": _CONTENTS,
        "tools": [{"functionDeclarations": [{"name": "f", field: schema}]}],
    }


def gemini_response(schema: Any, *, field: str = "responseSchema") -> dict[str, Any]:
    """Return a Gemini request with an output whose schema is in a given field."""
    config = {"responseMimeType": "application/json", field: schema}
    return {"contents": _CONTENTS, "generationConfig": config}

"""Checks of a request's options against Gemini's rules, and the table of all request checks.

https://ai.google.dev/api/generate-content (read 2026-11-23), and the errors that the API answers
with.

A check states what the vendor refuses.  It shares no code with the encoders and accepts any
JSON: other rules report values of a wrong type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from streamnorm._core.codec import Finding, RequestCheck, RequestFacts
from streamnorm._core.json import is_array, is_object
from streamnorm.dialects.gemini.body import validate_fields
from streamnorm.dialects.gemini.body.validate_fields import (
    Field,
    contents_of,
    declarations_of,
    elements_of,
    field_of,
    option_of,
    tools_of,
)

_CONFIG, _CALLING = "toolConfig", "functionCallingConfig"
_OPTIONS = "generationConfig"
_JSON = "application/json"
_SERVER_TOOLS = (
    "googleSearch",
    "googleSearchRetrieval",
    "googleMaps",
    "codeExecution",
    "fileSearch",
    "urlContext",
    "enterpriseWebSearch",
    "retrieval",
)
_ANY_MODES = frozenset({"ANY", "VALIDATED"})
_MAX_FUNCTIONS = 512


def _server_tools(facts: RequestFacts) -> list[Field]:
    return [
        field
        for tool in tools_of(facts.body)
        for name in _SERVER_TOOLS
        if (field := field_of(tool.value, name, tool.path, tool.location)).value is not None
    ]


def _has_functions(facts: RequestFacts) -> bool:
    return any(True for _ in declarations_of(facts.body))


def _has_flag(facts: RequestFacts) -> bool:
    """Return whether the request sets `includeServerSideToolInvocations` to true."""
    return option_of(facts.body, _CONFIG, "includeServerSideToolInvocations").value is True


def functions_beside_tools(facts: RequestFacts) -> Iterator[Finding]:
    """Yield server tools of a request that also has functions."""
    if _has_functions(facts):
        for field in _server_tools(facts):
            yield Finding(field.path)


def tools_without_flag(facts: RequestFacts) -> Iterator[Finding]:
    """Yield server tools of a request that has functions, but no flag for server tool calls."""
    if not _has_flag(facts):
        yield from functions_beside_tools(facts)


def lone_config(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a `functionCallingConfig` in a request without functions."""
    field = option_of(facts.body, _CONFIG, _CALLING)
    if is_object(field.value) and not _has_functions(facts) and not _has_flag(facts):
        yield Finding(field.path)


def allowed_names(facts: RequestFacts) -> Iterator[Finding]:
    """Yield `allowedFunctionNames` in a mode other than ANY and VALIDATED."""
    names = option_of(facts.body, _CONFIG, _CALLING, "allowedFunctionNames")
    mode = option_of(facts.body, _CONFIG, _CALLING, "mode").value
    if not is_array(names.value) or not names.value or not isinstance(mode, str | None):
        return
    if (mode or "").upper() not in _ANY_MODES:
        yield Finding(names.path)


def function_names(facts: RequestFacts) -> Iterator[Finding]:
    """Yield function declarations without a name."""
    for declaration in declarations_of(facts.body):
        name = field_of(declaration.value, "name", declaration.path, declaration.location)
        if name.value is None:
            yield Finding(name.path, context=name.location)


def duplicate_functions(facts: RequestFacts) -> Iterator[Finding]:
    """Yield functions with the name of an earlier function."""
    seen: set[str] = set()
    for declaration in declarations_of(facts.body):
        name = declaration.value.get("name")
        if isinstance(name, str):
            if name in seen:
                yield Finding(f"{declaration.path}.name", name)
            seen.add(name)


def max_functions(facts: RequestFacts) -> Iterator[Finding]:
    """Yield tools with more functions than the vendor accepts."""
    for tool in tools_of(facts.body):
        declared = field_of(tool.value, "functionDeclarations", tool.path, tool.location)
        count = sum(1 for _ in elements_of(declared))
        if count > _MAX_FUNCTIONS:
            yield Finding(
                declared.path, count=count, limit=_MAX_FUNCTIONS, context=declared.location
            )


def parameters_twice(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a function's JSON Schema if the function also has Google's `Schema`."""
    for declaration in declarations_of(facts.body):
        for name in ("parameters", "response"):
            schema = field_of(declaration.value, name, declaration.path, declaration.location)
            other = field_of(
                declaration.value, f"{name}JsonSchema", declaration.path, declaration.location
            )
            if schema.value is not None and other.value is not None:
                yield Finding(other.path, context=declaration.location)


def output_schemas(facts: RequestFacts) -> Iterator[Finding]:
    """Yield the output's JSON Schema if the request also has Google's `Schema`."""
    schema = option_of(facts.body, _OPTIONS, "responseSchema")
    other = option_of(facts.body, _OPTIONS, "responseJsonSchema")
    if schema.value is not None and other.value is not None:
        yield Finding(other.path)


def output_beside_functions(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a JSON output format of a request that has functions."""
    field = option_of(facts.body, _OPTIONS, "responseMimeType")
    if field.value == _JSON and _has_functions(facts):
        yield Finding(field.path, field.value)


def output_beside_tools(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a JSON output format of a request with server tools but no functions."""
    field = option_of(facts.body, _OPTIONS, "responseMimeType")
    if field.value == _JSON and _server_tools(facts) and not _has_functions(facts):
        yield Finding(field.path, field.value)


def budget_and_level(facts: RequestFacts) -> Iterator[Finding]:
    """Yield a `thinkingBudget` in a request that also has a `thinkingLevel`."""
    budget = option_of(facts.body, _OPTIONS, "thinkingConfig", "thinkingBudget")
    level = option_of(facts.body, _OPTIONS, "thinkingConfig", "thinkingLevel")
    if budget.value is not None and level.value is not None:
        yield Finding(budget.path)


def cached_fields(facts: RequestFacts) -> Iterator[Finding]:
    """Yield fields that are illegal beside `cachedContent`, whose cache holds them."""
    if option_of(facts.body, "cachedContent").value is not None:
        for name in ("systemInstruction", "tools", _CONFIG):
            field = option_of(facts.body, name)
            if field.value is not None and field.value != []:
                yield Finding(field.path)


# Types that the API has refused; types that are not listed may be accepted.
_OFFICE = ("application/msword", "application/vnd.ms-", "application/vnd.openxmlformats-")
_REFUSED_TYPES = frozenset({"image/bmp", "image/gif", "image/jpg", "image/svg+xml", "image/tiff"})


def image_types(facts: RequestFacts) -> Iterator[Finding]:
    """Yield inline images of a type that the API refuses."""
    return _find_types(facts, lambda kind: kind in _REFUSED_TYPES)


def document_types(facts: RequestFacts) -> Iterator[Finding]:
    """Yield inline files of an office program, none of which the API reads."""
    return _find_types(facts, lambda kind: kind.startswith(_OFFICE))


def _find_types(facts: RequestFacts, is_refused: Callable[[str], bool]) -> Iterator[Finding]:
    for content in contents_of(facts.body):
        for part in content.with_data("inlineData"):
            file = part.data["inlineData"]
            if is_object(file.value):
                kind = field_of(file.value, "mimeType", file.path)
                if isinstance(kind.value, str) and is_refused(kind.value.lower()):
                    yield Finding(kind.path, kind.value)


_CHECKS: Mapping[str, RequestCheck] = {
    check.__name__: check
    for check in (
        allowed_names,
        budget_and_level,
        cached_fields,
        document_types,
        duplicate_functions,
        function_names,
        functions_beside_tools,
        image_types,
        lone_config,
        max_functions,
        output_beside_functions,
        output_beside_tools,
        output_schemas,
        parameters_twice,
        tools_without_flag,
        validate_fields.arguments,
        validate_fields.call_ids,
        validate_fields.encodings,
        validate_fields.fields_of_gemini,
        validate_fields.fields_of_vertex,
        validate_fields.messages,
        validate_fields.mode_words,
        validate_fields.thinking_words,
        validate_fields.unknown_fields,
        validate_fields.call_turns,
        validate_fields.empty_contents,
        validate_fields.empty_parts,
        validate_fields.last_turn,
        validate_fields.missing_contents,
        validate_fields.part_data,
        validate_fields.placeholders,
        validate_fields.response_counts,
        validate_fields.response_media,
        validate_fields.response_turns,
        validate_fields.roles,
        validate_fields.signatures,
    )
}


def request_checks() -> Mapping[str, RequestCheck]:
    """Return all request checks of Gemini by name."""
    return _CHECKS

"""Validation of request bodies by the types of the official SDKs.

Pydantic alone proves little here: it allows unknown keys in a `TypedDict`, never looks into an
`Iterable`, and takes a block for one of the response models that some unions also hold.  The
types of OpenAI and Anthropic are therefore walked one by one; those of google-genai are models
that forbid unknown keys themselves.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import json
import types
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, NotRequired, Required, Union, get_args, get_origin

import typing_extensions
from anthropic.types import message_create_params as anthropic_types
from anthropic.types.beta import message_create_params as anthropic_beta_types
from google.genai import types as genai
from google.genai._gaos.types.basemodel import UnrecognizedStr
from google.genai._gaos.types.interactions.createmodelinteraction import (
    CreateModelInteractionParam,
)
from openai.types.chat import completion_create_params as chat_types
from openai.types.responses import response_create_params as responses_types
from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_camel

from support.bedrock_converse.bodies import request_problems

__all__ = [
    "bare_type",
    "is_in_memory",
    "problems",
    "problems_of_type",
    "request_type",
    "typed_dict_fields",
]

# The modules have one type for requests of streams and one for all others.
_MODULES: dict[str, tuple[Any, str]] = {
    "openai_chat": (chat_types, "CompletionCreateParams"),
    "openai_responses": (responses_types, "ResponseCreateParams"),
    "anthropic": (anthropic_types, "MessageCreateParams"),
    "anthropic_beta": (anthropic_beta_types, "MessageCreateParams"),
}
_ARRAYS = (list, collections.abc.Iterable, collections.abc.Sequence)
_SCALARS: dict[Any, tuple[type, ...]] = {
    str: (str,),
    bool: (bool,),
    int: (int,),
    float: (int, float),
    type(None): (type(None),),
}
# Fields that tell the types of a union apart.
_DISCRIMINATORS = ("type", "role")


def problems(dialect: str, body: dict[str, Any], *, beta: bool = False) -> list[str]:
    """Return the problems of a request by the SDK's types, each with its path.

    Args:
        dialect: Name of the dialect.
        body: The decoded body.
        beta: Whether the body may use Anthropic's betas, whose names stand in a header.
    """
    if dialect == "gemini":
        return _problems_of_model(_GenerateContent, body)
    if dialect == "bedrock_converse":
        return request_problems(body).splitlines()
    if dialect == "gemini_interactions":
        return problems_of_type(CreateModelInteractionParam, body)
    expected = request_type(dialect, beta=beta, stream=body.get("stream") is True)
    # Betas are a header; the SDK has them beside the fields of the body.
    unsent = [f"$.{key}: sent as a header" for key in ("betas", "extra_headers") if key in body]
    return unsent + problems_of_type(expected, body)


def request_type(dialect: str, *, beta: bool = False, stream: bool = False) -> Any:
    """Return the SDK's request type of a dialect."""
    if dialect == "gemini":
        return _GenerateContent
    if dialect == "gemini_interactions":
        return CreateModelInteractionParam
    module, name = _MODULES["anthropic_beta" if beta and dialect == "anthropic" else dialect]
    return getattr(module, name + ("Streaming" if stream else "NonStreaming"))


def problems_of_type(expected: Any, value: object, path: str = "$") -> list[str]:
    """Return the problems of a JSON value by a type of an SDK."""
    expected = bare_type(expected)
    if expected is Any or expected is object:
        return []
    if typing_extensions.is_typeddict(expected):
        return _problems_of_object(expected, value, path)
    origin, inner = get_origin(expected), get_args(expected)
    if origin in (Union, types.UnionType):
        return _problems_of_union(inner, value, path)
    if origin is Literal:
        same = any(type(value) is type(word) and value == word for word in inner)
        return [] if same else [f"{path}: not one of the words of the type"]
    if origin in _ARRAYS or getattr(origin, "__name__", "") == "SequenceNotStr":
        if not isinstance(value, list):
            return [f"{path}: no array"]
        parts = (problems_of_type(inner[0], v, f"{path}[{i}]") for i, v in enumerate(value))
        return [problem for part in parts for problem in part]
    if origin in (dict, collections.abc.Mapping):
        if not isinstance(value, dict):
            return [f"{path}: no object"]
        parts = (problems_of_type(inner[1], v, f"{path}.{key}") for key, v in value.items())
        return [problem for part in parts for problem in part]
    if expected in _SCALARS:
        fits = isinstance(value, _SCALARS[expected])
        if isinstance(value, bool) and expected is not bool:
            fits = False
        return [] if fits else [f"{path}: no {expected.__name__}"]
    if expected is UnrecognizedStr:  # of google-genai: any word that its client does not know
        return [] if isinstance(value, str) else [f"{path}: no str"]
    if is_in_memory(expected):
        return [f"{path}: no JSON"]
    raise TypeError(f"{expected!r} at {path}, expected a type of JSON values")


def bare_type(expected: Any) -> Any:
    """Return a type without aliases and qualifiers."""
    while True:
        if get_origin(expected) in (Required, NotRequired, typing_extensions.Annotated):
            expected = get_args(expected)[0]
        elif isinstance(expected, typing_extensions.TypeAliasType):
            expected = expected.__value__
        else:
            return expected


def is_in_memory(expected: Any) -> bool:
    """Return whether a type has only Python objects, such as open files."""
    origin = get_origin(expected) or expected
    return inspect.isclass(origin) and (
        issubclass(origin, BaseModel | bytes) or origin.__name__ in ("IO", "PathLike")
    )


class _Fields(NamedTuple):
    types: dict[str, Any]
    required: frozenset[str]
    words: dict[str, tuple[Any, ...]]


@functools.cache
def typed_dict_fields(expected: Any) -> _Fields:
    """Return the fields of a `TypedDict`.

    Its own account of what is required is wrong where annotations are strings.
    """
    hints = typing_extensions.get_type_hints(expected, include_extras=True)
    required = {
        name
        for name, hint in hints.items()
        if get_origin(hint) is Required
        or (name in expected.__required_keys__ and get_origin(hint) is not NotRequired)
    }
    bare = {name: bare_type(hint) for name, hint in hints.items()}
    words = {
        name: get_args(bare[name])
        for name in _DISCRIMINATORS
        if name in bare and get_origin(bare[name]) is Literal
    }
    return _Fields(bare, frozenset(required), words)


def _problems_of_object(expected: Any, value: object, path: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{path}: no object"]
    fields = typed_dict_fields(expected)
    found = [f"{path}.{name}: missing" for name in sorted(fields.required - value.keys())]
    for name, item in value.items():
        if not fields.types:  # any object
            break
        if name not in fields.types:
            found.append(f"{path}.{name}: unknown key of {expected.__name__}")
        else:
            found += problems_of_type(fields.types[name], item, f"{path}.{name}")
    return found


def _problems_of_union(members: Iterable[Any], value: object, path: str) -> list[str]:
    """Return the problems by the best-fitting union member; [] if one fits."""
    bare = [bare_type(member) for member in members]
    if isinstance(value, dict):
        bare = [member for member in bare if _has_discriminators_of(member, value)] or bare
    candidates = [problems_of_type(member, value, path) for member in bare]
    return min(
        candidates,
        key=lambda found: (any(text.startswith(f"{path}:") for text in found), len(found)),
    )


def _has_discriminators_of(expected: Any, value: Mapping[str, Any]) -> bool:
    if not typing_extensions.is_typeddict(expected):
        return True
    words = typed_dict_fields(expected).words
    return all(value[name] in words[name] for name in words if name in value)


class _GenerationConfig(genai.GenerationConfig):
    # The SDK has these among the options of a call, and sends them within this object.
    image_config: genai.ImageConfig | None = None
    continuation_token: str | None = None
    generation_output_config: genai.GenerationOutputConfig | None = None


class _GenerateContent(BaseModel, extra="forbid", alias_generator=to_camel):
    contents: list[genai.Content]
    system_instruction: genai.Content | None = None
    tools: list[genai.Tool] | None = None
    tool_config: genai.ToolConfig | None = None
    generation_config: _GenerationConfig | None = None
    safety_settings: list[genai.SafetySetting] | None = None
    cached_content: str | None = None
    labels: dict[str, str] | None = None
    service_tier: genai.ServiceTier | None = None
    store: bool | None = None


def _problems_of_model(model: type[BaseModel], body: dict[str, Any]) -> list[str]:
    try:
        model.model_validate_json(json.dumps(body), strict=True)
    except ValidationError as exc:
        return [
            "$"
            + "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in error["loc"])
            + f": {error['msg']}"
            for error in exc.errors()
        ]
    return []

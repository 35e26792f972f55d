"""Lists of models: every dialect's to every other, and the pages of both."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.example_dialect.dialect import TELEGRAPH
from support.example_dialect.registration import registered

from streamnorm import DecodeError, EncodeError, Limits, UnknownDialect, UpstreamError
from streamnorm._auxiliary import (
    MAX_MODELS,
    ModelListing,
    decode_model,
    encode_model,
    encode_models,
    model_path,
)
from streamnorm._core.bodies.models import ModelInfo

RELEASED = 1_739_923_200

# What each vendor says of a model of which everything is known, and of one that has a name alone.
FULL = ModelInfo(
    "m-1",
    name="Model 1",
    created=RELEASED,
    retires=RELEASED + 86_400,
    owner="acme",
    max_input_tokens=200_000,
    max_output_tokens=64_000,
)
BARE = ModelInfo("m-2")
_OPENAI = [
    {
        "id": "m-1",
        "object": "model",
        "created": RELEASED,
        "owned_by": "acme",
        "shutdown_date": "2025-02-20",
    },
    {"id": "m-2", "object": "model", "created": 0, "owned_by": ""},
]
ENTRIES: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {
            "type": "model",
            "id": "m-1",
            "display_name": "Model 1",
            "created_at": "2025-02-19T00:00:00Z",
            "lifecycle": "deprecated",
            "retires_at": "2025-02-20T00:00:00Z",
            "max_input_tokens": 200_000,
            "max_tokens": 64_000,
        },
        {
            "type": "model",
            "id": "m-2",
            "display_name": "m-2",
            "created_at": "1970-01-01T00:00:00Z",
            "lifecycle": "active",
        },
    ],
    "openai_chat": _OPENAI,
    "openai_responses": _OPENAI,
    "gemini": [
        {
            "name": "models/m-1",
            "displayName": "Model 1",
            "inputTokenLimit": 200_000,
            "outputTokenLimit": 64_000,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        },
        {
            "name": "models/m-2",
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        },
    ],
}
LISTS: dict[str, dict[str, Any]] = {
    "anthropic": {
        "data": ENTRIES["anthropic"],
        "has_more": False,
        "first_id": "m-1",
        "last_id": "m-2",
    },
    "openai_chat": {"object": "list", "data": _OPENAI},
    "openai_responses": {"object": "list", "data": _OPENAI},
    "gemini": {"models": ENTRIES["gemini"]},
    "gemini_interactions": {"models": ENTRIES["gemini"]},
}
ENTRIES["gemini_interactions"] = ENTRIES["gemini"]
# The attributes that each vendor has a field for.
SAID = {
    "anthropic": {"name", "created", "retires", "max_input_tokens", "max_output_tokens"},
    "openai_chat": {"created", "retires", "owner"},
    "openai_responses": {"created", "retires", "owner"},
    "gemini": {"name", "max_input_tokens", "max_output_tokens"},
    "gemini_interactions": {"name", "max_input_tokens", "max_output_tokens"},
}


def listed(body: object, dialect: str) -> list[ModelInfo]:
    listing = ModelListing(dialect)
    listing.add(json.dumps(body).encode())
    assert listing.next_path is None
    return listing.models


def written(models: list[ModelInfo], dialect: str, **options: Any) -> dict[str, Any]:
    return encode_models(models, dialect, **options).body


@pytest.mark.parametrize("dialect", LISTS)
def test_list_is_written_in_every_dialect(dialect: str) -> None:
    assert written([FULL, BARE], dialect) == LISTS[dialect]
    assert encode_model(FULL, dialect).body == ENTRIES[dialect][0]


@pytest.mark.parametrize("dialect", LISTS)
def test_list_is_read_of_every_dialect(dialect: str) -> None:
    full, bare = listed(LISTS[dialect], dialect)
    assert full.id == "m-1"
    assert bare.id == "m-2"
    for attribute in ModelInfo.__struct_fields__[1:-1]:
        value = getattr(FULL, attribute) if attribute in SAID[dialect] else None
        assert getattr(full, attribute) == value, attribute
    assert decode_model(ENTRIES[dialect][0], dialect) == full


@pytest.mark.parametrize("target", LISTS)
@pytest.mark.parametrize("source", LISTS)
def test_list_of_one_vendor_is_one_of_another(source: str, target: str) -> None:
    """What both vendors have fields for arrives, and nothing else is claimed."""
    models = listed(LISTS[source], source)
    known = SAID[source] & SAID[target]
    part = ModelInfo("m-1", **{name: getattr(FULL, name) for name in known})
    entry = written(models, target)[next(iter({"data", "models"} & LISTS[target].keys()))][0]
    expected = ENTRIES[target][0] if source == target else encode_model(part, target).body
    assert entry == expected


OWN_FIELDS: dict[str, dict[str, Any]] = {
    "anthropic": {"id": "m", "type": "model", "display_name": "M", "line": None, "new": [1]},
    "openai_chat": {"id": "m", "owned_by": "vllm", "permission": [], "max_model_len": 8},
    "openai_responses": {"id": "m", "created": 1_700_000_000_000, "owned_by": None},
    "gemini": {"name": "models/m", "version": "001", "supportedGenerationMethods": ["x"]},
}


@pytest.mark.parametrize("dialect", OWN_FIELDS)
def test_model_of_the_same_dialect_keeps_all_its_fields(dialect: str) -> None:
    value = OWN_FIELDS[dialect]
    model = decode_model(value, dialect)
    assert encode_model(model, dialect).body == value
    alias = {"name": "models/x"} if dialect == "gemini" else {"id": "x"}
    assert encode_model(model, dialect, id="x").body == {**value, **alias}


def test_tuned_model_of_gemini_keeps_its_name() -> None:
    value = {"name": "tunedModels/t", "displayName": "T"}
    model = decode_model(value, "gemini")
    assert model.id == "tunedModels/t"
    assert encode_model(model, "gemini").body == value


@pytest.mark.parametrize("field", ["max_model_len", "context_length", "context_window"])
def test_context_of_compatible_servers_is_read(field: str) -> None:
    for dialect in ("openai_chat", "openai_responses"):
        model = decode_model({"id": "m", field: 32_768, "name": "Model M"}, dialect)
        assert model.max_input_tokens == 32_768
        assert model.name == "Model M"
        assert encode_model(model, "gemini").body["inputTokenLimit"] == 32_768


@pytest.mark.parametrize("dialect", LISTS)
def test_models_are_listed_by_the_names_of_the_map(dialect: str) -> None:
    model_map = {"claude-x": "m-1", "claude-y": "elsewhere"}
    named = listed(written([FULL, BARE], dialect, model_map=model_map), dialect)
    assert [model.id for model in named] == ["claude-x", "m-1", "m-2", "claude-y"]
    assert {model.name for model in named} <= {"Model 1", None, "m-2", "claude-y"}
    assert named[0].created == named[1].created


# Pages of the server


def test_pages_of_anthropic_are_read_to_the_end() -> None:
    listing = ModelListing("anthropic")
    assert listing.next_path == "/v1/models?limit=1000"
    listing.add({"data": [{"id": "a"}, {"id": "b"}], "has_more": True, "last_id": "b"})
    assert listing.next_path == "/v1/models?limit=1000&after_id=b"
    listing.add({"data": [{"id": "b"}, {"id": "c/ä"}], "has_more": True, "last_id": "c/ä"})
    assert listing.next_path == "/v1/models?limit=1000&after_id=c%2F%C3%A4"
    listing.add({"data": [{"id": "d"}], "has_more": False, "last_id": "d"})
    assert listing.next_path is None
    assert [model.id for model in listing.models] == ["a", "b", "c/ä", "d"]


def test_pages_of_gemini_are_read_to_the_end() -> None:
    listing = ModelListing("gemini")
    assert listing.next_path == "/v1beta/models?pageSize=1000"
    listing.add({"models": [{"name": "models/a"}], "nextPageToken": "t"})
    assert listing.next_path == "/v1beta/models?pageSize=1000&pageToken=t"
    listing.add({"models": [{"name": "models/b"}], "nextPageToken": ""})
    assert listing.next_path is None
    assert [model.id for model in listing.models] == ["a", "b"]


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_list_of_openai_has_one_page(dialect: str) -> None:
    listing = ModelListing(dialect)
    assert listing.next_path == "/v1/models"
    listing.add({"object": "list", "data": [{"id": "a"}], "has_more": True, "last_id": "a"})
    assert listing.next_path is None


@pytest.mark.parametrize("last", [{}, {"last_id": None}, {"last_id": 5}, {"last_id": ""}])
def test_page_that_names_no_next_one_is_the_last(last: dict[str, Any]) -> None:
    listing = ModelListing("anthropic")
    listing.add({"data": [{"id": "a"}], "has_more": True, **last})
    assert listing.next_path is None


def test_server_that_repeats_a_page_ends_the_list() -> None:
    listing = ModelListing("anthropic")
    page = {"data": [{"id": "a"}], "has_more": True, "last_id": "a"}
    listing.add(page)
    assert listing.next_path is not None
    listing.add(page)
    assert listing.next_path is None


def test_number_of_models_is_bounded() -> None:
    for count, fits in ((MAX_MODELS, True), (MAX_MODELS + 1, False)):
        listing = ModelListing("openai_chat")
        body = {"data": [{"id": str(number)} for number in range(count)]}
        if fits:
            listing.add(body)
            continue
        with pytest.raises(DecodeError, match="10001 models, expected at most 10000"):
            listing.add(body)


# Pages of the client


def test_client_of_anthropic_pages_through_the_list() -> None:
    models = [ModelInfo(str(number)) for number in range(25)]
    first = written(models, "anthropic")
    assert (len(first["data"]), first["has_more"], first["last_id"]) == (20, True, "19")
    second = written(models, "anthropic", query={"after_id": "19", "limit": "1000"})
    assert (len(second["data"]), second["has_more"], second["first_id"]) == (5, False, "20")
    before = written(models, "anthropic", query={"before_id": "3", "limit": "2"})
    assert ([m["id"] for m in before["data"]], before["has_more"]) == (["1", "2"], True)
    assert written([], "anthropic") == {
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    }


def test_client_of_gemini_pages_through_the_list() -> None:
    models = [ModelInfo(str(number)) for number in range(51)]
    first = written(models, "gemini")
    assert len(first["models"]) == 50
    last = written(models, "gemini", query={"pageToken": first["nextPageToken"]})
    assert [m["name"] for m in last["models"]] == ["models/50"]
    assert "nextPageToken" not in last
    whole = written(models, "gemini", query={"pageSize": "1000", "pageToken": ""})
    assert len(whole["models"]) == 51


@pytest.mark.parametrize(
    ("dialect", "query"),
    [
        ("anthropic", {"limit": "many"}),
        ("anthropic", {"after_id": "gone"}),
        ("gemini", {"pageSize": "-5"}),
        ("gemini", {"pageToken": "gone"}),
    ],
)
def test_query_that_names_no_page_is_refused(dialect: str, query: dict[str, str]) -> None:
    with pytest.raises(DecodeError):
        encode_models([FULL], dialect, query=query)


# Paths, errors


@pytest.mark.parametrize(
    ("dialect", "model", "path"),
    [
        ("anthropic", "claude-opus-4-5@20251101", "/v1/models/claude-opus-4-5@20251101"),
        ("openai_chat", "meta/llama ä", "/v1/models/meta%2Fllama%20%C3%A4"),
        ("openai_responses", "gpt", "/v1/models/gpt"),
        ("gemini", "gemini-x", "/v1beta/models/gemini-x"),
    ],
)
def test_path_of_a_model(dialect: str, model: str, path: str) -> None:
    assert model_path(dialect, model) == path


@pytest.mark.parametrize("model", ["", ".", ".."])
def test_name_that_no_path_can_have_is_refused(model: str) -> None:
    with pytest.raises(EncodeError, match="no name that a path can have"):
        model_path("anthropic", model)


@pytest.mark.parametrize("dialect", LISTS)
@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "no such key", "type": "authentication_error"}},
        {"type": "error", "error": {"type": "authentication_error", "message": "no such key"}},
        {"error": {"code": 401, "message": "no such key", "status": "UNAUTHENTICATED"}},
    ],
)
def test_error_of_any_vendor_is_the_providers(dialect: str, body: dict[str, Any]) -> None:
    with pytest.raises(UpstreamError, match="no such key"):
        ModelListing(dialect).add(body)
    with pytest.raises(UpstreamError, match="no such key"):
        decode_model(body, dialect)


@pytest.mark.parametrize("dialect", LISTS)
@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"data":5,"models":5}', b"\xff"])
def test_body_that_is_no_list_is_refused(dialect: str, body: bytes) -> None:
    with pytest.raises(DecodeError):
        ModelListing(dialect).add(body)
    with pytest.raises(DecodeError):
        decode_model(body, dialect)


def test_bounds_hold_for_lists_and_models() -> None:
    small = Limits(max_event_bytes=10)
    with pytest.raises(DecodeError, match="expected at most 10"):
        ModelListing("anthropic", limits=small).add(b'{"data": []}')
    with pytest.raises(DecodeError, match="expected at most 10"):
        decode_model(b'{"id": "m-1"}', "anthropic", limits=small)


def test_dialect_without_lists_is_refused() -> None:
    with (
        registered(TELEGRAPH),
        pytest.raises(UnknownDialect, match="no lists of models in dialect 'telegraph'"),
    ):
        ModelListing("telegraph")
    with pytest.raises(UnknownDialect):
        encode_models([], "ag_ui")


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_codex_finds_no_catalog_of_its_own_in_a_list(dialect: str) -> None:
    """Without the field `models` it reports that no list was refreshed."""
    body = written([BARE], dialect, query={"client_version": "0.169.0"})
    assert body == {"object": "list", "data": [_OPENAI[1]], "models": []}

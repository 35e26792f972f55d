"""Model lists: unified entries, their fields in each vendor's format, and paging."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct, structs

from streamnorm._core.bodies.fields import get_objects, prefix_path, require_str
from streamnorm._core.errors import DecodeError
from streamnorm._core.json import count_of

_LAST_SECOND = 253_402_300_799  # end of the year 9999, the last that `datetime` can write


class ModelInfo(Struct, frozen=True):
    """One entry of a model list.

    Attributes:
        id: Name in requests.
        name: Name for people; None = not said.
        created: Release date, in seconds since 1970; None = not said.
        retires: Shutdown date, in seconds since 1970; None = not said.
        owner: Organisation that offers the model; None = not said.
        max_input_tokens: Size of the context; None = not said.
        max_output_tokens: Bound on the tokens of an answer; None = not said.
        original: The vendor's object, by dialect.
    """

    id: str
    name: str | None = None
    created: int | None = None
    retires: int | None = None
    owner: str | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    original: dict[str, dict[str, Any]] = {}


class ModelPage(NamedTuple):
    """One page of a model list.

    Attributes:
        models: The models.
        next_query: Query of the next page; None if this is the last one.
    """

    models: list[ModelInfo]
    next_query: dict[str, str] | None = None


def apply_model_map(models: Sequence[ModelInfo], model_map: Mapping[str, str]) -> list[ModelInfo]:
    """Return a server's models, listed under the aliases that clients may request.

    A model is listed under each alias, then under its own name, unless that name is an alias of
    another model.  Aliases of models that the server does not list come last, without details.

    Args:
        models: The models of the server.
        model_map: Name of a model on the server, by its alias.
    """
    aliases: dict[str, list[str]] = {}
    for alias, name in model_map.items():
        aliases.setdefault(name, []).append(alias)
    named: dict[str, ModelInfo] = {}
    for model in models:
        for name in aliases.pop(model.id, ()):
            named.setdefault(name, structs.replace(model, id=name))
        if model.id not in model_map:
            named.setdefault(model.id, model)
    for names in aliases.values():
        for name in names:
            named.setdefault(name, ModelInfo(name))
    return list(named.values())


# Fields of one model

_Attribute: TypeAlias = Literal[
    "name", "created", "retires", "owner", "max_input_tokens", "max_output_tokens"
]


class ModelField(NamedTuple):
    """Mapping of one field of the vendor's model object to an attribute of `ModelInfo`.

    Attributes:
        attribute: Name of the attribute.
        read: Function from the field to the attribute; returns None for another type.
        write: Function from the attribute to the field; None if the field is only read.
    """

    attribute: _Attribute
    read: Callable[[object], Any]
    write: Callable[[Any], Any] | None = None


def model_from_wire(
    value: dict[str, Any], dialect: str, id_field: str, fields: Mapping[str, ModelField]
) -> ModelInfo:
    """Return a model from a vendor's object.

    Args:
        value: The vendor's object.
        dialect: Name of the vendor's dialect.
        id_field: Field with the name of the model.
        fields: Other fields to read; of two with one attribute the first wins.

    Raises:
        DecodeError: The name of the model is missing or empty.
    """
    id = require_str(value, id_field)
    if not id:
        raise DecodeError("empty, expected the name of a model", path=f"$.{id_field}")
    known: dict[str, Any] = {}
    for field, (attribute, read, _) in fields.items():
        if known.get(attribute) is None:
            known[attribute] = read(value.get(field))
    return ModelInfo(id, **known, original={dialect: value})


def model_to_wire(model: ModelInfo, fields: Mapping[str, ModelField]) -> dict[str, Any]:
    """Return the vendor's fields for the attributes of a model that are not None."""
    return {
        field: write(value)
        for field, (attribute, _, write) in fields.items()
        if write is not None and (value := getattr(model, attribute)) is not None
    }


def text(value: object) -> str | None:
    """Return `value` if it is a non-empty string, else None."""
    return value if isinstance(value, str) and value else None


def seconds(value: object) -> int | None:
    """Return `value` if it is a count of seconds since 1970, up to the year 9999; else None."""
    count = count_of(value)
    return None if count is None or count > _LAST_SECOND else count


def seconds_of_text(value: object) -> int | None:
    """Parse an RFC 3339 date, or date and time, to seconds since 1970; None if it is invalid."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return seconds(int(moment.timestamp()))
    except (ValueError, OverflowError):
        return None


def rfc3339_text(moment: int) -> str:
    """Format seconds since 1970 as `2026-11-23T12:00:00Z`."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def date_text(moment: int) -> str:
    """Format seconds since 1970 as a date, such as `2026-11-23`."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")


# Lists and their pages


def models_in(
    body: dict[str, Any], field: str, read: Callable[[dict[str, Any]], ModelInfo]
) -> list[ModelInfo]:
    """Return the models in a list response.

    Args:
        body: Body of the list.
        field: Field with the array of models.
        read: Function that returns one model.

    Raises:
        DecodeError: The array is missing, or a model has no name.
    """
    if body.get(field) is None:
        raise DecodeError("missing, expected an array", path=f"$.{field}")
    models: list[ModelInfo] = []
    for path, value in get_objects(body, field):
        try:
            models.append(read(value))
        except DecodeError as exc:
            raise prefix_path(exc, path) from None
    return models


def page_size(query: Mapping[str, str], field: str, default: int, most: int) -> int:
    """Return the page size that a query asks for, bounded by `most`.

    Raises:
        DecodeError: The query asks for no positive integer.
    """
    asked = query.get(field)
    if asked is None:
        return default
    if not asked.isascii() or not asked.isdecimal() or len(asked) > 9 or int(asked) < 1:
        raise DecodeError("no number from 1 on, expected one", path=field)
    return min(int(asked), most)


def page_of(
    models: Sequence[ModelInfo],
    size: int,
    *,
    after: str | None = None,
    before: str | None = None,
) -> tuple[Sequence[ModelInfo], bool]:
    """Return one page of models, and whether more models follow in the paging direction.

    Args:
        models: All models.
        size: Number of models of a page.
        after: Id of the last model before the page; None = the first page.
        before: Id of the first model after the page, if `after` is None.

    Raises:
        DecodeError: No model has that id.
    """
    ids = [model.id for model in models]
    cursor = before if after is None else after
    if cursor is None:
        start = 0
    elif cursor not in ids:
        raise DecodeError("no model of the list, expected one", path="cursor")
    elif after is None:
        end = ids.index(cursor)
        return models[max(0, end - size) : end], end > size
    else:
        start = ids.index(cursor) + 1
    return models[start : start + size], start + size < len(models)


# The lists of one dialect


class Pages(NamedTuple):
    """The paging parameters of a model list request.

    Attributes:
        size: Parameter with the number of models of a page.
        default_size: Number of models of a page if the query has none.
        max_size: Bound on the number of models of a page.
        after: Parameter with the cursor of the next page, which is an id.
        before: Parameter with the cursor of the previous page, or None.
    """

    size: str
    default_size: int
    max_size: int
    after: str
    before: str | None = None


class ModelsCodec(Struct, frozen=True, kw_only=True):
    """Reader and writer of one dialect's models and lists of models.

    Attributes:
        dialect: Name of the dialect.
        list_field: Field of a list with the array of models.
        id_field: Field of a model with its id.
        id_prefix: Text before the id in that field, which a vendor may leave out.
        fields: Other fields of a model that have an attribute; of two with one attribute the
            first wins.
        new_model: Returns the object of a model of another dialect, without its known fields.
        list_of: Returns a list with objects of models, given the models of the page, whether
            more follow, and the query.
        next_cursor: Returns the cursor behind the page that a list is; None if it is the last.
        pages: Query parameters of pages; None if a list has no pages.
    """

    dialect: str
    list_field: str = "data"
    id_field: str = "id"
    id_prefix: str = ""
    fields: Mapping[str, ModelField]
    new_model: Callable[[ModelInfo], dict[str, Any]]
    list_of: Callable[
        [list[dict[str, Any]], Sequence[ModelInfo], bool, Mapping[str, str]], dict[str, Any]
    ]
    next_cursor: Callable[[dict[str, Any]], str | None] = lambda body: None
    pages: Pages | None = None

    @property
    def query(self) -> dict[str, str]:
        """Query parameters for the first page of a model list, with the largest page size."""
        return {} if self.pages is None else {self.pages.size: str(self.pages.max_size)}

    def read_model(self, value: dict[str, Any]) -> ModelInfo:
        """Decode one model object.

        Raises:
            DecodeError: It names no model.
        """
        model = model_from_wire(value, self.dialect, self.id_field, self.fields)
        return structs.replace(model, id=model.id.removeprefix(self.id_prefix))

    def write_model(self, model: ModelInfo) -> dict[str, Any]:
        """Return this dialect's object for a model: the original object, or a new one."""
        name = self.id_prefix + model.id
        own = model.original.get(self.dialect)
        if own is None:
            return {**self.new_model(model), **model_to_wire(model, self.fields)}
        return own if own[self.id_field] in (name, model.id) else {**own, self.id_field: name}

    def read_list(self, body: dict[str, Any]) -> ModelPage:
        """Decode one page of a model list.

        Raises:
            DecodeError: The body is no list of the dialect, or names no model.
        """
        models = models_in(body, self.list_field, self.read_model)
        cursor = self.next_cursor(body)
        if self.pages is None or cursor is None:
            return ModelPage(models)
        return ModelPage(models, {**self.query, self.pages.after: cursor})

    def write_list(self, models: Sequence[ModelInfo], query: Mapping[str, str]) -> dict[str, Any]:
        """Encode the page of a model list that a query asks for.

        Raises:
            DecodeError: The query names no page.
        """
        page, has_more = models, False
        if (pages := self.pages) is not None:
            size = page_size(query, pages.size, pages.default_size, pages.max_size)
            before = None if pages.before is None else query.get(pages.before)
            # Google's clients ask for the first page with an empty token.
            after = query.get(pages.after) or None
            page, has_more = page_of(models, size, after=after, before=before)
        objects = [self.write_model(model) for model in page]
        return self.list_of(objects, page, has_more, query)


# The lists of OpenAI, one for its dialects and the servers that are compatible with either

_SHARED_FIELDS = {
    "created": ModelField("created", seconds, int),
    "owned_by": ModelField("owner", text, str),
    "shutdown_date": ModelField("retires", seconds_of_text, date_text),
    "name": ModelField("name", text),  # OpenRouter, Mistral
    "max_model_len": ModelField("max_input_tokens", count_of),  # vLLM
    "context_length": ModelField("max_input_tokens", count_of),  # OpenRouter
    "context_window": ModelField("max_input_tokens", count_of),  # Groq
}


def shared_models(dialect: str) -> ModelsCodec:
    """Return a model codec for OpenAI's format, which several dialects use."""
    return ModelsCodec(
        dialect=dialect,
        fields=_SHARED_FIELDS,
        new_model=_new_shared_model,
        list_of=_shared_list_of,
    )


def _new_shared_model(model: ModelInfo) -> dict[str, Any]:
    # The vendor's schema requires the last two, even if unknown.
    return {"id": model.id, "object": "model", "created": 0, "owned_by": ""}


def _shared_list_of(
    objects: list[dict[str, Any]],
    page: Sequence[ModelInfo],
    has_more: bool,
    query: Mapping[str, str],
) -> dict[str, Any]:
    body: dict[str, Any] = {"object": "list", "data": objects}
    # Codex sends `client_version` to get its own catalog of prompts and tools; from an empty
    # list it goes on with the catalog it has.
    return {**body, "models": []} if "client_version" in query else body


# https://ai.google.dev/api/models (read 2026-11-23).
_GOOGLE_PREFIX = "models/"  # tuned models are named `tunedModels/…`


def google_models(dialect: str) -> ModelsCodec:
    """Return a model codec for Google's format, which several dialects use."""
    return ModelsCodec(
        dialect=dialect,
        list_field="models",
        id_field="name",
        id_prefix=_GOOGLE_PREFIX,
        fields=_GOOGLE_FIELDS,
        new_model=_new_google_model,
        list_of=_google_list_of,
        next_cursor=lambda body: text(body.get("nextPageToken")),
        pages=Pages("pageSize", 50, 1000, "pageToken"),
    )


_GOOGLE_FIELDS = {
    "displayName": ModelField("name", text, str),
    "inputTokenLimit": ModelField("max_input_tokens", count_of, int),
    "outputTokenLimit": ModelField("max_output_tokens", count_of, int),
}


def _new_google_model(model: ModelInfo) -> dict[str, Any]:
    # Both methods are translated for every model; clients hide models without `generateContent`.
    methods = ["generateContent", "countTokens"]
    return {"name": _GOOGLE_PREFIX + model.id, "supportedGenerationMethods": methods}


def _google_list_of(
    objects: list[dict[str, Any]],
    page: Sequence[ModelInfo],
    has_more: bool,
    query: Mapping[str, str],
) -> dict[str, Any]:
    return {"models": objects, **({"nextPageToken": page[-1].id} if has_more else {})}

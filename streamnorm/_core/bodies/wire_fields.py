"""Edits of an encoded body: remove or rename refused fields, add required fields, filter betas.

Profiles list the fields by path; no edit knows the dialect.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import deepcopy
from fnmatch import fnmatchcase
from hashlib import sha256
from operator import is_
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

from streamnorm._core.bodies.capabilities import BodyCapabilities
from streamnorm._core.bodies.fields import Edit, FieldPath, edit_fields, has_field, parse_path
from streamnorm._core.errors import EncodeError
from streamnorm._core.json import clean, is_array, is_object
from streamnorm._core.losses import Losses

JOINT_BETAS = {"dangerous-tool-use-*": frozenset({"safeguards"})}
"""Fields enabled by betas, by a pattern of the beta's name."""

JSONObject: TypeAlias = dict[str, Any]


def is_joint_beta(beta: str, lost: Collection[str]) -> bool:
    """Return whether a beta enables at least one of the lost fields.

    Args:
        beta: Name of the beta.
        lost: Names of the lost fields of the request.
    """
    return any(
        fnmatchcase(beta, pattern) and not fields.isdisjoint(lost)
        for pattern, fields in JOINT_BETAS.items()
    )


class FittedBody(NamedTuple):
    """A body and its headers as the server accepts them.

    Attributes:
        body: The JSON object; the argument itself if nothing changed.
        headers: Headers that belong to the body.
    """

    body: JSONObject
    headers: dict[str, str]


def fit_fields(
    body: JSONObject,
    headers: dict[str, str],
    target: BodyCapabilities,
    losses: Losses,
) -> FittedBody:
    """Return a body without the fields that a server refuses, and with the fields that it needs.

    A beta and the fields that it enables stay or go together.  The argument is never changed: it
    may be the client's own object.

    Args:
        body: The body as the dialect writes it.
        headers: Headers that belong to the body, names in lower case.
        target: Capabilities of the target.
        losses: Counter of removed fields and betas.

    Raises:
        EncodeError: The server accepts none of the messages.
        LossyEncoding: Something would be lost, and the losses are strict.
    """
    before = body
    betas = _read_betas(body, headers, target)
    for path in _denied_paths(target):
        body = edit_fields(body, path, _remover(path, losses, same_dialect=target.only_refusals))
    for name, new_name in target.renamed_fields.items():
        path = parse_path(name)
        body = edit_fields(
            body, path, _count_edits(_renamer(path, new_name, losses), path, target, losses)
        )
    for name, values in target.replaced_values.items():
        path = parse_path(name)
        body = edit_fields(body, path, _count_edits(_replacer(values), path, target, losses))
    for name, (least, most) in target.hashed_texts.items():
        body = edit_fields(body, parse_path(name), _hasher(least, most, losses))
    for name in sorted(target.nonempty_fields):
        body = edit_fields(body, parse_path(name), _drop_empty)
    body = _drop_alternatives(body, target, losses)
    body = _drop_lone(body, target, losses)
    if before.get(target.messages_field) and not body.get(target.messages_field):
        raise EncodeError(
            "no messages that the server takes, expected at least one", path="messages"
        )
    body = _drop_unknown(body, target, losses)
    body = _drop_unknown_message_fields(body, target, losses)
    for name, known in target.known_fields.items():
        path = parse_path(name)
        body = edit_fields(
            body, path, _cleaner(path, known, losses, same_dialect=target.only_refusals)
        )
    if before.get("tools") and not body.get("tools") and "tool_choice" in body:
        losses.add("tool_choice", "request", "dropped with all tools")
        body = {name: value for name, value in body.items() if name != "tool_choice"}
    kept = _filter_betas(betas, before, body, target, losses)
    body = _add_needed(body, target, losses)
    return _write_betas(body, headers, betas, kept, target)


def endpoint_path(path: str, model: str, target: BodyCapabilities, *, stream: bool) -> str:
    """Return the path of a server's endpoint for a request.

    Args:
        path: Path in the dialect, used unless the server has another.
        model: Name of the model.
        target: Capabilities of the target.
        stream: Whether the answer is streamed.

    Raises:
        EncodeError: The name of the model cannot be a segment of the path.
    """
    template = (stream and target.stream_path) or target.path
    if template is None:
        return path
    return template.replace("{model}", path_segment(model))


def path_segment(model: str) -> str:
    """Return a model's name, percent-encoded as one path segment.

    Raises:
        EncodeError: The name is empty or a dot segment.
    """
    # Dot segments are removed from URLs (RFC 3986, section 5.2.4).
    if model in ("", ".", ".."):
        raise EncodeError("no name that a path can have, expected one", path="model")
    # Names of versions have both: `claude-opus-4-5@20251101`, `…-v1:0`.
    return quote(clean(model), safe=":@")


# Removal, other names and values


def _denied_paths(target: BodyCapabilities) -> list[FieldPath]:
    """Return the paths of all refused fields, including fields of betas unknown to the server."""
    names = sorted(target.denied_fields)
    if (allowed := target.allowed_betas) is not None:
        for pattern, fields in {**JOINT_BETAS, **target.beta_fields}.items():
            if not any(fnmatchcase(beta, pattern) for beta in allowed):
                names += sorted(fields - target.denied_fields)
    return [parse_path(name) for name in names]


def _remover(path: FieldPath, losses: Losses, *, same_dialect: bool) -> Edit:
    where = path[0].name if len(path) > 1 or path[0].field else "request"

    def remove(holder: JSONObject, name: str) -> JSONObject:
        _count(holder[name], name, where, losses, same_dialect=same_dialect)
        return {key: value for key, value in holder.items() if key != name}

    return remove


def _cleaner(path: FieldPath, known: frozenset[str], losses: Losses, *, same_dialect: bool) -> Edit:
    """Return an edit that removes unknown fields from an object or from an array's elements."""
    where = path[0].name

    def drop_unknown(value: Any) -> Any:
        if not is_object(value) or value.keys() <= known:
            return value
        for name in sorted(value.keys() - known):
            _count(value[name], name, where, losses, same_dialect=same_dialect)
        return {name: item for name, item in value.items() if name in known}

    def clean(holder: JSONObject, name: str) -> JSONObject:
        value = holder[name]
        if not is_array(value):
            cleaned = drop_unknown(value)
            return holder if cleaned is value else {**holder, name: cleaned}
        items = [drop_unknown(item) for item in value]
        return holder if all(map(is_, value, items)) else {**holder, name: items}

    return clean


def _count(value: Any, name: str, where: str, losses: Losses, *, same_dialect: bool) -> None:
    """Count a removed field as a loss.

    In translated requests a null or an empty array is a default of the writer, and no loss.
    """
    if same_dialect or (value is not None and value != []):
        losses.add(name, where, "dropped")


def _renamer(path: FieldPath, new_name: str, losses: Losses) -> Edit:
    where = path[0].name if len(path) > 1 else "request"
    outer, _, inner = new_name.rpartition(".")

    def rename(holder: JSONObject, name: str) -> JSONObject:
        rest = {key: value for key, value in holder.items() if key != name}
        nested: Any = rest.get(outer) if outer else rest
        if nested is None:
            nested = {}
        if not is_object(nested) or nested.get(inner) is not None:
            _count(holder[name], name, where, losses, same_dialect=False)
            return rest
        if outer:
            return {**rest, outer: {**nested, inner: holder[name]}}
        rest.pop(inner, None)
        return {inner if key == name else key: holder[key] for key in (*rest, name)}

    return rename


def _replacer(values: dict[str, JSONObject]) -> Edit:
    def replace(holder: JSONObject, name: str) -> JSONObject:
        value = holder[name]
        fields = values.get(value) if isinstance(value, str) else None
        if fields is None:
            fields = values.get("*")
        if fields is None:
            return holder
        if name in fields:
            return {**holder, **deepcopy(fields)}
        rest = {key: other for key, other in holder.items() if key != name}
        return {**rest, **deepcopy(fields)}

    return replace


def _count_edits(edit: Edit, path: FieldPath, target: BodyCapabilities, losses: Losses) -> Edit:
    """Wrap `edit` to count each change as a loss, if the body came in the target's dialect."""
    if not target.only_refusals:
        return edit
    where = path[0].name if len(path) > 1 else "request"

    def count(holder: JSONObject, name: str) -> JSONObject:
        after = edit(holder, name)
        if after is not holder:
            losses.add(name, where, "written in the server's words")
        return after

    return count


def _hasher(least: int, most: int, losses: Losses) -> Edit:
    def write_hash(holder: JSONObject, name: str) -> JSONObject:
        text = holder[name]
        if not isinstance(text, str) or least <= len(text) <= most:
            return holder
        losses.add(f"{name}_hashed", "request", "written as its SHA-256")
        return {**holder, name: sha256(text.encode("utf-8", "replace")).hexdigest()}

    return write_hash


def _drop_alternatives(body: JSONObject, target: BodyCapabilities, losses: Losses) -> JSONObject:
    """Return a body with only the first of mutually exclusive fields."""
    said = [name for name in target.alternative_fields if body.get(name) is not None]
    for name in said[1:]:
        losses.add(name, "request", f"dropped beside {said[0]}")
        body = {other: value for other, value in body.items() if other != name}
    return body


def _drop_empty(holder: JSONObject, name: str) -> JSONObject:
    """Return an object, without the field `name` if that field is empty."""
    return holder if holder[name] else {key: holder[key] for key in holder if key != name}


def _drop_lone(body: JSONObject, target: BodyCapabilities, losses: Losses) -> JSONObject:
    """Return a body without fields that the server refuses unless another field is set."""
    for name, other in target.needed_fields.items():
        if name in body and not body.get(other):
            _count(body[name], name, "request", losses, same_dialect=False)
            body = {key: value for key, value in body.items() if key != name}
    return body


def _drop_unknown_message_fields(
    body: JSONObject, target: BodyCapabilities, losses: Losses
) -> JSONObject:
    """Return a body whose messages have only fields that the server knows."""
    known, messages = target.message_fields, body.get(target.messages_field)
    if known is None or not is_array(messages):
        return body
    fitted: list[Any] = []
    for message in messages:
        unknown = message.keys() - known if is_object(message) else ()
        for name in sorted(unknown):
            _count(
                message[name],
                name,
                target.messages_field,
                losses,
                same_dialect=target.only_refusals,
            )
        fitted.append(
            {name: value for name, value in message.items() if name not in unknown}
            if unknown
            else message
        )
    if all(map(is_, fitted, messages)):
        return body
    return {**body, target.messages_field: fitted}


def _drop_unknown(body: JSONObject, target: BodyCapabilities, losses: Losses) -> JSONObject:
    removed = target.url_fields & body.keys()
    if target.allowed_fields is not None:
        unknown = body.keys() - target.allowed_fields - removed
        for name in sorted(unknown):
            _count(body[name], name, "request", losses, same_dialect=target.only_refusals)
        removed |= unknown
    if not removed:
        return body
    return {name: value for name, value in body.items() if name not in removed}


# What is added


def _add_needed(body: JSONObject, target: BodyCapabilities, losses: Losses) -> JSONObject:
    for name, value in target.added_fields.items():
        body = _add_field(body, name, value, "request", target, losses)
    if _is_prefilled(body, target):
        for name, value in target.prefill_fields.items():
            messages, _, field = name.rpartition(".")
            if not messages:
                body = _add_field(body, field, value, "request", target, losses)
            elif last := body.get(messages):
                message = _add_field(last[-1], field, value, messages, target, losses)
                if message is not last[-1]:
                    body = {**body, messages: [*last[:-1], message]}
    return body


def _is_prefilled(body: JSONObject, target: BodyCapabilities) -> bool:
    """Return whether the last message of the body is the assistant's."""
    messages = body.get(target.messages_field)
    last = messages[-1] if is_array(messages) and messages else None
    return is_object(last) and last.get("role") == "assistant"


def _add_field(
    holder: JSONObject,
    name: str,
    value: Any,
    where: str,
    target: BodyCapabilities,
    losses: Losses,
) -> JSONObject:
    """Return an object with a field that the server requires; merge it into an existing object."""
    before = holder.get(name)
    after = {**before, **value} if is_object(before) and is_object(value) else value
    if name in holder and before == after:
        return holder
    if name in holder:
        losses.add(name, where, "replaced")
    elif target.only_refusals:
        losses.add(name, where, "added")
    return {**holder, name: deepcopy(after)}


# Betas


def _read_betas(body: JSONObject, headers: dict[str, str], target: BodyCapabilities) -> list[str]:
    """Return the betas of a request, from its header and its body, in order."""
    listed = headers.get(target.beta_header, "").split(",") if target.beta_header else []
    in_body = body.get(target.beta_field) if target.beta_field else None
    if is_array(in_body):
        listed += [beta for beta in in_body if isinstance(beta, str)]
    return list(dict.fromkeys(beta.strip() for beta in listed if beta.strip()))


def _filter_betas(
    betas: list[str],
    before: JSONObject,
    body: JSONObject,
    target: BodyCapabilities,
    losses: Losses,
) -> list[str]:
    """Return the betas that the server knows and whose fields are still in the body."""
    kept: list[str] = []
    lost = [name for name, value in before.items() if value is not None and name not in body]
    for beta in betas:
        if target.allowed_betas is not None and beta not in target.allowed_betas:
            why = "not known to the server"
        elif _lost_its_fields(beta, before, body, target):
            why = "dropped with its field"
        else:
            kept.append(beta)
            continue
        if not is_joint_beta(beta, lost):
            losses.add("beta", "request", why)
    return kept


def _lost_its_fields(
    beta: str, before: JSONObject, body: JSONObject, target: BodyCapabilities
) -> bool:
    if body is before:
        return False
    paths = [
        parse_path(name)
        for pattern, fields in {**JOINT_BETAS, **target.beta_fields}.items()
        if fnmatchcase(beta, pattern)
        for name in fields
    ]
    had = any(has_field(before, path) for path in paths)
    return had and not any(has_field(body, path) for path in paths)


def _write_betas(
    body: JSONObject,
    headers: dict[str, str],
    betas: list[str],
    kept: list[str],
    target: BodyCapabilities,
) -> FittedBody:
    field = target.beta_field
    if field is not None and betas and body.get(field) != kept:
        body = {name: value for name, value in body.items() if name != field}
        if kept:
            body[field] = kept
    header = target.beta_header
    if header is not None and header in headers:
        headers = {name: value for name, value in headers.items() if name != header}
        if kept and field is None:
            headers[header] = ",".join(kept)
    if target.added_headers:
        headers = {**headers, **target.added_headers}
    return FittedBody(body, headers)

"""Requests that are encoded for a server, a model and a version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from support.bodies.projection_targets import EVERYTHING
from support.example_dialect.registration import registered

import streamnorm
from streamnorm import EncodeError, InputMessage, Loss, Request, Text
from streamnorm._bodies import encode_request, translate_request
from streamnorm._core.bodies.request import Source
from streamnorm._core.codec import BodyCodec, Dialect, ReadContext, WriteContext, Written
from streamnorm._core.events import Event
from streamnorm._core.losses import Losses
from streamnorm._core.messages import Message
from streamnorm.profiles import Profiles

NAME = "imagined"
PROFILES = f"""
[[profile]]
dialect = "{NAME}"
version = "2"
default = true
set.added_headers = {{ version = "2" }}
remove.fields = ["seed"]

[[profile]]
dialect = "{NAME}"
model = "small-*"
set.max_temperature = 0.5

[[profile]]
dialect = "{NAME}"
server = "cloud"
set.denied_fields = ["stream"]
set.path = "/model/{{model}}/whole"
set.stream_path = "/model/{{model}}/stream"
set.prefill_fields = {{ "messages.prefix" = true }}

[[profile]]
dialect = "{NAME}"
server = "cloud"
model = "retired"
set.available = false
"""


def read_request(body: dict[str, Any], context: ReadContext) -> Request:
    request = Request(
        model=body["model"],
        temperature=body.get("temperature"),
        seed=body.get("seed"),
        stream=body.get("stream"),
    )
    return structs.replace(request, source=Source(NAME, body, request))


def write_request(request: Request, context: WriteContext) -> Written:
    body = {
        name: value
        for name in ("model", "temperature", "seed", "stream")
        if (value := getattr(request, name)) is not None
    }
    if request.messages:
        body["messages"] = [{"role": message.role} for message in request.messages]
    return Written(body, "/imagined")


def read_response(body: dict[str, Any], context: ReadContext) -> list[Event]:
    raise NotImplementedError


def write_response(message: Message, created: float | None, losses: Losses) -> dict[str, Any]:
    raise NotImplementedError


CODEC = BodyCodec(
    capabilities=structs.replace(EVERYTHING, dialect=NAME),
    read_request=read_request,
    read_tools=lambda body: (),
    write_request=write_request,
    read_response=read_response,
    write_response=write_response,
)


@pytest.fixture
def profiles(tmp_path: Path) -> Iterator[Profiles]:
    with registered(
        Dialect(
            name=NAME,
            aliases=(),
            recognises=lambda frame: False,
            body=lambda: CODEC,
            is_request=lambda body: "model" in body,
        )
    ):
        path = tmp_path / "own.toml"
        path.write_text(PROFILES, encoding="utf-8")
        yield Profiles.load(path)


def asked(**fields: Any) -> Request:
    return Request(messages=(InputMessage("user", (Text("Hi"),)),), **fields)


def fields_of(encoded: streamnorm.Encoded) -> dict[str, Any]:
    """Return the fields of a body that are not the conversation."""
    return {name: value for name, value in encoded.body.items() if name != "messages"}


def test_target_is_narrowed_to_the_model(profiles: Profiles) -> None:
    encoded = encode_request(asked(model="small-1", temperature=1), NAME, profiles=profiles)
    assert fields_of(encoded) == {"model": "small-1", "temperature": 0.5}
    assert [loss.feature for loss in encoded.losses] == ["temperature_clamped"]


def test_target_is_narrowed_to_the_default_version(profiles: Profiles) -> None:
    encoded = encode_request(asked(model="m", seed=1), NAME, profiles=profiles)
    assert (fields_of(encoded), encoded.headers) == ({"model": "m"}, {"version": "2"})
    assert encoded.losses == (Loss("seed", "request", 1, "dropped"),)


def test_target_is_narrowed_to_the_server(profiles: Profiles) -> None:
    request = asked(model="m", seed=1, stream=True)
    encoded = encode_request(request, NAME, server="cloud", profiles=profiles)
    assert fields_of(encoded) == {"model": "m", "seed": 1}
    assert encoded.path == "/model/m/stream"
    assert encoded.losses == (Loss("stream", "request", 1, "dropped"),)
    whole = structs.replace(request, stream=None)
    assert encode_request(whole, NAME, server="cloud", profiles=profiles).path == "/model/m/whole"


def test_version_is_applied_where_a_server_is_named(profiles: Profiles) -> None:
    request = asked(model="m", seed=1)
    encoded = encode_request(request, NAME, server="cloud", version="2", profiles=profiles)
    assert (fields_of(encoded), encoded.headers) == ({"model": "m"}, {"version": "2"})


def test_unknown_version_is_refused(profiles: Profiles) -> None:
    with pytest.raises(EncodeError, match="version: not known, expected one of 2"):
        encode_request(asked(model="m"), NAME, version="3", profiles=profiles)


def test_model_that_the_server_does_not_have_is_refused(profiles: Profiles) -> None:
    with pytest.raises(EncodeError, match="model: not answered by cloud in dialect imagined"):
        encode_request(asked(model="retired"), NAME, server="cloud", profiles=profiles)


def test_prefill_is_marked(profiles: Profiles) -> None:
    said = (Text(text="Dear"),)
    messages = (InputMessage("user", said), InputMessage("assistant", said))
    for count, last in ((1, {"role": "user"}), (2, {"role": "assistant", "prefix": True})):
        request = Request(model="m", messages=messages[:count])
        encoded = encode_request(request, NAME, server="cloud", profiles=profiles)
        assert encoded.body["messages"][-1] == last


def test_shipped_profiles_are_used_where_none_are_given(profiles: Profiles) -> None:
    assert fields_of(encode_request(asked(model="m", seed=1), NAME)) == {"model": "m", "seed": 1}


# The client's own requests


BODY = {"model": "small-1", "temperature": 1, "seed": 5}


def test_request_goes_back_to_its_vendor_as_it_was(profiles: Profiles) -> None:
    encoded = translate_request(BODY, to=NAME, profiles=profiles)
    assert encoded == streamnorm.Encoded(BODY, "/imagined")


def test_request_that_has_grown_is_as_it_was(profiles: Profiles) -> None:
    """Else its prefix, which is cached, would be another than before."""
    request = streamnorm.decode_request(BODY, NAME)
    grown = structs.replace(request, messages=(InputMessage("user", (Text(text="Hi"),)),))
    encoded = encode_request(grown, NAME, server="not known", profiles=profiles)
    assert encoded.body == {**BODY, "messages": [{"role": "user"}]}
    assert encoded.losses == ()


def test_request_to_another_version_is_narrowed(profiles: Profiles) -> None:
    encoded = translate_request(BODY, to=NAME, profiles=profiles, version="2")
    assert encoded.body["temperature"] == 0.5


def test_request_to_a_server_is_narrowed_by_its_profile_alone(profiles: Profiles) -> None:
    """What a model refuses at the vendor, another server may accept."""
    body = {**BODY, "stream": True}
    encoded = translate_request(body, to=NAME, profiles=profiles, server="cloud")
    assert encoded.body == BODY
    assert encoded.losses == (Loss("stream", "request", 1, "dropped"),)


def test_request_to_another_model_is_narrowed(profiles: Profiles) -> None:
    request = streamnorm.decode_request({**BODY, "model": "large"}, NAME)
    routed = structs.replace(request, model="small-1")
    assert encode_request(routed, NAME, profiles=profiles).body["temperature"] == 0.5

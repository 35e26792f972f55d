"""What executors return, as results."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import pytest
from msgspec import Struct
from pydantic import BaseModel, Field

from streamnorm import DecodeError, Image, Text, ToolCall, ToolResult
from streamnorm.aio.executing import error_result, exception_result, result_of

CALL = ToolCall("call_1", "f", "{}")
IMAGE = Image("image/png", "iVBORw==")


class Place(Struct):
    city: str


@dataclass
class Spot:
    city: str


class Model(BaseModel):
    city: str = Field(alias="cityName")


@dataclass
class Found:
    path: PurePosixPath
    best: Model


class MCPResult:
    """A `CallToolResult` of the `mcp` package, of which only the form is known."""

    is_error = True

    def __init__(self, content: Any) -> None:
        self.content = content

    def model_dump(self, *, mode: str, by_alias: bool) -> dict[str, Any]:
        return {"content": self.content, "isError": True}


class OldMCPResult(MCPResult):
    """The same of its first major version, whose attributes are spelt as on the wire."""

    def __getattribute__(self, name: str) -> Any:
        if name == "is_error":
            raise AttributeError(name)
        return super().__getattribute__(name)

    isError = True  # noqa: N815 - the package's


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("snow", (Text("snow"),)),
        ("\ud83d", (Text("�"),)),
        (None, ()),
        (IMAGE, (IMAGE,)),
        ([IMAGE, "a map"], (IMAGE, Text("a map"))),
        ((Text("a"), IMAGE), (Text("a"), IMAGE)),
        (3, (Text("3"),)),
        (True, (Text("true"),)),
        (["a", "b"], (Text('["a","b"]'),)),
        ([], (Text("[]"),)),
        ([1, Place("Oslo")], (Text('[1,{"city":"Oslo"}]'),)),
        ([Model(cityName="Oslo")], (Text('[{"cityName":"Oslo"}]'),)),
        ([PurePosixPath("a/\udcff")], (Text('["a/\ufffd"]'),)),
        # JSON lacks these numbers; null would say that there is none.
        (math.inf, (Text('"Infinity"'),)),
        ((None, -math.inf), (Text('[null,"-Infinity"]'),)),
    ],
)
def test_texts_blocks_and_values(value: object, content: tuple[Any, ...]) -> None:
    assert result_of(CALL, value) == ToolResult("call_1", content)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"city": "Oslo"}, '{"city":"Oslo"}'),
        ({"content": ["a"]}, '{"content":["a"]}'),
        ({1: "a"}, '{"1":"a"}'),
        ({"a": {"b": math.nan, "c": None}}, '{"a":{"b":"NaN","c":null}}'),
        (Place("Oslo"), '{"city":"Oslo"}'),
        (Spot("Oslo"), '{"city":"Oslo"}'),
        (Model(cityName="Oslo"), '{"cityName":"Oslo"}'),
        ({"a": {"b": Model(cityName="Oslo")}}, '{"a":{"b":{"cityName":"Oslo"}}}'),
        (
            Found(PurePosixPath("/data/a"), Model(cityName="Oslo")),
            '{"path":"/data/a","best":{"cityName":"Oslo"}}',
        ),
    ],
)
def test_an_object_is_text_and_value(value: object, text: str) -> None:
    assert result_of(CALL, value) == ToolResult("call_1", (Text(text),), value=text)


def test_a_deep_object_is_text_alone() -> None:
    value: dict[str, Any] = {}
    for _ in range(200):
        value = {"a": value}
    text = '{"a":' * 200 + "{}" + "}" * 200
    assert result_of(CALL, value) == ToolResult("call_1", (Text(text),))


def test_a_result_gets_the_id_of_its_call() -> None:
    result = ToolResult("other", (IMAGE,), is_error=True)
    assert result_of(CALL, result) == ToolResult("call_1", (IMAGE,), is_error=True)


@pytest.mark.parametrize("kind", [MCPResult, OldMCPResult])
def test_a_result_of_mcp_is_read(kind: type[MCPResult]) -> None:
    value = kind([{"type": "text", "text": "no station"}])
    assert result_of(CALL, value) == ToolResult("call_1", (Text("no station"),), is_error=True)
    with pytest.raises(DecodeError, match=r"^\$\.content: "):
        result_of(CALL, kind("text"))


def test_a_value_without_json_form_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"^result holds a value of type object, expected JSON$"):
        result_of(CALL, [object()])


class Dumped:
    def __init__(self, form: object) -> None:
        self.form = form

    def model_dump(self, **_: object) -> object:
        return self.form


class Proxy:
    """An object with a method of every name, as those of `MagicMock` and of remote calls."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in ("is_error", "isError"):
            raise AttributeError(name)
        return lambda **_: self


@pytest.mark.parametrize("form", [lambda proxy: proxy, lambda proxy: {"a": [proxy]}])
def test_an_object_that_answers_every_attribute_has_no_json_form(
    form: Callable[[object], object],
) -> None:
    for value in (form(Proxy()), form(Dumped(form(Proxy())))):
        with pytest.raises(TypeError, match=r"^result holds a value of type \w+, expected JSON$"):
            result_of(CALL, value)


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("secret")


@pytest.mark.parametrize(
    ("exc", "text"),
    [
        (ValueError("no station"), "ValueError: no station"),
        (ValueError(), "ValueError"),
        (Silent(), "Silent"),
        (ExceptionGroup("tasks", [ValueError("no station")]), "ValueError: no station"),
        (
            ExceptionGroup("tasks", [KeyError("a"), ExceptionGroup("inner", [OSError()])]),
            "KeyError: 'a'; OSError",
        ),
        (ExceptionGroup("tasks", [Silent()]), "ExceptionGroup"),
    ],
)
def test_an_exception_is_its_type_and_words(exc: Exception, text: str) -> None:
    exc.add_note("secret")
    exc.__cause__ = OSError("secret")
    assert exception_result(CALL, exc) == ToolResult("call_1", (Text(text),), is_error=True)


def test_the_text_of_an_error_is_bounded() -> None:
    assert error_result(CALL, "x" * 2000).content == (Text("x" * 2000),)
    assert error_result(CALL, "x" * 2001).content == (Text("x" * 2000 + " … (2001 characters)"),)

"""What a server refuses, renames and needs, in a body that is written."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from msgspec import structs
from support.bodies.projection_targets import EVERYTHING

from streamnorm._core.bodies.wire_fields import FittedBody, endpoint_path, fit_fields
from streamnorm._core.errors import EncodeError, LossyEncoding
from streamnorm._core.losses import Losses

HEADER = "vendor-beta"
BETAS = {
    "beta_header": HEADER,
    "beta_fields": {
        "edits-*": frozenset({"edits"}),
        "servers-*": frozenset({"servers", "tools[type=server]"}),
    },
}


def fit(
    body: dict[str, Any],
    headers: dict[str, str] | None = None,
    **target: Any,
) -> tuple[FittedBody, dict[tuple[str, str, str], int]]:
    """Return what fits, and the losses by feature, where and detail."""
    losses = Losses()
    given, before = headers or {}, deepcopy((body, headers or {}))
    fitted = fit_fields(body, given, structs.replace(EVERYTHING, **target), losses)
    assert (body, given) == before, "the client's own body and headers are not changed"
    return fitted, {(loss.feature, loss.where, loss.detail): loss.count for loss in losses.list()}


def test_nothing_to_do_gives_the_same_objects() -> None:
    body, headers = {"model": "m", "tools": [{"strict": True}]}, {HEADER: "a,b"}
    fitted, lost = fit(
        body,
        headers,
        denied_fields=frozenset({"other", "tools.other"}),
        renamed_fields={"absent": "present"},
        replaced_values={"model": {"n": {"model": "o"}}},
        added_fields={"model": "m"},
        allowed_fields=frozenset({"model", "tools"}),
        url_fields=frozenset({"absent"}),
    )
    assert fitted.body is body
    assert fitted.headers is headers
    assert lost == {}


# Removal


def test_denied_fields_are_removed_and_counted() -> None:
    body = {
        "seed": 1,
        "model": "m",
        "tools": [{"name": "a", "strict": True}, {"name": "b", "strict": False}, {"name": "c"}],
        "messages": [{"role": "user", "name": "Ann", "content": [{"cache": 1, "text": "x"}]}],
    }
    denied = frozenset({"seed", "tools.strict", "messages.name", "messages.content.cache"})
    fitted, lost = fit(body, denied_fields=denied)
    assert fitted.body == {
        "model": "m",
        "tools": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
        "messages": [{"role": "user", "content": [{"text": "x"}]}],
    }
    assert lost == {
        ("seed", "request", "dropped"): 1,
        ("strict", "tools", "dropped"): 2,
        ("name", "messages", "dropped"): 1,
        ("cache", "messages", "dropped"): 1,
    }


def test_denied_elements_are_lost_under_their_kind() -> None:
    fitted, lost = fit(
        {"tools": [{"type": "search_1"}, {"type": "f"}]},
        denied_fields=frozenset({"tools[type=search_*]"}),
    )
    assert fitted.body == {"tools": [{"type": "f"}]}
    assert lost == {("search_1", "tools", "dropped"): 1}


def test_null_or_an_empty_array_is_no_loss() -> None:
    fitted, lost = fit(
        {"a": None, "b": [], "c": 0, "d": None},
        denied_fields=frozenset({"a", "b", "c"}),
        allowed_fields=frozenset({"a", "b", "c"}),
    )
    assert fitted.body == {}
    assert lost == {("c", "request", "dropped"): 1}


def test_messages_that_are_all_refused_are_an_error() -> None:
    body = {"messages": [{"role": "user", "content": [{"type": "document"}]}], "model": "m"}
    with pytest.raises(EncodeError, match="no messages that the server takes") as caught:
        fit(body, denied_fields=frozenset({"messages.content[type=document]"}))
    assert caught.value.path == "messages"


def test_unknown_fields_are_removed_where_the_known_ones_are_listed() -> None:
    fitted, lost = fit({"a": 1, "c": 2, "b": 3}, allowed_fields=frozenset({"a"}))
    assert fitted.body == {"a": 1}
    assert list(lost) == [("b", "request", "dropped"), ("c", "request", "dropped")]


def test_unknown_fields_of_objects_are_removed_and_counted() -> None:
    known = {
        "a": frozenset({"b", "c"}),
        "a.c": frozenset({"d"}),
        "e": frozenset({"f"}),
    }
    body = {
        "a": [{"b": 1, "odd": 2, "none": None}, {"c": {"d": 1, "x": 2}}, 3],
        "e": {"f": 1, "g": 2},
    }
    fitted, lost = fit(body, known_fields=known)
    assert fitted.body == {"a": [{"b": 1}, {"c": {"d": 1}}, 3], "e": {"f": 1}}
    assert lost == {
        (name, where, "dropped"): 1 for name, where in (("odd", "a"), ("x", "a"), ("g", "e"))
    }
    legal = {"a": [{"b": 1}, {"c": {"d": 1}}], "e": {"f": 1}}
    assert fit(legal, known_fields=known)[0].body is legal


def test_a_choice_goes_with_all_tools() -> None:
    body = {"tools": [{"type": "x"}], "tool_choice": {"type": "auto"}, "m": 1}
    fitted, lost = fit(body, denied_fields=frozenset({"tools[type=x]"}))
    assert fitted.body == {"m": 1}
    assert lost[("tool_choice", "request", "dropped with all tools")] == 1
    alone = {"tool_choice": "auto"}
    assert fit(alone, denied_fields=frozenset({"tools"}))[0].body is alone


def test_fields_of_the_url_are_no_loss() -> None:
    fitted, lost = fit(
        {"model": "m", "a": 1},
        url_fields=frozenset({"model"}),
        allowed_fields=frozenset({"a"}),
    )
    assert fitted.body == {"a": 1}
    assert lost == {}


def test_strict_losses_raise() -> None:
    target = structs.replace(EVERYTHING, denied_fields=frozenset({"seed"}))
    with pytest.raises(LossyEncoding, match="seed in request"):
        fit_fields({"seed": 1}, {}, target, Losses(strict=True))


# Names and values


@pytest.mark.parametrize(
    ("renamed", "body", "after"),
    [
        ({"a": "b"}, {"x": 1, "a": 2}, {"x": 1, "b": 2}),
        ({"a": "b"}, {"a": 2, "b": None}, {"b": 2}),
        ({"a": "o.e"}, {"a": "low", "o": None}, {"o": {"e": "low"}}),
        ({"a": "o.e"}, {"a": "low", "o": {"e": None}}, {"o": {"e": "low"}}),
        ({"a": "o.e"}, {"a": "low"}, {"o": {"e": "low"}}),
        ({"a": "o.e"}, {"a": "low", "o": {"s": 1}}, {"o": {"s": 1, "e": "low"}}),
        ({"m.a": "b"}, {"m": [{"a": 1}, {"c": 2}]}, {"m": [{"b": 1}, {"c": 2}]}),
    ],
)
def test_field_is_renamed(
    renamed: dict[str, str], body: dict[str, Any], after: dict[str, Any]
) -> None:
    fitted, lost = fit(body, renamed_fields=renamed)
    assert fitted.body == after
    assert lost == {}


def test_null_of_another_name_is_no_loss() -> None:
    fitted, lost = fit({"a": None, "b": 1}, renamed_fields={"a": "b"})
    assert (fitted.body, lost) == ({"b": 1}, {})


@pytest.mark.parametrize(
    ("renamed", "body", "after", "where"),
    [
        ({"a": "b"}, {"a": 1, "b": 2}, {"b": 2}, "request"),
        ({"a": "o.e"}, {"a": 1, "o": {"e": 2}}, {"o": {"e": 2}}, "request"),
        ({"a": "o.e"}, {"a": 1, "o": "text"}, {"o": "text"}, "request"),
        ({"m.a": "b"}, {"m": [{"a": 1, "b": 2}]}, {"m": [{"b": 2}]}, "m"),
    ],
)
def test_field_that_has_the_other_name_already_wins(
    renamed: dict[str, str], body: dict[str, Any], after: dict[str, Any], where: str
) -> None:
    fitted, lost = fit(body, renamed_fields=renamed)
    assert fitted.body == after
    assert lost == {("a", where, "dropped"): 1}


@pytest.mark.parametrize(
    ("value", "after"),
    [
        ("required", {"choice": "any"}),
        ("none", {"choice": "none"}),
        ({"name": "f"}, {"choice": {"name": "f"}}),
        (None, {"choice": None}),
    ],
)
def test_value_is_replaced(value: Any, after: dict[str, Any]) -> None:
    fitted, lost = fit(
        {"choice": value}, replaced_values={"choice": {"required": {"choice": "any"}}}
    )
    assert fitted.body == after
    assert lost == {}


def test_any_other_value_is_replaced() -> None:
    values = {"effort": {"none": {"think": False}, "*": {"think": True, "budget": 5}}}
    assert fit({"effort": "none"}, replaced_values=values)[0].body == {"think": False}
    assert fit({"effort": "low"}, replaced_values=values)[0].body == {"think": True, "budget": 5}


def test_value_of_any_kind_is_replaced_within_a_path() -> None:
    fitted, _ = fit(
        {"m": [{"c": [{"mark": {"mode": "x"}, "text": "t"}]}]},
        replaced_values={"m.c.mark": {"*": {"cache": {"type": "y"}}}},
    )
    assert fitted.body == {"m": [{"c": [{"text": "t", "cache": {"type": "y"}}]}]}


# Additions


def test_needed_fields_are_added() -> None:
    fitted, lost = fit({"a": 1}, added_fields={"version": "v", "stream": True})
    assert fitted.body == {"a": 1, "version": "v", "stream": True}
    assert lost == {}


def test_what_is_added_is_a_copy() -> None:
    """Else a client that changes its body would change the profile."""
    target: dict[str, Any] = {
        "added_fields": {"options": {"think": True}},
        "prefill_fields": {"rest": {"go": True}},
        "replaced_values": {"effort": {"*": {"thinking": {"type": "enabled"}}}},
    }
    body, before = {"effort": "low", "messages": [{"role": "assistant"}]}, deepcopy(target)
    fitted, _ = fit(body, **target)
    for name in ("options", "rest", "thinking"):
        fitted.body[name]["changed"] = True
    assert target == before


def test_other_value_of_a_needed_field_is_a_loss() -> None:
    fitted, lost = fit({"stream": False}, added_fields={"stream": True})
    assert fitted.body == {"stream": True}
    assert lost == {("stream", "request", "replaced"): 1}


def test_fields_of_a_prefill_are_added_to_it_alone() -> None:
    needed = {"go_on": True, "messages.prefix": True, "absent.prefix": True}
    for messages in ([{"role": "assistant"}, {"role": "user"}], [], "assistant", ["assistant"]):
        answered: dict[str, Any] = {"messages": messages}
        assert fit(answered, prefill_fields=needed)[0].body is answered
    body = {"messages": [{"role": "user"}, {"role": "assistant"}]}
    fitted, _ = fit(body, prefill_fields=needed)
    assert fitted.body == {
        "messages": [{"role": "user"}, {"role": "assistant", "prefix": True}],
        "go_on": True,
    }


def test_message_before_one_that_the_server_refuses_is_the_last() -> None:
    file = {"role": "user", "content": [{"type": "file"}]}
    fitted, lost = fit(
        {"messages": [{"role": "assistant", "content": "a"}, file]},
        denied_fields=frozenset({"messages.content[type=file]"}),
        prefill_fields={"go_on": True},
    )
    assert fitted.body == {"messages": [{"role": "assistant", "content": "a"}], "go_on": True}
    assert lost == {("file", "messages", "dropped"): 1}


def test_needed_headers_are_added() -> None:
    fitted, _ = fit({}, {"a": "1"}, added_headers={"version": "2"})
    assert fitted.headers == {"a": "1", "version": "2"}


# Betas


def test_beta_goes_with_its_field() -> None:
    """A beta whose field is refused is refused by some servers, too (claude-code#56970)."""
    fitted, lost = fit(
        {"model": "m", "edits": [1]},
        {HEADER: "edits-2025,other-1"},
        denied_fields=frozenset({"edits"}),
        **BETAS,
    )
    assert fitted == ({"model": "m"}, {HEADER: "other-1"})
    assert lost == {
        ("edits", "request", "dropped"): 1,
        ("beta", "request", "dropped with its field"): 1,
    }


def test_field_goes_with_its_beta() -> None:
    """A field whose beta is dropped is refused (CLIProxyAPI#5738)."""
    body = {"model": "m", "servers": [1], "tools": [{"type": "server"}], "edits": [1]}
    fitted, lost = fit(
        body,
        {HEADER: "servers-1, edits-1"},
        allowed_betas=frozenset({"edits-1"}),
        **BETAS,
    )
    assert fitted == ({"model": "m", "edits": [1]}, {HEADER: "edits-1"})
    assert lost == {
        ("servers", "request", "dropped"): 1,
        ("server", "tools", "dropped"): 1,
        ("beta", "request", "not known to the server"): 1,
    }


def test_field_of_an_unknown_beta_goes_also_where_no_header_names_it() -> None:
    fitted, lost = fit({"edits": [1]}, allowed_betas=frozenset(), **BETAS)
    assert fitted == ({}, {})
    assert lost == {("edits", "request", "dropped"): 1}


def test_denied_field_of_an_unknown_beta_is_lost_once() -> None:
    fitted, lost = fit(
        {"edits": [1]}, denied_fields=frozenset({"edits"}), allowed_betas=frozenset(), **BETAS
    )
    assert fitted.body == {}
    assert lost == {("edits", "request", "dropped"): 1}


def test_beta_stays_with_one_of_its_fields() -> None:
    fitted, _ = fit(
        {"servers": [1], "tools": [{"type": "server"}]},
        {HEADER: "servers-1"},
        denied_fields=frozenset({"servers"}),
        **BETAS,
    )
    assert fitted == ({"tools": [{"type": "server"}]}, {HEADER: "servers-1"})


def test_beta_without_a_field_stays() -> None:
    headers = {HEADER: "edits-1,claude-code-20250219"}
    fitted, lost = fit({"model": "m", "a": 1}, headers, denied_fields=frozenset({"a"}), **BETAS)
    assert fitted.headers == headers
    assert list(lost) == [("a", "request", "dropped")]


def test_header_goes_with_its_last_beta() -> None:
    fitted, lost = fit({}, {HEADER: "x-1,,x-1"}, allowed_betas=frozenset(), **BETAS)
    assert fitted == ({}, {})
    assert lost == {("beta", "request", "not known to the server"): 1}


def test_betas_stand_in_the_body_where_the_server_wants_them_there() -> None:
    """As the Bedrock client of the official SDK does."""
    fitted, _ = fit({"m": 1}, {HEADER: "a-1,b-1"}, beta_field="betas", **BETAS)
    assert fitted == ({"m": 1, "betas": ["a-1", "b-1"]}, {})


def test_betas_of_the_body_are_known() -> None:
    body = {"betas": ["a-1", 5]}
    fitted, _ = fit(body, beta_field="betas", **BETAS)
    assert fitted.body == {"betas": ["a-1"]}
    same = {"betas": ["a-1"]}
    assert fit(same, beta_field="betas", **BETAS)[0].body is same
    fitted, _ = fit(same, beta_field="betas", allowed_betas=frozenset(), **BETAS)
    assert fitted.body == {}


def test_betas_of_no_header_are_left_alone() -> None:
    headers = {HEADER: "a-1"}
    assert fit({}, headers, allowed_betas=frozenset())[0].headers is headers


# Paths


def test_path_is_the_dialects_where_the_server_has_no_other() -> None:
    assert endpoint_path("/v1/messages", "m", EVERYTHING, stream=True) == "/v1/messages"


@pytest.mark.parametrize(
    ("stream", "model", "path"),
    [
        (False, "a.b-v1:0", "/model/a.b-v1:0/invoke"),
        (True, "a/b c", "/model/a%2Fb%20c/invoke-stream"),
    ],
)
def test_path_has_the_model(stream: bool, model: str, path: str) -> None:
    target = structs.replace(
        EVERYTHING, path="/model/{model}/invoke", stream_path="/model/{model}/invoke-stream"
    )
    assert endpoint_path("/v1/messages", model, target, stream=stream) == path


def test_path_of_streams_is_the_same_where_there_is_one() -> None:
    target = structs.replace(EVERYTHING, path="/x")
    assert endpoint_path("/v1/messages", "m", target, stream=True) == "/x"


@pytest.mark.parametrize("model", ["", ".", ".."])
def test_model_without_a_place_in_the_path_is_refused(model: str) -> None:
    target = structs.replace(EVERYTHING, path="/{model}")
    with pytest.raises(EncodeError, match="no name that a path can have"):
        endpoint_path("/v1/messages", model, target, stream=False)


def test_empty_fields_go_without_a_loss_where_they_are_refused() -> None:
    body = {"tools": [], "messages": [{"role": "a", "calls": []}, {"role": "b", "calls": [1]}]}
    paths = frozenset({"tools", "messages.calls", "functions"})
    fitted, lost = fit(body, nonempty_fields=paths)
    assert fitted.body == {"messages": [{"role": "a"}, {"role": "b", "calls": [1]}]}
    assert lost == {}
    full = {"tools": [1], "messages": [{"role": "b", "calls": [1]}]}
    assert fit(full, nonempty_fields=paths)[0].body is full


@pytest.mark.parametrize("other", [{}, {"tools": []}, {"tools": None}])
def test_field_that_is_refused_without_another_is_a_loss(other: dict[str, Any]) -> None:
    needed = {"choice": "tools", "parallel": "tools"}
    fitted, lost = fit({"choice": "auto", "parallel": None, **other}, needed_fields=needed)
    assert fitted.body == other
    assert lost == {("choice", "request", "dropped"): 1}
    both = {"choice": "auto", "tools": [1]}
    assert fit(both, needed_fields=needed)[0].body is both


# What a server of the client's own dialect takes


OWN: dict[str, Any] = {"only_refusals": True}


def test_every_change_to_a_request_of_the_dialect_is_counted() -> None:
    fitted, lost = fit(
        {"seed": 5, "choice": "required", "messages": [{"role": "a"}, {"role": "assistant"}]},
        renamed_fields={"seed": "random_seed"},
        replaced_values={
            "choice": {"required": {"choice": "any"}},
            "messages.role": {"a": {"role": "system"}},
        },
        added_fields={"stream": True},
        prefill_fields={"messages.prefix": True, "template": {"thinks": False}},
        **OWN,
    )
    assert fitted.body == {
        "random_seed": 5,
        "choice": "any",
        "messages": [{"role": "system"}, {"role": "assistant", "prefix": True}],
        "stream": True,
        "template": {"thinks": False},
    }
    assert lost == {
        ("seed", "request", "written in the server's words"): 1,
        ("choice", "request", "written in the server's words"): 1,
        ("role", "messages", "written in the server's words"): 1,
        ("stream", "request", "added"): 1,
        ("prefix", "messages", "added"): 1,
        ("template", "request", "added"): 1,
    }


def test_what_a_server_needs_is_there_already() -> None:
    body = {
        "stream": True,
        "messages": [{"role": "assistant", "prefix": True}],
        "template": {"a": 1, "thinks": False},
    }
    fitted, lost = fit(
        body,
        replaced_values={"stream": {"no": {"stream": False}}},
        added_fields={"stream": True},
        prefill_fields={"messages.prefix": True, "template": {"thinks": False}},
        **OWN,
    )
    assert fitted.body is body
    assert lost == {}


def test_object_that_a_server_needs_joins_the_one_that_is_there() -> None:
    fitted, lost = fit(
        {"messages": [{"role": "assistant"}], "template": {"a": 1, "thinks": True}},
        prefill_fields={"template": {"thinks": False}},
    )
    assert fitted.body["template"] == {"a": 1, "thinks": False}
    assert lost == {("template", "request", "replaced"): 1}


def test_messages_have_no_fields_but_those_that_are_known() -> None:
    known = {"role": "user", "content": "a"}
    body = {"messages": [known, {**known, "reasoning": "r", "refusal": None}, 5]}
    fitted, lost = fit(body, message_fields=frozenset({"role", "content"}))
    assert fitted.body == {"messages": [known, known, 5]}
    assert fitted.body["messages"][0] is known
    assert lost == {("reasoning", "messages", "dropped"): 1}
    for same in ({"messages": [known]}, {"messages": "a"}, {"other": 1}):
        assert fit(same, message_fields=frozenset({"role", "content"}))[0].body is same


def test_one_of_the_fields_that_exclude_each_other_stays() -> None:
    names = ("thinking", "effort", "budget")
    fitted, lost = fit({"budget": 1, "effort": "low", "x": 2}, alternative_fields=names)
    assert fitted.body == {"effort": "low", "x": 2}
    assert lost == {("budget", "request", "dropped beside effort"): 1}
    alone = {"effort": "low", "thinking": None}
    assert fit(alone, alternative_fields=names)[0].body is alone


def test_texts_of_a_length_that_is_refused_are_hashed() -> None:
    digest = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"  # of "a"
    bounds = {"user": (2, 4)}
    fitted, lost = fit({"user": "a"}, hashed_texts=bounds)
    assert fitted.body == {"user": digest}
    assert lost == {("user_hashed", "request", "written as its SHA-256"): 1}
    assert len(fit({"user": "abcde"}, hashed_texts=bounds)[0].body["user"]) == 64
    for legal in ({"user": "ab"}, {"user": "abcd"}, {"user": 5}, {"users": "a"}):
        assert fit(legal, hashed_texts=bounds)[0].body is legal

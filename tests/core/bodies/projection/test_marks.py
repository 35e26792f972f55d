"""Cache marks: each keeps its position or is a loss."""

from __future__ import annotations

from support.request_targets import (
    ALL_FIELDS,
    Projection,
    assistant,
    call,
    own,
    request,
    result,
    user,
)

from streamnorm import CacheMark, Text, Tool, ToolResult

MARK = CacheMark()


def test_marks_keep_their_positions() -> None:
    asked = request(
        user(Text("a", cache=MARK)),
        assistant(call("c", cache=MARK)),
        user(ToolResult("c", (Text("r", cache=MARK),), cache=MARK)),
        system=(Text("s", cache=CacheMark("1h")),),
        tools=(Tool("f", cache=MARK),),
    )
    assert Projection(asked).request is asked


def test_marks_without_a_place_are_dropped_and_counted() -> None:
    asked = request(
        user(Text("a", cache=MARK), "b"),
        assistant(Text("x", cache=MARK), call("c", cache=MARK)),
        user(ToolResult("c", (Text("r", cache=MARK),), cache=MARK)),
        system=(Text("s", cache=MARK),),
        tools=(Tool("f", cache=MARK), Tool("g")),
    )
    done = Projection(asked, marks=frozenset({"text"}))
    assert done.request == request(
        user(Text("a", cache=MARK), "b"),
        assistant("x", call("c")),
        user(ToolResult("c", (Text("r", cache=MARK),))),
        system=(Text("s"),),
        tools=(Tool("f"), Tool("g")),
    )
    assert done.lost == {"cache_mark_dropped": 5}
    none = Projection(asked, marks=frozenset())
    assert none.request.messages == (
        user("a", "b"),
        assistant("x", call("c")),
        user(result("c", "r")),
    )
    assert none.lost == {"cache_mark_dropped": 7}


def test_lifetimes_become_the_target_s() -> None:
    ttls = {"": "", "5m": "", "1h": "12h"}
    asked = request(
        user(Text("a", cache=MARK), Text("b", cache=CacheMark("5m"))),
        user(Text("c", cache=CacheMark("1h")), Text("d", cache=CacheMark("7d"))),
    )
    done = Projection(asked, mark_ttls=ttls)
    marks = [block.cache for _, blocks in done.messages for block in blocks]
    assert marks == [MARK, MARK, CacheMark("12h"), MARK]
    assert done.lost == {"cache_ttl": 3}


def test_the_first_marks_are_dropped_where_there_are_too_many() -> None:
    asked = request(
        user(Text("a", cache=MARK), Text("b", cache=MARK)),
        system=(Text("s", cache=MARK),),
        tools=(Tool("f", cache=MARK),),
    )
    done = Projection(asked, max_marks=2)
    assert done.request == request(
        user(Text("a", cache=MARK), Text("b", cache=MARK)), system=(Text("s"),), tools=(Tool("f"),)
    )
    assert done.lost == {"cache_mark_dropped": 2}
    mine = own(asked)
    assert Projection(mine, max_marks=2).request is mine


def test_the_lifetime_of_the_request_s_mark_becomes_the_target_s() -> None:
    ttls = {"": "", "1h": "12h"}
    for ttl, expected, lost in (
        (None, None, {}),
        ("1h", "12h", {"cache_ttl": 1}),
        ("5m", None, {"cache_ttl": 1}),
    ):
        done = Projection(request(user("a"), cache=CacheMark(ttl)), request_ttls=ttls)
        assert done.request.cache == CacheMark(expected)
        assert done.lost == lost
    mine = own(request(user("a"), cache=CacheMark("5m")))
    assert Projection(mine, request_ttls=ttls).request is mine


def test_the_lifetime_of_the_request_s_mark_is_lost_where_there_is_no_field() -> None:
    fields = ALL_FIELDS - {"cache"}
    for ttl, lost in (("1h", {"cache_ttl": 1}), (None, {})):
        done = Projection(request(user("a"), cache=CacheMark(ttl)), fields=fields)
        assert done.request.cache is None
        assert done.lost == lost


def test_lifetimes_do_not_grow_where_they_must_fall() -> None:
    hour = CacheMark("1h")
    asked = request(
        user(Text("a", cache=MARK), Text("b", cache=hour)),
        system=(Text("s", cache=hour),),
        cache=hour,
    )
    ttls = {"1h": "1h"}
    done = Projection(asked, request_ttls=ttls, falling_ttls=True)
    assert done.request == request(
        user(Text("a", cache=MARK), Text("b", cache=MARK)),
        system=(Text("s", cache=hour),),
        cache=MARK,
    )
    assert done.lost == {"cache_ttl": 2}
    assert Projection(asked, request_ttls=ttls).request is asked
    mine = own(asked)
    assert Projection(mine, request_ttls=ttls, falling_ttls=True).request is mine


def test_lifetimes_of_the_dialect_stay_where_nothing_is_known_of_them() -> None:
    mine = own(request(own(user(Text("a", cache=CacheMark("2h"))))))
    assert Projection(mine, only_refusals=True, mark_ttls={}).request is mine
    assert Projection(mine, mark_ttls={}).lost == {"cache_ttl": 1}

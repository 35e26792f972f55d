"""Cache marks: each keeps its position or is a loss."""

from __future__ import annotations

from support.bodies.projection_targets import (
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
        (None, None, []),
        ("1h", "12h", ["written as 12h"]),
        ("5m", None, ["written as the default"]),
    ):
        done = Projection(request(user("a"), cache=CacheMark(ttl)), request_ttls=ttls)
        assert done.request.cache == CacheMark(expected)
        assert [loss.detail for loss in done.losses] == lost
    mine = own(request(user("a"), cache=CacheMark("5m")))
    assert Projection(mine, request_ttls=ttls).request is mine


def test_the_lifetime_of_the_request_s_mark_is_lost_where_there_is_no_field() -> None:
    fields = ALL_FIELDS - {"cache"}
    for ttl, lost in (("1h", {"cache_ttl": 1}), (None, {})):
        asked = request(user("a"), cache=CacheMark(ttl))
        done = Projection(asked, fields=fields, marks=frozenset())
        assert done.request.cache is None
        assert done.lost == lost


def test_the_request_s_mark_is_lost_where_only_marks_on_parts_are_cached() -> None:
    for ttl in (None, "1h"):
        asked = request(user("a"), cache=CacheMark(ttl))
        done = Projection(asked, fields=ALL_FIELDS - {"cache"})
        assert done.request.cache is None
        assert done.lost == {"cache_mark_dropped": 1}


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


def test_lifetimes_fall_once() -> None:
    """Marks of the longest lifetime may follow each other, and short ones any of them."""
    hour = CacheMark("1h")
    system = (Text("s", cache=hour), Text("t", cache=hour))
    asked = request(user(Text("a", cache=hour), Text("b", cache=MARK)), system=system)
    done = Projection(asked, falling_ttls=True)
    assert (done.request, done.lost) == (asked, {})


def test_marks_within_results_move_to_them_where_they_have_no_place() -> None:
    hour = CacheMark("1h")
    for marks, outer, expected, lost in (
        ((None, hour), None, hour, {"cache_mark_moved": 1}),
        ((MARK, hour), None, hour, {"cache_mark_moved": 1, "cache_mark_dropped": 1}),
        ((None, hour), MARK, MARK, {"cache_mark_dropped": 1}),
        ((None, None), MARK, MARK, {}),
    ):
        content = tuple(Text("r", cache=mark) for mark in marks)
        asked = request(assistant(call("c")), user(ToolResult("c", content, cache=outer)))
        done = Projection(asked, marks_in_results=False)
        plain = ToolResult("c", (Text("r"), Text("r")), cache=expected)
        assert done.messages[1] == ("user", (plain,))
        assert done.lost == lost
        mine = own(asked)
        assert Projection(mine, marks_in_results=False).request is mine


def test_the_request_s_mark_is_one_of_those_that_are_counted() -> None:
    asked = request(user(Text("a", cache=MARK), Text("b", cache=MARK), "c"), cache=MARK)
    done = Projection(asked, max_marks=2, counts_request_mark=True)
    assert done.messages == [("user", (Text("a"), Text("b", cache=MARK), Text("c")))]
    assert done.request.cache == MARK
    assert done.lost == {"cache_mark_dropped": 1}
    assert Projection(asked, max_marks=2).request is asked
    fields = ALL_FIELDS - {"cache"}
    fewer = Projection(asked, max_marks=2, counts_request_mark=True, fields=fields)
    assert fewer.messages == [("user", asked.messages[0].blocks)]


def test_the_request_s_mark_lives_as_long_as_that_of_its_last_block() -> None:
    hour = CacheMark("1h")
    for whole, last, expected, lost in (
        (MARK, hour, hour, {"cache_ttl": 1}),
        (hour, hour, hour, {}),
        (hour, None, hour, {}),
    ):
        asked = request(user("a", Text("b", cache=last)), cache=whole)
        done = Projection(asked, counts_request_mark=True, request_ttls={"1h": "1h"})
        assert done.request.cache == expected
        assert done.lost == lost
    empty = own(request(cache=MARK))
    assert Projection(empty, counts_request_mark=True).request is empty


def test_lifetimes_of_the_dialect_stay_where_nothing_is_known_of_them() -> None:
    mine = own(request(own(user(Text("a", cache=CacheMark("2h"))))))
    assert Projection(mine, only_refusals=True, mark_ttls={}).request is mine
    assert Projection(mine, mark_ttls={}).lost == {"cache_ttl": 1}

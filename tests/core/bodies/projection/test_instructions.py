"""Instructions of system and developer, in the target's field or at a legal position."""

from __future__ import annotations

import pytest
from msgspec import structs
from support.bodies.projection_targets import (
    EVERYTHING,
    Projection,
    assistant,
    call,
    own,
    request,
    result,
    system,
    user,
)

from streamnorm import (
    Audio,
    CacheMark,
    Document,
    EncodeError,
    Image,
    InputMessage,
    ServerToolCall,
    ServerToolResult,
    Text,
)
from streamnorm._core.bodies.projection import place_instructions
from streamnorm._core.losses import Losses

DEVELOPER = InputMessage("developer", (Text("Dev."),))


def roles(done: Projection) -> list[str]:
    return [role for role, _ in done.messages]


def test_leading_instructions_join_the_blocks_of_the_field() -> None:
    asked = request(system("A"), DEVELOPER, user("Hi"), system=(Text("B"),))
    done = Projection(asked)
    assert done.request.system == (Text("B"), Text("A"), Text("Dev."))
    assert roles(done) == ["user"]
    assert done.lost == {}


@pytest.mark.parametrize("field", ["blocks", "message", "text"])
def test_blank_instructions_of_another_dialect_are_left_out(field: str) -> None:
    asked = request(user("Hi"), system=(Text(""), Text("A"), Text(" \n", cache=CacheMark())))
    done = Projection(asked, system=field)
    first = [*done.request.system, *(b for m in done.request.messages[:-1] for b in m.blocks)]
    assert first == [Text("A")]
    assert done.lost == {"cache_mark_dropped": 1}
    nothing = Projection(request(user("Hi"), system=(Text(""),)), system=field)
    assert nothing.request.system == ()
    assert roles(nothing) == ["user"]
    assert nothing.lost == {"empty_message_dropped": 1}
    kept = own(request(user("Hi"), system=(Text(""),)))
    assert Projection(kept, system="blocks").request is kept


PNG = Image("image/png", "aGk=")


@pytest.mark.parametrize("field", ["blocks", "message", "text"])
def test_files_of_instructions_go_behind_them(field: str) -> None:
    """OpenAI's Chat Completions says: images are only allowed for messages with role 'user'."""
    first = InputMessage("developer", (Text("A"), PNG, Document("application/pdf", "aGk=")))
    asked = request(first, system("B"), user("Hi"))
    done = Projection(asked, system=field)
    kept = [*done.request.system, *(b for m in done.request.messages[:-2] for b in m.blocks)]
    assert kept == [Text("A"), Text("B")]
    assert done.messages[-2:] == [
        ("user", (Text("[image and file of the system prompt]"), *first.blocks[1:])),
        ("user", (Text("Hi"),)),
    ]
    assert done.lost == {"system_moved": 1}
    assert Projection(asked, system="message", system_media=True).request is asked


def test_file_of_instructions_that_the_target_lacks_is_not_announced() -> None:
    files = Image("image/tiff", "aGk="), Audio("audio/wav", "aGk=")
    asked = request(InputMessage("system", (Text("A"), *files)), user("Hi"))
    done = Projection(asked, images=frozenset({"image/png"}), audio=False)
    assert done.request.system == (Text("A"),)
    assert done.messages == [("user", (Text("Hi"),))]
    assert done.lost == {"image_dropped": 1, "audio_dropped": 1}


def test_file_without_a_text_leaves_no_instructions() -> None:
    asked = request(user("Hi"), InputMessage("system", (PNG,)))
    done = Projection(asked)
    title = Text("[image of the system prompt]")
    assert done.messages == [("user", (Text("Hi"),)), ("user", (title, PNG))]
    assert done.lost == {"system_moved": 1}
    mine = own(request(own(InputMessage("system", (PNG,))), own(user("Hi"))))
    assert Projection(mine).request is mine


def test_leading_instructions_of_the_target_stay_messages() -> None:
    asked = request(own(system("A")), own(user("Hi")))
    assert Projection(asked).request is asked


def test_the_field_becomes_the_first_message_where_there_is_none() -> None:
    marked = Text("B", cache=CacheMark())
    done = Projection(request(user("Hi"), system=(Text("A"), marked)), system="message")
    assert done.request.system == ()
    assert done.messages == [("system", (Text("A"), marked)), ("user", (Text("Hi"),))]


def test_one_unmarked_text_stays_in_a_field_of_one_text() -> None:
    asked = request(user("Hi"), system=(Text("A"),))
    assert Projection(asked, system="text").request is asked
    for parts in ((Text("A"), Text("B")), (Text("A", cache=CacheMark()),)):
        done = Projection(request(user("Hi"), system=parts), system="text")
        assert done.messages[0] == ("developer", parts)
        assert done.request.system == ()


def test_developers_are_system_where_the_role_is_unknown() -> None:
    known = frozenset({"user", "assistant", "system"})
    asked = request(DEVELOPER, user("Hi"), DEVELOPER, user("Ho"))
    done = Projection(asked, system="message", roles=known)
    assert roles(done) == ["system", "user", "system", "user"]
    kept = Projection(asked, system="message")
    assert kept.request is asked


def test_several_leading_instructions_are_one_where_only_one_may_be() -> None:
    done = Projection(
        request(system("A"), DEVELOPER, user("Hi")), system="message", single_system=True
    )
    assert done.messages[0] == ("system", (Text("A"), Text("Dev.")))
    assert done.lost == {"messages_merged": 1}
    one = request(system("A"), user("Hi"))
    assert Projection(one, system="message", single_system=True).request is one


def test_instructions_in_the_middle_move_behind_the_user() -> None:
    asked = request(user("Hi"), assistant("Hello."), system("French."), user("And you?"))
    done = Projection(asked, inline_system="after_user")
    assert done.messages[2:] == [("user", (Text("And you?"),)), ("system", (Text("French."),))]
    assert done.lost == {"system_moved": 1}


def test_a_conversation_without_instructions_stays() -> None:
    asked = request(user("Hi"), assistant("Hello."), user("Ho"))
    assert Projection(asked, inline_system="after_user").request is asked


def test_instructions_behind_the_user_stay() -> None:
    asked = request(user("Hi"), system("French."), assistant("Salut."), user("Go on"))
    assert Projection(asked, inline_system="after_user").request.messages == asked.messages
    ending = request(user("Hi"), assistant("x"), user("y"), DEVELOPER)
    done = Projection(ending, inline_system="after_user")
    assert done.messages[3] == ("system", (Text("Dev."),))
    assert done.lost == {}


def test_instructions_of_the_target_stay_where_they_are() -> None:
    asked = request(*map(own, (user("a"), system("b"), user("c"), assistant("d"))))
    assert Projection(asked, inline_system="after_user").request is asked


def test_instructions_without_a_user_after_the_assistant_are_text_of_the_user() -> None:
    asked = request(user("Hi"), assistant("Hello."), system("French."))
    done = Projection(asked, inline_system="after_user")
    assert done.messages[2] == ("user", (Text("<system>\nFrench.\n</system>"),))
    assert done.lost == {"system_demoted": 1}


def test_instructions_are_text_of_the_user_where_there_is_no_other_place() -> None:
    asked = request(system("A"), user("Hi"), system("B", Image("image/png", "aGk=")), user("Ho"))
    done = Projection(asked, inline_system="text")
    assert done.request.system == (Text("A"),)
    assert done.messages[1] == (
        "user",
        (Text("<system>\nB\n</system>"), Image("image/png", "aGk=")),
    )
    assert roles(done) == ["user", "user", "user"]
    assert done.lost == {"system_demoted": 1}


def test_runs_of_one_role_are_joined_where_roles_must_alternate() -> None:
    asked = request(
        user("A"),
        user("B"),
        assistant("C", call("c")),
        user(result("c")),
        user("D"),
        user(Image("image/png", "aGk=")),
    )
    done = Projection(asked, strict_alternation=True)
    assert done.messages == [
        ("user", (Text("A\n\nB"),)),
        ("assistant", (Text("C"), call("c"))),
        ("user", (result("c"),)),
        ("assistant", (Text("OK."),)),
        ("user", (Text("D"), Image("image/png", "aGk="))),
    ]
    assert done.lost == {"messages_merged": 2, "assistant_filled": 1}
    alternating = request(user("A"), assistant("B"))
    assert Projection(alternating, strict_alternation=True).request is alternating


def test_calls_and_results_are_no_turns_where_roles_must_alternate() -> None:
    """Templates of Mistral's models count neither."""
    asked = request(
        system("S"),
        assistant(call("a")),
        user(result("a")),
        user("A"),
        assistant(call("b")),
        user(result("b")),
        assistant("B"),
    )
    assert Projection(asked, strict_alternation=True, system="message").request is asked


@pytest.mark.parametrize(
    ("messages", "path"),
    [
        ((assistant("A"), user("B")), "messages[0]"),
        ((user("A"), assistant(call("a")), user(result("a")), assistant("B")), None),
        ((user("A"), assistant("B"), user(result("x")), assistant("C")), "messages[3]"),
    ],
)
def test_a_turn_of_the_assistant_needs_one_of_the_user_before_it(
    messages: tuple[InputMessage, ...], path: str | None
) -> None:
    target = structs.replace(EVERYTHING, strict_alternation=True)
    if path is None:
        assert place_instructions((), messages, target, Losses()) == ((), messages)
        return
    with pytest.raises(EncodeError, match="a message of the assistant, expected one") as raised:
        place_instructions((), messages, target, Losses())
    assert raised.value.path == path


def test_a_message_of_the_user_is_demanded_where_a_server_demands_one() -> None:
    for messages in ((system("A"),), (system("A"), assistant(call("a")), user(result("a")))):
        with pytest.raises(EncodeError, match="messages: no message of the user, expected one"):
            Projection(request(*messages), user_message=True)
    asked = request(user("A"))
    assert Projection(asked, user_message=True).request is asked


def test_leading_instructions_of_the_dialect_leave_messages_where_the_server_refuses_them() -> None:
    asked = own(request(own(system("A")), own(user("B"))))
    assert Projection(asked, only_refusals=True, inline_system="after_user").request is asked
    done = Projection(asked, only_refusals=True, inline_system="text")
    assert (done.request.system, roles(done)) == ((Text("A"),), ["user"])
    assert done.lost == {"system_moved": 1}


def test_a_demoted_instruction_keeps_its_name() -> None:
    asked = request(user("A"), structs.replace(system("B"), name="ann"))
    done = Projection(asked, inline_system="text")
    assert done.request.messages[1].name == "ann"


def test_a_last_message_of_the_assistant_is_said_not_to_be_continued() -> None:
    asked = request(user("JSON"), assistant("{"))
    assert Projection(asked).lost == {}
    done = Projection(asked, prefill=False)
    assert done.request is asked
    assert done.lost == {"prefill_not_continued": 1}
    assert Projection(request(user("x"), own(assistant("{"))), prefill=False).lost == done.lost
    assert Projection(own(asked), same_target=True, prefill=False).lost == {}


def test_an_answer_paused_for_server_tools_is_continued_without_a_prefill() -> None:
    call = ServerToolCall("s1", "web_search", "{}", "server_tool_use")
    result = ServerToolResult("s1", "web_search_tool_result", [])
    for blocks in ((Text("Let me see."), call), (call, result)):
        asked = request(user("News?"), own(assistant(*blocks)))
        done = Projection(asked, prefill=False, server_history=True)
        assert done.request is asked
        assert done.lost == {}


def test_an_assistant_message_follows_results_where_a_server_demands_one() -> None:
    asked = request(
        assistant(call("a"), call("b")),
        user(result("a")),
        user(result("b")),
        user("x"),
        assistant(call("c")),
        user(result("c")),
        assistant("y"),
    )
    done = Projection(asked, results_then_assistant=True, split_results=True)
    assert roles(done) == [
        "assistant",
        "user",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert done.messages[3][1] == (Text("OK."),)
    assert done.lost == {"assistant_filled": 1}


def test_extra_fields_of_the_instructions_are_lost_by_name() -> None:
    mine, other = Text("A", extra={"target": {"a": 1}}), Text("B", extra={"other": {"b": 1}})
    done = Projection(request(user("Hi"), system=(mine, other)))
    assert done.request.system == (mine, Text("B"))
    assert done.lost == {"b": 1}


def test_calls_of_the_dialect_stay_apart_where_roles_must_alternate() -> None:
    asked = own(request(own(user("A")), own(assistant("B")), own(assistant(call("c")))))
    assert Projection(asked, only_refusals=True, strict_alternation=True).request is asked
    two = own(request(own(user("A")), own(user("B"))))
    done = Projection(two, only_refusals=True, strict_alternation=True)
    assert done.messages == [("user", (Text("A\n\nB"),))]

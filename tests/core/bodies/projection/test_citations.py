"""Citations: those without their source, and fields that the target does not know, are dropped."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from support.bodies.projection_targets import Projection, assistant, call, own, request, user

from streamnorm import (
    Citation,
    Document,
    InputBlock,
    ServerToolResult,
    Text,
    ToolResult,
)
from streamnorm._core.bodies.request import Source


@pytest.mark.parametrize("kind", ["search_result_location", "web_search_result_location"])
@pytest.mark.parametrize("only_refusals", [False, True])
def test_citations_of_search_results_are_dropped_with_the_results(
    kind: str, *, only_refusals: bool
) -> None:
    """A target that accepts the kind finds no result at the position."""
    cited = Text("a", (Citation(kind), Citation("known")))
    message = assistant(ServerToolResult("s", "web_search_tool_result", []), cited)
    asked = request(user("q"), message, user("r"))
    of_target = request(own(user("q")), own(message), own(user("r")))
    accepted = {"citations": frozenset({kind, "known"}), "only_refusals": only_refusals}
    for chat, has_history in ((asked, True), (own(of_target), False)):
        done = Projection(chat, server_history=has_history, **accepted)
        assert done.messages[1][1] == (Text("a", (Citation("known"),)),)
        assert done.lost == {"citations": 1, "server_history_dropped": 1}
    kept = Projection(own(of_target), server_history=True, **accepted)
    assert kept.messages[1][1] == message.blocks


@pytest.mark.parametrize("kind", ["char_location", "page_location", "content_block_location"])
def test_citations_of_fetched_documents_are_dropped_with_the_documents(kind: str) -> None:
    """They name a document by its position among those of the request, over all messages."""
    document = {"url": "u", "content": {"type": "document", "source": {}}}
    fetched = ServerToolResult("s", "web_fetch_tool_result", document)
    file, known = Document("text/plain", "a"), Citation("known")
    cited = [Citation(kind, extra={"document_index": number}) for number in range(3)]
    text = Text("a", (*cited, known, Citation(kind)))
    asked, result = user(file, Text("q")), user(ToolResult("c", (file,)))

    def project(*blocks: InputBlock) -> tuple[Projection, list[Any]]:
        answer = assistant(*blocks, text, call("c"))
        chat = request(asked, answer, result, assistant(text), user("r"))
        done = Projection(chat, citations=frozenset({kind, "known"}))
        texts = [block for _, blocks in done.messages for block in blocks]
        return done, [each.citations for each in texts if isinstance(each, Text) and each.citations]

    done, left = project()
    assert left == [(cited[0], known, Citation(kind)), (*cited[:2], known, Citation(kind))]
    assert done.lost == {"citations": 2}
    # The document of the result was the third one of the request, and is the second.
    done, left = project(fetched)
    assert left == [(cited[0], known, Citation(kind))] * 2
    assert done.lost == {"citations": 2, "server_history_dropped": 1}


def test_citations_of_fetched_documents_stay_with_the_documents() -> None:
    document = {"url": "u", "content": {"type": "document", "source": {}}}
    fetched = ServerToolResult("s", "web_fetch_tool_result", document)
    text = Text("a", (Citation("char_location", extra={"document_index": 0}),))
    mine, moved = own(assistant(fetched, text)), assistant(text)
    chat = request(own(user("q")), mine, own(user("r")), moved, own(user("s")))
    done = Projection(chat, citations=frozenset({"char_location"}), server_history=True)
    assert done.request is chat


def test_fields_of_a_citation_stay_with_their_vendor() -> None:
    """Gemini's name a `domain`, which its Interactions API, with the same kinds, does not know."""
    cited = Text("a", (Citation("known", extra={"domain": "d"}), Citation("known")))
    message = assistant(cited)
    asked = request(user("q"), message, user("r"))
    assert Projection(asked).messages[1][1] == (cited,)
    foreign = structs.replace(message, source=Source("another", None, None))
    done = Projection(request(user("q"), foreign, user("r")))
    assert done.messages[1][1] == (Text("a", (Citation("known"), Citation("known"))),)


def test_citations_have_the_fields_that_the_target_knows() -> None:
    extra = {"index": 1, "domain": "d"}
    cited = Text("a", (Citation("known", "u", cited_text="c", extra=extra), Citation("known", "v")))
    target = {"citations": frozenset({"known", "other"})}
    chat = request(user("q"), assistant(cited), user("r"))
    for fields, fitted in (
        ({"other": frozenset({"index"})}, Citation("known", "u", cited_text="c", extra=extra)),
        ({"known": frozenset({"index"})}, Citation("known", "u", extra={"index": 1})),
        (
            {"known": frozenset({"cited_text", "index", "domain"})},
            Citation("known", "u", cited_text="c", extra=extra),
        ),
        ({"known": frozenset()}, Citation("known", "u")),
    ):
        done = Projection(chat, citation_fields=fields, **target)
        assert done.messages[1][1] == (Text("a", (fitted, Citation("known", "v"))),)
        assert done.lost == ({} if fitted == cited.citations[0] else {"citation_fields": 1})
    mine = request(own(user("q")), own(assistant(cited)), own(user("r")))
    assert Projection(mine, citation_fields={"known": frozenset()}, **target).request is mine

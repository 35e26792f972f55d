"""How many documents a request has: the API refuses more than five."""

from __future__ import annotations

import pytest
from msgspec import structs

from streamnorm import (
    Document,
    EncodeError,
    InputMessage,
    Request,
    Text,
    ToolCall,
    ToolResult,
    decode_request,
    encode_request,
)

DIALECT = "bedrock_converse"
PNG = "iVBORw0KGgo="


def pdfs(count: int, start: int = 0) -> list[Document]:
    names = range(start, start + count)
    return [Document("application/pdf", PNG, title=f"d{name}") for name in names]


def test_text_documents_beyond_the_fifth_are_written_as_text() -> None:
    """The API refuses "more than 5 documents"; earlier ones stay what they were."""
    late = Document("text/plain", "Hi", title="late")
    result = ToolResult("c", (Text("found"), *pdfs(1, 4), late), value='{"a":1}')
    other = Document("application/zip", PNG)  # which is dropped, and takes no place
    history = (
        InputMessage("user", (Text("q"), other, *pdfs(4))),
        InputMessage("assistant", (ToolCall("c", "f"),)),
        InputMessage("user", (result, Text("r"), late)),
    )
    encoded = encode_request(Request(messages=history), DIALECT)
    first, _, second = encoded.body["messages"]
    assert ["document" in block for block in first["content"]] == [False] + 4 * [True]
    as_text = {"text": '<document title="late">\nHi\n</document>'}
    found, *rest = second["content"]
    texts = found["toolResult"]["content"]
    assert texts[0] == {"text": "found"}
    assert texts[1]["document"]["name"] == "d4"
    assert texts[2:] == [as_text]
    assert rest == [{"text": "r"}, as_text]
    lost = {loss.feature: loss.count for loss in encoded.losses}
    assert lost == {"document_dropped": 1, "document_as_text": 2, "tool_declared": 1}


def test_result_within_the_bound_keeps_its_value() -> None:
    result = ToolResult("c", (Text('{"a":1}'), *pdfs(1)), value='{"a":1}')
    late = Document("text/plain", "Hi")
    history = (
        InputMessage("user", (Text("q"),)),
        InputMessage("assistant", (ToolCall("c", "f"),)),
        InputMessage("user", (result, *pdfs(4, 1), late)),
    )
    found, *rest = encode_request(Request(messages=history), DIALECT).body["messages"][2]["content"]
    content = found["toolResult"]["content"]
    assert content[0] == {"json": {"a": 1}}
    assert content[1]["document"]["name"] == "d0"
    assert rest[4:] == [{"text": "<document>\nHi\n</document>"}]


def test_sixth_document_that_is_no_text_is_an_error_that_names_the_message() -> None:
    history = (
        InputMessage("user", (Text("q"), *pdfs(3))),
        InputMessage("assistant", (Text("a"),)),
        InputMessage("user", (Text("r"), *pdfs(3, 3))),
    )
    with pytest.raises(EncodeError, match="more than 5 documents, expected at most") as caught:
        encode_request(Request(messages=history), DIALECT)
    assert caught.value.path == "messages[2]"
    few = (*history[:2], InputMessage("user", (Text("r"), *pdfs(2, 3))))
    assert encode_request(Request(messages=few), DIALECT).losses == ()


def test_documents_of_a_client_of_the_api_are_sent_as_it_wrote_them() -> None:
    documents = [
        {"document": {"format": "pdf", "name": f"d{number}", "source": {"bytes": PNG}}}
        for number in range(6)
    ]
    body = {"messages": [{"role": "user", "content": [{"text": "q"}, *documents]}]}
    asked = decode_request(body, DIALECT)
    assert encode_request(asked, DIALECT).body == body
    late = InputMessage("user", (Document("text/plain", "Hi"),))
    more = (*asked.messages, InputMessage("assistant", (Text("a"),)), late)
    encoded = encode_request(structs.replace(asked, messages=more), DIALECT)
    assert encoded.body["messages"][0] == body["messages"][0]
    assert encoded.body["messages"][2]["content"] == [{"text": "<document>\nHi\n</document>"}]


def test_search_results_take_no_place_of_documents() -> None:
    found = {"searchResult": {"source": "s", "title": "t", "content": [{"text": "a"}]}}
    body = {"messages": [{"role": "user", "content": [found]}]}
    (block,) = decode_request(body, DIALECT).messages[0].blocks
    message = InputMessage("user", (Text("q"), *(block for _ in range(6)), *pdfs(5)))
    (written,) = encode_request(Request(messages=(message,)), DIALECT).body["messages"]
    content = written["content"]
    assert sum("searchResult" in item for item in content) == 6
    assert sum("document" in item for item in content) == 5

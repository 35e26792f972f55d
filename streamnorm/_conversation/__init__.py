"""The history of one chat, independent of any provider.

Read `conversation.py` first; `answers.py` is how an answer becomes a message of the history,
`open_calls.py` which calls wait for results, and `stored.py` the history as JSON.
"""

from streamnorm._conversation.answers import StreamedAnswer
from streamnorm._conversation.conversation import Conversation

__all__ = ["Conversation", "StreamedAnswer"]

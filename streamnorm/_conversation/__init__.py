"""The history of one chat, independent of any provider.

Read `conversation.py` first.  `answers.py` turns answers into messages of the history and tracks
the calls that wait for results; `conversation.py` also reads and writes it as JSON.
"""

from streamnorm._conversation.answers import StreamedAnswer
from streamnorm._conversation.conversation import Conversation

__all__ = ["Conversation", "StreamedAnswer"]

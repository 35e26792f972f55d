"""Encoding of an agent's run as one stream for a web page (`useChat` or AG-UI).

stream_run, iter_run     the steps of an agent's run in, the bytes of one stream out
Run                      the same without I/O
encode_messages          a stored chat as the messages of a page
"""

from streamnorm.frontend.messages import PageMessages, encode_messages
from streamnorm.frontend.runs import Run, RunItem
from streamnorm.frontend.streaming import iter_run, stream_run

__all__ = ["PageMessages", "Run", "RunItem", "encode_messages", "iter_run", "stream_run"]

"""Translation of requests from client to upstream, and of answers back, without I/O.

`requests` translates a client's request into the dialect of its upstream, `passthrough` prepares
one for an upstream of the same dialect, and `foreign_turns` disowns what other vendors wrote in its
history.  `answers` translates complete answers and errors, and `auxiliary` serves token counts,
model lists and stored responses.
"""

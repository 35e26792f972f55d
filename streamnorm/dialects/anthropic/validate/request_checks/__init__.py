"""Checks of what Anthropic refuses: fields, content, the order of messages, and options.

Parts of a request that several checks visit are in `parts.py`.
"""

"""Checks of what Google refuses: fields, parts, the order of turns, tools and options.

Parts of a request that several checks visit are in `parts.py`.
"""

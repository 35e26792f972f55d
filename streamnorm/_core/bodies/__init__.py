"""Unified requests, and their reduction to what a target accepts."""

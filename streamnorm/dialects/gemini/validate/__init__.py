"""Strict validator of Gemini streams."""

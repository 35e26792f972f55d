"""Test support for whole bodies: generated, captured, damaged and compared."""

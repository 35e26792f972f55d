"""Test support for streams: generated, recorded, damaged and compared."""

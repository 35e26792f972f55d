"""Whole bodies of any dialect: generated, captured, damaged and compared."""

"""Small tools for small libraries."""

__version__ = "0.4.1"

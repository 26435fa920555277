"""Decodes by the native crate: makes plans for it, and runs them."""

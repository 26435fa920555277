"""Decoding by the native crate: plans and the reader that runs them."""

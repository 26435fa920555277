package io.github.pysparkpravega;

/** Marks a component of a record of the pipe that may be null, as `| None` does in catalog/protocol/. */
@interface OrNull {}

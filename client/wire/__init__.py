"""The segment store's wire protocol: commands and replies as bytes. Pure, without I/O."""

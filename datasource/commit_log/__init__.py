"""The commit log of a scope: which transactions each version of a stream is made of."""

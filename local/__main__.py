"""`python -m pyspark_pravega.local` is `pyspark-pravega local`."""

from .command import local

local(prog_name="pyspark-pravega local")

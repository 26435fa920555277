"""`python -m pyspark_pravega` is `pyspark-pravega`."""

from pyspark_pravega.cli import main

main(prog_name="pyspark-pravega")

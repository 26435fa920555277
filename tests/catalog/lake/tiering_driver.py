"""A Spark session that tiers a table once, and may be killed meanwhile; it says when it begins, and when it is done.

python -m tests.catalog.lake.tiering_driver CONTROLLER REGISTRY SCOPE STREAM SETTINGS
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

from pyspark_pravega import configure


def main(controller: str, registry: str, scope: str, stream: str, settings: str) -> None:
    """Call the procedure `tier`, in a session that has read the table before."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for key, text in json.loads(settings).items():
        builder = builder.config(f"spark.sql.catalog.pravega.lake.{key}", text)
    spark = configure(builder, controller_uri=controller, schema_registry_uri=registry).getOrCreate()
    spark.table(f"pravega.`{scope}`.`{stream}`").count()
    print("began", flush=True)
    spark.sql(f"CALL pravega.system.tier(table => '{scope}.{stream}')").collect()
    print("committed", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Events into a stream that the pipeline does not own: a sink."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

dp.create_sink("alarms", "pravega", {"scope": "iot", "stream": "alarms"})


@dp.append_flow(target="alarms")
def hot_alarms() -> DataFrame:
    """Send an alarm for each hot reading."""
    spark = SparkSession.getActiveSession()
    assert spark is not None
    return spark.readStream.table("pravega.iot.hot").selectExpr("location", "concat('hot: ', temp) AS text")

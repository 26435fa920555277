package io.github.pysparkpravega;

import org.apache.spark.sql.connector.catalog.procedures.SimpleProcedure;

/** A procedure whose parameters are known before it is bound: DESCRIBE PROCEDURE shows them, from Spark 4.2 on. */
interface LineProcedure extends SimpleProcedure {}

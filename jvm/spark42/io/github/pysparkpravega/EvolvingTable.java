package io.github.pysparkpravega;

import org.apache.spark.sql.connector.catalog.SupportsSchemaEvolution;

/** A table whose columns INSERT and MERGE WITH SCHEMA EVOLUTION may change: Spark asks which changes it takes. */
interface EvolvingTable extends SupportsSchemaEvolution {}

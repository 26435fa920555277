package io.github.pysparkpravega;

import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;

/** A procedure whose parameters are known before it is bound. */
interface LineProcedure extends UnboundProcedure, BoundProcedure {}

package io.github.pysparkpravega;

import org.apache.spark.sql.catalyst.parser.ParserInterface;

/** Parsers of Spark 4.1 have nothing of their own. */
interface LineParser extends ParserInterface {}

package io.github.pysparkpravega;

import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;

/** Throws errors of the service, as Spark's own where Spark has them. */
final class SparkErrors {
  private SparkErrors() {}

  static RuntimeException ofNamespace(Exception e, String[] namespace) {
    return PravegaException.unchecked(
        PravegaException.is(e, "PRAVEGA_SCOPE_NOT_FOUND") ? new NoSuchNamespaceException(namespace) : e);
  }

  static RuntimeException ofTable(Exception e, Identifier ident) {
    boolean missing =
        PravegaException.is(e, "PRAVEGA_STREAM_NOT_FOUND") || PravegaException.is(e, "PRAVEGA_SCOPE_NOT_FOUND");
    return PravegaException.unchecked(missing ? new NoSuchTableException(ident) : e);
  }

  static RuntimeException ofNewTable(Exception e, Identifier ident) {
    boolean taken = PravegaException.is(e, "PRAVEGA_STREAM_EXISTS") || PravegaException.is(e, "PRAVEGA_VIEW_EXISTS");
    return taken
        ? PravegaException.unchecked(new TableAlreadyExistsException(ident))
        : ofNamespace(e, ident.namespace());
  }
}

package io.github.pysparkpravega;

import java.util.function.Function;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;

/** Functions that return Spark's own errors for some conditions of the service, and null for the others. */
final class SparkErrors {
  static Function<String, Exception> ofNamespace(String[] namespace) {
    return condition -> condition.equals("PRAVEGA_SCOPE_NOT_FOUND") ? new NoSuchNamespaceException(namespace) : null;
  }

  static Function<String, Exception> ofTable(Identifier ident) {
    return condition -> condition.matches("PRAVEGA_(STREAM|SCOPE)_NOT_FOUND") ? new NoSuchTableException(ident) : null;
  }

  static Function<String, Exception> ofNewTable(Identifier ident) {
    return condition -> condition.matches("PRAVEGA_(STREAM|VIEW)_EXISTS")
        ? new TableAlreadyExistsException(ident)
        : ofNamespace(ident.namespace()).apply(condition);
  }
}

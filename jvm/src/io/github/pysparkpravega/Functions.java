package io.github.pysparkpravega;

import io.github.pysparkpravega.Requests.LoadSegments;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;

/** The functions of a catalog: those of the namespace `system`, and one of each table. */
interface Functions extends FunctionCatalog, Namespaces {
  @Override
  default Identifier[] listFunctions(String[] namespace) throws NoSuchNamespaceException {
    if (PravegaFunctions.isSystem(namespace)) {
      return PravegaFunctions.ofSystem();
    }
    requireNamespace(namespace);
    return new Identifier[0];
  }

  @Override
  default UnboundFunction loadFunction(Identifier ident) throws NoSuchFunctionException {
    String[] path = ident.namespace();
    UnboundFunction found = PravegaFunctions.isSystem(path) ? PravegaFunctions.ofSystem(ident.name()) : null;
    if (path.length == 2 && ident.name().equalsIgnoreCase(PravegaFunctions.SEGMENT_OF)) {
      Identifier table = Identifier.of(new String[] {path[0]}, path[1]);
      return PravegaFunctions.segmentOf(service().call(new LoadSegments(table.namespace(), table.name()), condition -> {
        if (condition.equals("PRAVEGA_STREAM_NOT_FOUND")) {
          return Callers.isFunctionExists() ? new NoSuchFunctionException(ident) : new NoSuchTableException(table);
        }
        return null;
      }));
    }
    if (found == null) {
      throw new NoSuchFunctionException(ident);
    }
    return found;
  }
}

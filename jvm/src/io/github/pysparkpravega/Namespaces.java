package io.github.pysparkpravega;

import io.github.pysparkpravega.Requests.*;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NonEmptyNamespaceException;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;

/** The namespaces of a catalog, which are Pravega's scopes. */
interface Namespaces extends SupportsNamespaces {
  PravegaService service();

  @Override
  default String[][] listNamespaces() {
    return Arrays.stream(service().call(new ListNamespaces())).map(scope -> new String[] {scope})
        .toArray(String[][]::new);
  }

  @Override
  default String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    requireNamespace(namespace);
    return namespace.length == 0 ? listNamespaces() : new String[0][];
  }

  @Override
  default boolean namespaceExists(String[] namespace) {
    return service().call(new NamespaceExists(namespace));
  }

  default void requireNamespace(String[] namespace) throws NoSuchNamespaceException {
    if (namespace.length > 0 && !namespaceExists(namespace)) {
      throw new NoSuchNamespaceException(namespace);
    }
  }

  @Override
  default Map<String, String> loadNamespaceMetadata(String[] namespace) {
    return service().call(new LoadNamespace(namespace), SparkErrors.ofNamespace(namespace));
  }

  @Override
  default void createNamespace(String[] namespace, Map<String, String> metadata) {
    service().call(new CreateNamespace(namespace, metadata), condition ->
        condition.equals("PRAVEGA_SCOPE_EXISTS") ? new NamespaceAlreadyExistsException(namespace) : null);
  }

  @Override
  default void alterNamespace(String[] namespace, NamespaceChange... changes) {
    List<Requests.NamespaceChange> described = Arrays.stream(changes).map(change ->
        change instanceof NamespaceChange.SetProperty set
            ? new Requests.NamespaceChange(set.property(), set.value())
            : new Requests.NamespaceChange(((NamespaceChange.RemoveProperty) change).property(), null)).toList();
    service().call(new AlterNamespace(namespace, described), SparkErrors.ofNamespace(namespace));
  }

  @Override
  default boolean dropNamespace(String[] namespace, boolean cascade) {
    return service().call(new DropNamespace(namespace, cascade), condition ->
        !cascade && condition.equals("PRAVEGA_SCOPE_NOT_EMPTY")
            ? new NonEmptyNamespaceException(namespace)
            : SparkErrors.ofNamespace(namespace).apply(condition));
  }
}

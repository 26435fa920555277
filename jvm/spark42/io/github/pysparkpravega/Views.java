package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.*;
import io.github.pysparkpravega.Requests.*;
import java.util.Arrays;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchViewException;
import org.apache.spark.sql.catalyst.analysis.ViewAlreadyExistsException;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.RelationCatalog;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableSummary;
import org.apache.spark.sql.connector.catalog.View;

/** The views of a catalog, which has tables too: Spark expands and checks them, the service keeps them. */
interface Views extends RelationCatalog {
  PravegaService service();

  @Override
  default Identifier[] listViews(String[] namespace) throws NoSuchNamespaceException {
    try {
      return Arrays.stream(service().call(new ListViews(namespace))).map(view -> Identifier.of(namespace, view))
          .toArray(Identifier[]::new);
    } catch (Exception e) {
      throw error(e, namespace, null);
    }
  }

  /** Lists all that SHOW TABLES shows; Spark's own method loads each table to say what it is. */
  @Override
  default TableSummary[] listRelationSummaries(String[] namespace) throws NoSuchNamespaceException {
    try {
      Relations found = service().call(new ListRelations(namespace));
      TableSummary[] all = Stream.concat(
          summaries(namespace, found.tables(), TableSummary.MANAGED_TABLE_TYPE),
          summaries(namespace, found.views(), TableSummary.VIEW_TABLE_TYPE)).toArray(TableSummary[]::new);
      Browsing.noteTables((Tables) this, Arrays.stream(all).map(TableSummary::identifier).toArray(Identifier[]::new));
      return all;
    } catch (Exception e) {
      throw error(e, namespace, null);
    }
  }

  private static Stream<TableSummary> summaries(String[] namespace, String[] names, String type) {
    return Arrays.stream(names).map(name -> TableSummary.of(Identifier.of(namespace, name), type));
  }

  @Override
  default View createView(Identifier ident, View view) throws ViewAlreadyExistsException, NoSuchNamespaceException {
    return put(ident, view, true, false);
  }

  @Override
  default View replaceView(Identifier ident, View view) throws NoSuchViewException {
    return put(ident, view, false, true);
  }

  @Override
  default View createOrReplaceView(Identifier ident, View view)
      throws ViewAlreadyExistsException, NoSuchNamespaceException {
    return put(ident, view, true, true);
  }

  private View put(Identifier ident, View view, boolean make, boolean replace) {
    ViewDefinition described = new ViewDefinition(view.queryText(), view.schema(), view.currentCatalog(),
        view.currentNamespace(), view.sqlConfigs(), view.schemaMode(), view.queryColumnNames(), view.properties());
    try {
      service().call(
          new PutView(ident.namespace(), ident.name(), described, make, replace, isStreaming(view)));
      return view;
    } catch (Exception e) {
      throw error(e, ident.namespace(), ident);
    }
  }

  @Override
  default boolean dropView(Identifier ident) {
    return service().call(new DropView(ident.namespace(), ident.name()));
  }

  @Override
  default void renameView(Identifier ident, Identifier renamed) throws NoSuchViewException, ViewAlreadyExistsException {
    try {
      service().call(new RenameView(ident.namespace(), ident.name(), renamed.namespace(), renamed.name()));
    } catch (Exception e) {
      boolean missing = PravegaException.is(e, "PRAVEGA_VIEW_NOT_FOUND");
      throw missing ? error(e, ident.namespace(), ident) : error(e, renamed.namespace(), renamed);
    }
  }

  /** Returns whether the query of a view reads a STREAM; the text of a view of metrics is not a query. */
  private static boolean isStreaming(View view) throws ParseException {
    ParserInterface parser = SparkSession.active().sessionState().sqlParser();
    boolean metrics = TableSummary.METRIC_VIEW_TABLE_TYPE.equals(view.properties().get(TableCatalog.PROP_TABLE_TYPE));
    return !metrics && Scripts.isStreaming(parser.parsePlan(view.queryText()));
  }

  /** The view that the service describes. */
  static View of(ViewDefinition found) {
    View.Builder view = new View.Builder();
    view.withSchema(found.schema());
    view.withProperties(found.properties());
    view.withQueryText(found.text()).withSqlConfigs(found.settings());
    view.withCurrentCatalog(found.catalog()).withCurrentNamespace(found.namespace());
    return view.withSchemaMode(found.schemaMode()).withQueryColumnNames(found.queryColumns()).build();
  }

  private static RuntimeException error(Exception e, String[] namespace, Identifier ident) {
    if (PravegaException.is(e, "PRAVEGA_SCOPE_NOT_FOUND")) {
      return PravegaException.unchecked(new NoSuchNamespaceException(namespace));
    }
    if (PravegaException.is(e, "PRAVEGA_VIEW_NOT_FOUND")) {
      return PravegaException.unchecked(new NoSuchViewException(ident));
    }
    boolean taken = PravegaException.is(e, "PRAVEGA_VIEW_EXISTS") || PravegaException.is(e, "PRAVEGA_STREAM_EXISTS");
    return PravegaException.unchecked(taken ? new ViewAlreadyExistsException(ident) : e);
  }
}

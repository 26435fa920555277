package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.*;
import io.github.pysparkpravega.Requests.*;
import java.util.Arrays;
import java.util.function.Function;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.analysis.NoSuchViewException;
import org.apache.spark.sql.catalyst.analysis.ViewAlreadyExistsException;
import org.apache.spark.sql.catalyst.parser.ParseException;
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
  default Identifier[] listViews(String[] namespace) {
    return Arrays.stream(service().call(new ListViews(namespace), SparkErrors.ofNamespace(namespace)))
        .map(view -> Identifier.of(namespace, view)).toArray(Identifier[]::new);
  }

  /** Lists all that SHOW TABLES shows; Spark's own method loads each table to say what it is. */
  @Override
  default TableSummary[] listRelationSummaries(String[] namespace) {
    Relations found = service().call(new ListRelations(namespace), SparkErrors.ofNamespace(namespace));
    TableSummary[] all = Stream.concat(
        summaries(namespace, found.tables(), TableSummary.MANAGED_TABLE_TYPE),
        summaries(namespace, found.views(), TableSummary.VIEW_TABLE_TYPE)).toArray(TableSummary[]::new);
    Browsing.noteTables((Tables) this, Arrays.stream(all).map(TableSummary::identifier).toArray(Identifier[]::new));
    return all;
  }

  private static Stream<TableSummary> summaries(String[] namespace, String[] names, String type) {
    return Arrays.stream(names).map(name -> TableSummary.of(Identifier.of(namespace, name), type));
  }

  @Override
  default View createView(Identifier ident, View view) {
    return put(ident, view, true, false);
  }

  @Override
  default View replaceView(Identifier ident, View view) {
    return put(ident, view, false, true);
  }

  @Override
  default View createOrReplaceView(Identifier ident, View view) {
    return put(ident, view, true, true);
  }

  private View put(Identifier ident, View view, boolean make, boolean replace) {
    ViewDefinition described = new ViewDefinition(view.queryText(), view.schema(), view.currentCatalog(),
        view.currentNamespace(), view.sqlConfigs(), view.schemaMode(), view.queryColumnNames(), view.properties());
    PutView request = new PutView(ident.namespace(), ident.name(), described, make, replace, isStreaming(view));
    service().call(request, errors(ident, ident));
    return view;
  }

  @Override
  default boolean dropView(Identifier ident) {
    return service().call(new DropView(ident.namespace(), ident.name()));
  }

  @Override
  default void renameView(Identifier ident, Identifier renamed) {
    service().call(
        new RenameView(ident.namespace(), ident.name(), renamed.namespace(), renamed.name()), errors(ident, renamed));
  }

  /** Returns whether the query of a view reads a STREAM; the text of a view of metrics is not a query. */
  private static boolean isStreaming(View view) {
    boolean metrics = TableSummary.METRIC_VIEW_TABLE_TYPE.equals(view.properties().get(TableCatalog.PROP_TABLE_TYPE));
    try {
      return !metrics
          && Scripts.isStreaming(SparkSession.active().sessionState().sqlParser().parsePlan(view.queryText()));
    } catch (ParseException e) {
      throw PravegaException.unchecked(e);
    }
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

  /** Returns Spark's errors for a statement about a view that must exist, or one that must not. */
  private static Function<String, Exception> errors(Identifier needed, Identifier made) {
    return condition -> switch (condition) {
      case "PRAVEGA_VIEW_NOT_FOUND" -> new NoSuchViewException(needed);
      case "PRAVEGA_VIEW_EXISTS", "PRAVEGA_STREAM_EXISTS" -> new ViewAlreadyExistsException(made);
      default -> SparkErrors.ofNamespace(made.namespace()).apply(condition);
    };
  }
}

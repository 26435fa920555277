package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
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
      List<Identifier> views = new ArrayList<>();
      service().call("list_views", PravegaCatalog.arguments(namespace)).forEach(
          view -> views.add(Identifier.of(namespace, view.asText())));
      return views.toArray(new Identifier[0]);
    } catch (Exception e) {
      throw error(e, namespace, null);
    }
  }

  /** All that SHOW TABLES lists; Spark's own way loads each table to say what it is. */
  @Override
  default TableSummary[] listRelationSummaries(String[] namespace) throws NoSuchNamespaceException {
    try {
      JsonNode found = service().call("list_relations", PravegaCatalog.arguments(namespace));
      List<TableSummary> all = new ArrayList<>();
      found.get("tables").forEach(table -> all.add(
          TableSummary.of(Identifier.of(namespace, table.asText()), TableSummary.MANAGED_TABLE_TYPE)));
      found.get("views").forEach(view -> all.add(
          TableSummary.of(Identifier.of(namespace, view.asText()), TableSummary.VIEW_TABLE_TYPE)));
      Browsing.listed((PravegaCatalog) this, all.stream().map(TableSummary::identifier).toArray(Identifier[]::new));
      return all.toArray(new TableSummary[0]);
    } catch (Exception e) {
      throw error(e, namespace, null);
    }
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
    ObjectNode arguments = PravegaCatalog.arguments(ident).put("make", make).put("replace", replace);
    describe(view, arguments.putObject("view"));
    try {
      arguments.put("streaming", isStreaming(view));
      service().call("put_view", arguments);
      return view;
    } catch (Exception e) {
      throw error(e, ident.namespace(), ident);
    }
  }

  @Override
  default boolean dropView(Identifier ident) {
    return service().call("drop_view", PravegaCatalog.arguments(ident)).asBoolean();
  }

  @Override
  default void renameView(Identifier ident, Identifier renamed) throws NoSuchViewException, ViewAlreadyExistsException {
    ObjectNode arguments = PravegaCatalog.arguments(ident).put("new_name", renamed.name());
    arguments.set("new_namespace", Service.JSON.valueToTree(renamed.namespace()));
    try {
      service().call("rename_view", arguments);
    } catch (Exception e) {
      boolean missing = PravegaException.is(e, "PRAVEGA_VIEW_NOT_FOUND");
      throw missing ? error(e, ident.namespace(), ident) : error(e, renamed.namespace(), renamed);
    }
  }

  /** Whether the query of a view reads a STREAM; the text of a view of metrics is no query. */
  private static boolean isStreaming(View view) throws ParseException {
    ParserInterface parser = SparkSession.active().sessionState().sqlParser();
    boolean metrics = TableSummary.METRIC_VIEW_TABLE_TYPE.equals(view.properties().get(TableCatalog.PROP_TABLE_TYPE));
    return !metrics && Scripts.isStreaming(parser.parsePlan(view.queryText()));
  }

  private static void describe(View view, ObjectNode described) {
    described.put("text", view.queryText()).put("schema", view.schema().json());
    described.put("catalog", view.currentCatalog()).put("schema_mode", view.schemaMode());
    described.set("namespace", Service.JSON.valueToTree(view.currentNamespace()));
    described.set("query_columns", Service.JSON.valueToTree(view.queryColumnNames()));
    described.set("settings", Service.pairs(view.sqlConfigs()));
    described.set("properties", Service.pairs(view.properties()));
  }

  /** The view that the service describes. */
  static View of(JsonNode found) {
    View.Builder view = new View.Builder();
    view.withSchema(PravegaTable.struct(found.get("schema").asText()));
    view.withProperties(Service.texts(found.get("properties")));
    view.withQueryText(found.get("text").asText()).withSqlConfigs(Service.texts(found.get("settings")));
    view.withCurrentCatalog(found.get("catalog").asText()).withCurrentNamespace(texts(found.get("namespace")));
    return view.withSchemaMode(found.get("schema_mode").textValue())
        .withQueryColumnNames(texts(found.get("query_columns"))).build();
  }

  private static String[] texts(JsonNode list) {
    return Service.JSON.convertValue(list, String[].class);
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

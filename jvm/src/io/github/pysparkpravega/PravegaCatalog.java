package io.github.pysparkpravega;

import io.github.pysparkpravega.Requests.DefaultNamespace;
import io.github.pysparkpravega.Requests.ListProcedures;
import java.util.Arrays;
import java.util.Set;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Spark's catalog interfaces, each call handed to the catalog service and its errors turned into Spark's own. Each of
 * the interfaces that it is made of has the calls about one thing; those about procedures are here.
 */
public final class PravegaCatalog implements Tables, Functions, ProcedureCatalog {
  private final TablesOfQueries ofQueries;
  private final boolean ofCreateTable;
  private final Browsing ofShowTableExtended;
  private String name;
  private PravegaService service;
  private volatile String[] selected;

  public PravegaCatalog() {
    this.ofQueries = new TablesOfQueries();
    this.ofCreateTable = false;
    this.ofShowTableExtended = null;
  }

  private PravegaCatalog(PravegaCatalog ofSession, boolean ofCreateTable) {
    this.name = ofSession.name;
    this.service = ofSession.service;
    this.ofQueries = ofSession.ofQueries;
    this.ofCreateTable = ofCreateTable;
    this.ofShowTableExtended = ofCreateTable ? null : new Browsing(this);
  }

  /** This catalog for the plan of one CREATE TABLE. */
  PravegaCatalog forCreateTable() {
    return new PravegaCatalog(this, true);
  }

  /** This catalog for the plan of one SHOW TABLE EXTENDED. */
  PravegaCatalog forShowTableExtended() {
    return new PravegaCatalog(this, false);
  }

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    this.service = PravegaService.of(name, options);
    TableCommands.in(SparkSession.active());
  }

  @Override
  public String name() {
    return name;
  }

  /** Constraints and defaults of CREATE TABLE come to createTable, which refuses those that a stream cannot have. */
  @Override
  public Set<TableCatalogCapability> capabilities() {
    return Set.of(TableCatalogCapability.SUPPORT_TABLE_CONSTRAINT, TableCatalogCapability.SUPPORT_COLUMN_DEFAULT_VALUE);
  }

  @Override
  public PravegaService service() {
    return service;
  }

  @Override
  public TablesOfQueries ofQueries() {
    return ofQueries;
  }

  @Override
  public boolean isOfCreateTable() {
    return ofCreateTable;
  }

  @Override
  public Browsing ofShowTableExtended() {
    return ofShowTableExtended;
  }

  @Override
  public String[] defaultNamespace() {
    if (selected == null) {
      selected = service.call(new DefaultNamespace());
    }
    return selected.clone();
  }

  /** The service refuses an unknown name when it is asked for the parameters. */
  @Override
  public UnboundProcedure loadProcedure(Identifier ident) {
    return new Procedure(service, ident);
  }

  @Override
  public Identifier[] listProcedures(String[] namespace) {
    String[] system = {"system"};
    return Arrays.stream(service.call(new ListProcedures(namespace))).map(name -> Identifier.of(system, name))
        .toArray(Identifier[]::new);
  }
}

package io.github.pysparkpravega;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;

/** The procedures of a catalog, as the service has them. An interface, so that the catalog has room for others. */
interface Procedures extends ProcedureCatalog {
  PravegaService service();

  /** The service refuses a name that there is not when it is asked for the parameters. */
  @Override
  default UnboundProcedure loadProcedure(Identifier ident) {
    return new Procedure(service(), ident);
  }

  @Override
  default Identifier[] listProcedures(String[] namespace) {
    List<Identifier> found = new ArrayList<>();
    service().call("list_procedures", PravegaCatalog.arguments(namespace)).forEach(
        name -> found.add(Identifier.of(new String[] {"system"}, name.asText())));
    return found.toArray(new Identifier[0]);
  }
}

package io.github.pysparkpravega;

import io.github.pysparkpravega.Requests.ListProcedures;
import java.util.Arrays;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;

/** The procedures of a catalog, as the service has them. */
interface Procedures extends ProcedureCatalog {
  PravegaService service();

  /** The service refuses an unknown name when it is asked for the parameters. */
  @Override
  default UnboundProcedure loadProcedure(Identifier ident) {
    return new Procedure(service(), ident);
  }

  @Override
  default Identifier[] listProcedures(String[] namespace) {
    String[] system = {"system"};
    return Arrays.stream(service().call(new ListProcedures(namespace))).map(name -> Identifier.of(system, name))
        .toArray(Identifier[]::new);
  }
}

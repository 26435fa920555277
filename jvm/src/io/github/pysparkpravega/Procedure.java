package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** A procedure that the service describes when it is asked for, and carries out. */
final class Procedure implements LineProcedure {
  private final PravegaService service;
  private final Identifier ident;
  private JsonNode description;

  Procedure(PravegaService service, Identifier ident) {
    this.service = service;
    this.ident = ident;
  }

  private JsonNode described() {
    if (description == null) {
      description = load(null);
    }
    return description;
  }

  private JsonNode load(StructType given) {
    return service.call(
        "load_procedure", PravegaCatalog.arguments(ident).put("given", given == null ? null : given.json()));
  }

  @Override
  public String name() {
    return described().get("name").asText();
  }

  @Override
  public String description() {
    return described().get("comment").asText();
  }

  /** Spark binds what is unbound again: what is returned is not. */
  @Override
  public BoundProcedure bind(StructType given) {
    description = load(given);
    return new Bound(this);
  }

  private record Bound(Procedure procedure) implements BoundProcedure {
    @Override
    public String name() {
      return procedure.name();
    }

    @Override
    public ProcedureParameter[] parameters() {
      return procedure.parameters();
    }

    @Override
    public boolean isDeterministic() {
      return procedure.isDeterministic();
    }

    @Override
    public Iterator<Scan> call(InternalRow input) {
      return procedure.call(input);
    }
  }

  @Override
  public boolean isDeterministic() {
    return false;
  }

  @Override
  public ProcedureParameter[] parameters() {
    JsonNode described = described().get("parameters");
    ProcedureParameter[] parameters = new ProcedureParameter[described.size()];
    for (int index = 0; index < parameters.length; index++) {
      JsonNode one = described.get(index);
      ProcedureParameter.Builder builder =
          ProcedureParameter.in(one.get("name").asText(), DataType.fromJson(one.get("type").asText()));
      builder.comment(one.get("comment").asText());
      if (one.get("optional").asBoolean()) {
        builder.defaultValue("NULL");
      }
      parameters[index] = builder.build();
    }
    return parameters;
  }

  @Override
  public Iterator<Scan> call(InternalRow input) {
    ProcedureParameter[] parameters = parameters();
    Map<String, String> given = new HashMap<>();
    for (int index = 0; index < parameters.length; index++) {
      if (!input.isNullAt(index)) {
        given.put(parameters[index].name(), input.get(index, parameters[index].dataType()).toString());
      }
    }
    ObjectNode arguments = PravegaCatalog.arguments(ident);
    arguments.set("given", Service.pairs(given));
    JsonNode rows = service.call("call_procedure", arguments).get("rows");
    Scan result = new RowsOfService(PravegaTable.struct(described().get("schema").asText()), () -> rows);
    return List.of(result).iterator();
  }
}

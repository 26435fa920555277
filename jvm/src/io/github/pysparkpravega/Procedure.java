package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.github.pysparkpravega.Replies.MetadataRows;
import io.github.pysparkpravega.Replies.ProcedureDescription;
import io.github.pysparkpravega.Requests.*;
import java.util.*;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructType;

/** A procedure that the service describes when it is asked for, and carries out. */
final class Procedure implements LineProcedure {
  private final PravegaService service;
  private final Identifier ident;
  private ProcedureDescription description;

  Procedure(PravegaService service, Identifier ident) {
    this.service = service;
    this.ident = ident;
  }

  private ProcedureDescription describe() {
    if (description == null) {
      description = load(null);
    }
    return description;
  }

  private ProcedureDescription load(StructType given) {
    return service.call(new LoadProcedure(ident.namespace(), ident.name(), given));
  }

  @Override
  public String name() {
    return describe().name();
  }

  @Override
  public String description() {
    return describe().comment();
  }

  /** Returns a bound procedure that is not unbound too: Spark would bind that again. */
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
    return describe().parameters().stream().map(described -> {
      ProcedureParameter.Builder builder = ProcedureParameter.in(described.name(), described.type());
      builder.comment(described.comment());
      return (described.optional() ? builder.defaultValue("NULL") : builder).build();
    }).toArray(ProcedureParameter[]::new);
  }

  @Override
  public Iterator<Scan> call(InternalRow input) {
    ProcedureParameter[] parameters = parameters();
    Map<String, String> given = new HashMap<>();
    for (int index = 0; index < parameters.length; index++) {
      if (!input.isNullAt(index)) {
        DataType type = parameters[index].dataType();
        given.put(parameters[index].name(),
            type instanceof MapType ? texts(input.getMap(index)) : input.get(index, type).toString());
      }
    }
    String query = describe().startsQuery() ? given.get("query") : null;
    QueryFacts facts = query == null ? null : RunningQueries.describe(service, query);
    MetadataRows answer = call(given, facts, null);
    while (answer.pending() != null) {
      answer = call(given, facts, answer.steps() != null ? DriverSteps.take(answer.pending(), answer.steps())
          : new TasksDone(answer.pending(), PravegaScan.search(answer.tasks()), null));
    }
    JsonNode rows = answer.rows();
    Scan result = new RowsOfService(describe().schema(), () -> rows);
    return List.of(result).iterator();
  }

  private MetadataRows call(Map<String, String> given, QueryFacts facts, TasksDone done) {
    return service.call(new CallProcedure(ident.namespace(), ident.name(), given, facts, done));
  }

  /** Returns the text of a map of texts, as a JSON object. */
  private static String texts(MapData map) {
    ObjectNode texts = JsonNodeFactory.instance.objectNode();
    for (int index = 0; index < map.numElements(); index++) {
      boolean given = !map.valueArray().isNullAt(index);
      texts.put(map.keyArray().getUTF8String(index).toString(),
          given ? map.valueArray().getUTF8String(index).toString() : null);
    }
    return texts.toString();
  }
}

package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The catalog service as one catalog or one source sees it: each call goes with the same conf. */
record PravegaService(String python, ArrayNode conf) {
  static PravegaService of(CaseInsensitiveStringMap conf) {
    return new PravegaService(Interpreter.ofService(conf), Service.pairs(conf.asCaseSensitiveMap()));
  }

  /** Plans show it in errors, and the conf may have a password. */
  @Override
  public String toString() {
    return "PravegaService";
  }

  JsonNode call(String operation, ObjectNode arguments) {
    return Service.call(python, operation, conf, arguments);
  }

  /** As call, once more if the service ends meanwhile. */
  JsonNode repeat(String operation, ObjectNode arguments) {
    return Service.repeat(python, operation, conf, arguments);
  }

  /** As call, whatever interrupts the thread. */
  JsonNode finish(String operation, ObjectNode arguments) {
    return Service.finish(python, operation, conf, arguments);
  }

  /** Throws the service's sentence about a statement that streams cannot do. */
  void refuse(Identifier ident, String statement) {
    call("refuse", PravegaCatalog.arguments(ident).put("statement", statement));
  }
}

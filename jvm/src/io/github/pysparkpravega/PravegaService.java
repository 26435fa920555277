package io.github.pysparkpravega;

import io.github.pysparkpravega.Requests.Refuse;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The catalog service as one catalog or one source sees it: each call goes with the same conf. */
record PravegaService(String python, Map<String, String> conf) {
  static PravegaService of(CaseInsensitiveStringMap conf) {
    return new PravegaService(Interpreter.ofService(conf), conf.asCaseSensitiveMap());
  }

  /** Plans show it in errors, and the conf may have a password. */
  @Override
  public String toString() {
    return "PravegaService";
  }

  /** Returns the reply to a request. An interrupt takes the request back. */
  <R> R call(Request<R> request) {
    return Service.running(python).send(conf, request, true);
  }

  /** As call, for what may be done twice: asks once more if the service ends before its reply. */
  <R> R repeat(Request<R> request) {
    try {
      return call(request);
    } catch (Exception e) {
      if (!PravegaException.is(e, Service.FAILED)) {
        throw e;
      }
      return call(request);
    }
  }

  /** As call, for what must come to its end: an interrupt is kept for later. */
  <R> R finish(Request<R> request) {
    return Service.running(python).send(conf, request, false);
  }

  /** Throws the service's error for a statement that tables cannot do. */
  void refuse(Identifier ident, String statement) {
    call(new Refuse(ident.namespace(), ident.name(), statement, null));
  }
}

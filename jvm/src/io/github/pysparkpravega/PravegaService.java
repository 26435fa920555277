package io.github.pysparkpravega;

import io.github.pysparkpravega.Requests.Refuse;
import java.util.*;
import java.util.function.Function;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The catalog service as one catalog or one source sees it: each call goes with the same conf. */
record PravegaService(String python, Map<String, String> conf) {
  /** Keys that are not the user's; catalog/storage/catalogs.py says what they mean. */
  private static final Set<String> OF_SERVICE = Set.of("catalog-name", "by-options", "of-statement",
      "of-session", "session-connections", "session-user");

  /** The service as a catalog sees it whose conf a session has. */
  static PravegaService of(String catalog, CaseInsensitiveStringMap ofSession) {
    DriverConf driver = DriverConf.of(catalog);
    CaseInsensitiveStringMap conf = driver.keepSecrets(ofSession);
    Map<String, String> given = new HashMap<>(conf.asCaseSensitiveMap());
    given.keySet().removeAll(OF_SERVICE);
    given.put("catalog-name", catalog);
    List<String> changed = driver.listChanged(conf);
    if (!changed.isEmpty()) {
      given.put("of-session", String.join(",", changed));
    }
    if (driver.letsSessionsConnect()) {
      given.put("session-connections", "true");
    }
    given.putAll(DriverConf.findUser());
    return new PravegaService(Interpreter.ofService(driver.letsSessionsConnect() ? conf : driver.atStart()), given);
  }

  /** The service as the driver's environment says. */
  static PravegaService ofEnvironment() {
    return new PravegaService(Interpreter.ofService(CaseInsensitiveStringMap.empty()), DriverConf.findUser());
  }

  /** Plans show it in errors, and the conf may have a password. */
  @Override
  public String toString() {
    return "PravegaService";
  }

  /** Returns the reply to a request. An interrupt takes the request back. */
  <R> R call(Request<R> request) {
    return Service.running(python, request).send(conf, request, true);
  }

  /** As call, with the errors that `spark` returns for conditions in place of the service's own. */
  <R> R call(Request<R> request, Function<String, Exception> spark) {
    try {
      return call(request);
    } catch (Exception e) {
      Exception known = e instanceof PravegaException failed ? spark.apply(failed.getCondition()) : null;
      throw PravegaException.unchecked(known == null ? e : known);
    }
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
    return Service.running(python, request).send(conf, request, false);
  }

  /** Throws the service's error for a statement that tables cannot do. */
  void refuse(Identifier ident, String statement) {
    call(new Refuse(ident.namespace(), ident.name(), statement, null));
  }
}

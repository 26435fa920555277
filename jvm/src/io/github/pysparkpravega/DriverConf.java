package io.github.pysparkpravega;

import java.util.*;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Tuple2;

/**
 * A catalog's conf as the driver had it when it started. A session decides neither where the driver's logins go nor which
 * programs it runs, unless the driver's conf lets sessions do so.
 */
record DriverConf(CaseInsensitiveStringMap atStart, boolean hasCatalog, boolean letsSessionsConnect) {
  static final String CATALOG = "spark.sql.catalog.";
  private static final String USER_LOGINS = ".security.userlogins";
  private static final String SINGLE_SESSION = "spark.sql.hive.thriftServer.singleSession";
  private static final Pattern SECRET = Pattern.compile("(?i)security\\.(password|auth-token)");
  private static final Pattern VARIABLE = Pattern.compile("\\$\\{env:([^}]+)}");
  private static final String SESSIONS_CONNECT = "spark.pravega.session-connections";

  static DriverConf of(String catalog) {
    SparkConf conf = SparkEnv.get().conf();
    Map<String, String> atStart = new HashMap<>();
    for (Tuple2<String, String> entry : conf.getAllWithPrefix(CATALOG + catalog + ".")) {
      atStart.put(entry._1(), entry._2());
    }
    return new DriverConf(new CaseInsensitiveStringMap(atStart),
        conf.get(CATALOG + catalog, "").equals(PravegaCatalog.class.getName()), conf.getBoolean(SESSIONS_CONNECT, false));
  }

  /** Returns the conf with the session's user, if the driver's conf gives users logins of their own. */
  static Map<String, String> findUser() {
    SparkConf conf = SparkEnv.get().conf();
    // The service takes keys in camel case too.
    boolean hasLogins = Arrays.stream(conf.getAllWithPrefix(CATALOG))
        .anyMatch(entry -> entry._1().toLowerCase(Locale.ROOT).replace("-", "").endsWith(USER_LOGINS));
    if (hasLogins && conf.getBoolean(SINGLE_SESSION, false)) {
      return Map.of("session-user", ""); // one session, and so one catalog, for all connections
    }
    String user = hasLogins ? SessionUsers.find(SparkSession.active()) : null;
    return user == null ? Map.of() : Map.of("session-user", user);
  }

  /** Returns a session's conf with the driver's secrets: comparing them would tell a session whether it guessed one. */
  CaseInsensitiveStringMap keepSecrets(CaseInsensitiveStringMap ofSession) {
    Map<String, String> conf = new HashMap<>(ofSession.asCaseSensitiveMap());
    conf.replaceAll((key, text) -> !letsSessionsConnect && SECRET.matcher(key).matches()
        ? atStart.getOrDefault(key, text) : text);
    return new CaseInsensitiveStringMap(conf);
  }

  /** Returns the keys whose values a session has changed, added or removed; an empty one for the catalog itself. */
  List<String> listChanged(CaseInsensitiveStringMap ofSession) {
    TreeSet<String> keys = new TreeSet<>(atStart.keySet());
    keys.addAll(ofSession.keySet());
    keys.removeIf(key -> expand(atStart.get(key)).equals(expand(ofSession.get(key))));
    if (!hasCatalog) {
      keys.add("");
    }
    return List.copyOf(keys);
  }

  /** Returns what a conf refers to: sessions of the Thrift server have it expanded already. */
  private static Optional<String> expand(String text) {
    return Optional.ofNullable(text).map(given -> VARIABLE.matcher(given).replaceAll(
        found -> Matcher.quoteReplacement(System.getenv().getOrDefault(found.group(1), found.group()))));
  }
}

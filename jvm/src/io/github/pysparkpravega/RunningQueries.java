package io.github.pysparkpravega;

import io.github.pysparkpravega.Replies.*;
import io.github.pysparkpravega.Requests.*;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.execution.CommandExecutionMode;
import org.apache.spark.sql.types.StructType;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The streaming queries of start_query that this driver runs for one catalog. The service decides; this starts and stops
 * what it is told to, each query in a session of its own, and reports about once a second, or when one starts or ends.
 */
final class RunningQueries {
  private static final Logger LOG = LoggerFactory.getLogger(RunningQueries.class);
  private static final Map<String, RunningQueries> BY_CATALOG = new ConcurrentHashMap<>();
  private static final long AGAIN_MS = 1000;

  private final String catalog;
  private final SparkSession base;
  private final String server;
  private final Map<Run, RunningQuery> queries = new ConcurrentHashMap<>();

  /** One lease on a query. Runs of several may be there at once, if one is still starting or ending. */
  private record Run(String scope, String name, long epoch) {}

  private RunningQueries(String catalog, SparkSession session) {
    this.catalog = catalog;
    this.base = session;
    this.server = hostName() + ":" + ProcessHandle.current().pid() + "/" + UUID.randomUUID().toString().substring(0, 8);
    Service.daemon("queries-" + catalog, this::tend).start();
  }

  /** Runs the queries of catalogs whose conf says so. Called for every new session. */
  static void resume(SparkSession session) {
    SparkConf conf = session.sparkContext().conf();
    for (Tuple2<String, String> entry : conf.getAllWithPrefix(DriverConf.CATALOG)) {
      String name = entry._1();
      String run = conf.get(DriverConf.CATALOG + name + ".queries.run", "").trim().toLowerCase(Locale.ROOT);
      if (entry._2().equals(PravegaCatalog.class.getName()) && !run.isEmpty() && !run.equals("false")) {
        of(name, session);
      }
    }
  }

  private static RunningQueries of(String catalog, SparkSession session) {
    return BY_CATALOG.compute(catalog, (name, running) -> running != null && !running.hasEnded()
        ? running : new RunningQueries(name, session));
  }

  /** Returns what Spark says of a query that start_query gets in the active session. */
  static QueryFacts describe(PravegaService service, String text) {
    SparkSession asking = SparkSession.active();
    RunningQueries running = of(service.conf().get("catalog-name"), asking);
    CatalogManager names = asking.sessionState().catalogManager();
    Map<String, String> settings = new TreeMap<>();
    CollectionConverters.asJava(asking.sessionState().conf().getAllConfs()).forEach((key, value) -> {
      if (isSetting(asking, key)) {
        settings.put(key, value);
      }
    });
    settings.put("spark.sql.session.timeZone", asking.sessionState().conf().sessionLocalTimeZone());
    String[] namespace = names.currentNamespace();
    SparkSession session = running.newSession(settings);
    boolean ownConf = !running.hasConf(session, service.conf());
    String current = names.currentCatalog().name();
    if (ownConf || SparkVersion.isOlder(session.version(), "4.3")) { // the service refuses it
      return new QueryFacts(
          running.server, session.version(), ownConf, false, new StructType(), settings, current, namespace);
    }
    LogicalPlan analyzed = RunningQuery.within(session, () -> {
      select(session, current, namespace);
      return session.sessionState().executePlan(
          session.sessionState().sqlParser().parseQuery(text), CommandExecutionMode.SKIP()).analyzed();
    });
    return new QueryFacts(running.server, session.version(), false, analyzed.isStreaming(), analyzed.schema(), settings,
        current, namespace);
  }

  /** Only what a session may change counts, and no catalog: whoever may write a query's row has no say in the rest. */
  private static boolean isSetting(SparkSession session, String key) {
    return key.startsWith("spark.sql.") && !key.startsWith(DriverConf.CATALOG) && session.conf().isModifiable(key);
  }

  private boolean hasConf(SparkSession session, Map<String, String> conf) {
    try {
      CatalogPlugin found = session.sessionState().catalogManager().catalog(catalog);
      return found instanceof PravegaCatalog ours && ours.service().conf().equals(conf);
    } catch (Exception e) {
      return false; // other sessions do not know the catalog
    }
  }

  /** Returns a session as resumed queries get it: nothing is in it that another server has not. */
  SparkSession newSession(Map<String, String> settings) {
    SparkSession session = base.newSession();
    settings.forEach((key, value) -> {
      if (isSetting(session, key)) {
        session.conf().set(key, value);
      }
    });
    return session;
  }

  static void select(SparkSession session, String catalog, String[] namespace) {
    CatalogManager names = session.sessionState().catalogManager();
    names.setCurrentCatalog(catalog);
    if (namespace.length > 0) {
      names.setCurrentNamespace(namespace);
    }
  }

  private boolean hasEnded() {
    return base.sparkContext().isStopped();
  }

  private PravegaService service() {
    return ((PravegaCatalog) newSession(Map.of()).sessionState().catalogManager().catalog(catalog)).service();
  }

  private void tend() {
    base.sparkContext().setLocalProperties(new Properties()); // those of the statement that came first
    PravegaService service = null;
    String said = "";
    while (!hasEnded()) {
      try {
        service = service == null ? service() : service;
        List<RunningQuery> told = List.copyOf(queries.values());
        List<QueryReport> reports = told.stream().map(RunningQuery::report).toList();
        if (hasEnded()) { // queries that end with Spark have not come to their own end
          break;
        }
        // Ctrl-C in a shell means its statement, and an answer that is lost would leave a query unstarted.
        QueryCommands commands = service.finish(new TendQueries(server, reports));
        for (int i = 0; i < told.size(); i++) {
          told.get(i).noteTold(reports.get(i));
        }
        commands.stop().forEach(this::stop);
        for (QueryStart start : commands.start()) {
          start(service, start);
        }
        said = "";
      } catch (Exception e) {
        if (!said.equals(e.getMessage()) && !hasEnded()) {
          said = String.valueOf(e.getMessage());
          LOG.warn("Queries of catalog {} are not tended now: {}", catalog, said);
        }
        pause(AGAIN_MS);
      }
    }
    if (service != null) {
      service.finish(new ReleaseQueries(server));
    }
  }

  private void start(PravegaService service, QueryStart start) {
    RunningQuery query = new RunningQuery(service, start);
    queries.put(new Run(start.scope(), start.name(), start.epoch()), query);
    Service.daemon("run-query", () -> {
      query.start(() -> newSession(start.settings()));
      wake(service);
      query.awaitEnd();
      wake(service);
    }).start();
  }

  /** Has the next reports asked for at once. */
  private void wake(PravegaService service) {
    if (hasEnded()) {
      return;
    }
    try {
      service.finish(new WakeQueries());
    } catch (Exception e) {
      LOG.debug("The next reports of queries of catalog {} come in a second: {}", catalog, e.getMessage());
    }
  }

  private void stop(QueryStop stop) {
    Run run = new Run(stop.scope(), stop.name(), stop.epoch());
    RunningQuery query = queries.get(run);
    if (query == null) {
      return;
    }
    if (query.isOver()) {
      queries.remove(run);
    } else if (query.beginsToStop(stop.atOnce())) {
      Service.daemon("stop-query", query::stop).start();
    }
  }

  static void pause(long milliseconds) {
    try {
      Thread.sleep(milliseconds);
    } catch (InterruptedException e) {
      // nobody interrupts these threads
    }
  }

  private static String hostName() {
    try {
      return InetAddress.getLocalHost().getHostName();
    } catch (UnknownHostException e) {
      return "localhost";
    }
  }
}

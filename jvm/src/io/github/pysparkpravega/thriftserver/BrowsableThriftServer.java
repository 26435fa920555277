package io.github.pysparkpravega.thriftserver;

import java.net.InetAddress;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hive.service.cli.CLIService;
import org.apache.hive.service.cli.session.HiveSession;
import org.apache.hive.service.cli.session.SessionManager;
import org.apache.hive.service.cli.thrift.ThriftCLIService;
import org.apache.hive.service.server.HiveServer2;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.sql.hive.thriftserver.HiveThriftServer2;
import org.apache.spark.sql.hive.thriftserver.ReflectionUtils;
import org.apache.spark.sql.hive.thriftserver.server.SparkSQLOperationManager;
import scala.Option;

/**
 * Spark's Thrift server with metadata calls that show all catalogs: Spark's own server lists only the session catalog.
 *
 * <p>It sets fields by reflection, as Spark does to make its server of Hive's.
 */
public final class BrowsableThriftServer {
  /** Runs the server until Spark's context is stopped. SparkSubmit may stop the context when a main method returns. */
  public static void main(String[] arguments) throws InterruptedException {
    HiveThriftServer2.main(arguments);
    if (HiveThriftServer2.listener() == null) {
      return; // asked for help
    }
    CountDownLatch ended = new CountDownLatch(1);
    SparkContext.getOrCreate().addSparkListener(new SparkListener() {
      @Override
      public void onApplicationEnd(SparkListenerApplicationEnd event) {
        ended.countDown();
      }
    });
    Option<HiveServer2> server = ReflectionUtils.getAncestorField(HiveThriftServer2.listener(), 0, "server");
    makeBrowsable(server.get());
    System.err.println("ready: " + url(server.get()));
    ended.await();
  }

  /** Returns the URL for clients. */
  private static String url(HiveServer2 server) {
    ThriftCLIService service = ReflectionUtils.getSuperField(server, "thriftCLIService");
    InetAddress address = service.getServerIPAddress();
    String host = address == null || address.isAnyLocalAddress() ? "localhost" : address.getHostAddress();
    String http = HiveServer2.isHTTPTransportMode(service.getHiveConf())
        ? "/;transportMode=http;httpPath=" + service.getHiveConf().getVar(HiveConf.ConfVars.HIVE_SERVER2_THRIFT_HTTP_PATH)
        : "";
    return "jdbc:hive2://" + (host.contains(":") ? "[" + host + "]" : host) + ":" + service.getPortNumber() + http;
  }

  /** Makes a running server browsable, for its present connections and for later ones. */
  public static void makeBrowsable(HiveServer2 server) {
    CLIService service = ReflectionUtils.getSuperField(server, "cliService");
    SessionManager sessions = service.getSessionManager();
    CatalogOperations operations = new CatalogOperations((SparkSQLOperationManager) sessions.getOperationManager());
    ReflectionUtils.setSuperField(sessions, "operationManager", operations);
    Map<?, HiveSession> open = ReflectionUtils.getSuperField(sessions, "handleToSession");
    open.values().forEach(session -> session.setOperationManager(operations));
  }
}

package io.github.pysparkpravega.thriftserver;

import java.util.*;
import org.apache.hadoop.hive.ql.session.SessionState;
import org.apache.hive.service.cli.SessionHandle;
import org.apache.hive.service.cli.CLIService;
import org.apache.hive.service.cli.session.HiveSession;
import org.apache.hive.service.cli.session.SessionManager;
import org.apache.hive.service.server.HiveServer2;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.hive.thriftserver.HiveThriftServer2;
import org.apache.spark.sql.hive.thriftserver.ReflectionUtils;
import org.apache.spark.sql.hive.thriftserver.server.SparkSQLOperationManager;
import scala.Option;

/** The users of a Thrift server's sessions. */
public final class ThriftUsers {
  /** Returns the user of a session, an empty text if no connection or several users have it, null without a server. */
  public static String find(SparkSession session) {
    if (HiveThriftServer2.listener() == null) {
      return null;
    }
    Option<HiveServer2> server = ReflectionUtils.getAncestorField(HiveThriftServer2.listener(), 0, "server");
    CLIService service = ReflectionUtils.getSuperField(server.get(), "cliService");
    SessionManager sessions = service.getSessionManager();
    Map<SessionHandle, SparkSession> known =
        ((SparkSQLOperationManager) sessions.getOperationManager()).sessionToContexts();
    Map<SessionHandle, HiveSession> open = ReflectionUtils.getSuperField(sessions, "handleToSession");
    Set<String> users = new TreeSet<>();
    for (HiveSession connection : List.copyOf(open.values())) {
      SparkSession of = known.get(connection.getSessionHandle());
      // While a connection is being opened, its namespace is selected already. Then this thread alone has its state.
      boolean opening = of == null && connection.getSessionState() == SessionState.get();
      if (of == session || (opening && !known.containsValue(session))) {
        users.add(String.valueOf(connection.getUserName()));
      }
    }
    return users.size() == 1 ? users.iterator().next() : "";
  }
}

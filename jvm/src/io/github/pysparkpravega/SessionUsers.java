package io.github.pysparkpravega;

import io.github.pysparkpravega.thriftserver.ThriftUsers;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** The users of a server's sessions, as its front end names them. Whether that asks for a password is its affair. */
final class SessionUsers {
  /** The user of a server's session that nobody knows. */
  private static final String UNKNOWN = "";

  /** Returns the user of a session, UNKNOWN if it is a server's and has none, null in a driver that serves nobody. */
  static String find(SparkSession session) {
    String ofThrift = ofThrift(session);
    String ofConnect = ofConnect(session);
    if (ofThrift == null || ofConnect == null) {
      return ofThrift == null ? ofConnect : ofThrift;
    }
    return ofThrift.isEmpty() ? ofConnect : ofThrift;
  }

  private static String ofThrift(SparkSession session) {
    try {
      return ThriftUsers.find(session);
    } catch (LinkageError e) {
      return null; // a Spark without Hive has no such server
    }
  }

  /** By reflection: the package of Spark Connect's server may be absent. */
  private static String ofConnect(SparkSession session) {
    try {
      Object service = Class.forName("org.apache.spark.sql.connect.service.SparkConnectService$").getField("MODULE$").get(null);
      if (!(boolean) call(service, "started")) {
        return null;
      }
      Seq<?> sessions = (Seq<?>) call(call(service, "sessionManager"), "listActiveSessions");
      for (Object info : CollectionConverters.asJava(sessions)) {
        if (call(info, "serverSessionId").equals(session.sessionUUID())) {
          return (String) call(info, "userId");
        }
      }
      return UNKNOWN;
    } catch (ClassNotFoundException | NoClassDefFoundError e) {
      return null;
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException("This version of Spark Connect does not tell whose session this is", e);
    }
  }

  private static Object call(Object target, String method) throws ReflectiveOperationException {
    return target.getClass().getMethod(method).invoke(target);
  }
}

package io.github.pysparkpravega;

/**
 * Recognizes callers in Spark by the stack; no other class looks at it. For CREATE TABLE and SHOW TABLE EXTENDED the
 * plan says enough, see TableCommands. These calls differ from others by nothing but their caller:
 *
 * <ul>
 *   <li>`toTable` runs the plan of a CREATE TABLE and then loads the table, as `catalog.createTable()` does. Neither the
 *       plan nor an argument says that a streaming query will follow, and only that query may make the table.
 *   <li>`catalog.listTables()` runs SHOW TABLES, then one plan for each table. Nothing connects these plans. Without the
 *       stack, a table that was loaded ahead could get to a later statement, which must see the table as it is then.
 *   <li>`catalog.tableExists()` and `functionExists()` load as all queries do, and need another answer where a load
 *       fails. Only the unresolved plan names them. Rules could read it, but a session that got the jar by ADD JAR has
 *       no rules of this adapter.
 *   <li>Spark loads the tables of a query again right before it runs the query.
 *   <li>A shell and the Thrift server run a query at once, which programs may write as a stream instead.
 * </ul>
 */
final class Callers {
  private static final String CATALOG = ".classic.Catalog";

  static boolean isToTable() {
    return isOnStack(".DataStreamWriter", "toTable");
  }

  static boolean isListTables() {
    return isOnStack(CATALOG, "makeTablesDataset");
  }

  static boolean isTableExists() {
    return isOnStack(CATALOG, "tableExists");
  }

  static boolean isFunctionExists() {
    return isOnStack(CATALOG, "functionExists");
  }

  static boolean isRefresh() {
    return isOnStack(".V2TableRefreshUtil$", "refresh");
  }

  /** Returns whether a client of SQL runs the query itself, and not a statement or a procedure that has it as text. */
  static boolean isSqlClient() {
    return StackWalker.getInstance().walk(frames -> frames.map(StackWalker.StackFrame::getClassName)
        .filter(name -> name.matches(".*(Command|CommandExec|pysparkpravega\\.(Running|Procedure)\\w*)")
            || name.endsWith(".SparkSQLDriver") || name.endsWith(".SparkExecuteStatementOperation"))
        .findFirst().filter(name -> name.contains(".thriftserver.")).isPresent());
  }

  private static boolean isOnStack(String name, String method) {
    return StackWalker.getInstance().walk(frames -> frames.anyMatch(
        frame -> frame.getClassName().endsWith(name) && frame.getMethodName().equals(method)));
  }
}

import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/**
 * Looks at a Thrift server as a tool over JDBC does: Jdbc.java URL NAMESPACE QUERY...
 *
 * <p>Prints one line for each row: the call that gave it, and its cells, separated by tabs.
 */
public final class Jdbc {
    public static void main(String[] arguments) throws SQLException {
        String namespace = arguments[1];
        try (Connection connection = DriverManager.getConnection(arguments[0])) {
            try (Statement statement = connection.createStatement()) {
                for (int number = 2; number < arguments.length; number++) {
                    show("query", statement.executeQuery(arguments[number]));
                }
            }
            DatabaseMetaData metadata = connection.getMetaData();
            show("catalogs", metadata.getCatalogs());
            show("schemas", metadata.getSchemas(null, namespace));
            show("tables", metadata.getTables(null, namespace, "%", null));
            show("columns", metadata.getColumns(null, namespace, "%", "%"));
        }
    }

    private static void show(String call, ResultSet rows) throws SQLException {
        int width = rows.getMetaData().getColumnCount();
        while (rows.next()) {
            StringBuilder line = new StringBuilder(call);
            for (int column = 1; column <= width; column++) {
                line.append('\t').append(rows.getString(column));
            }
            System.out.println(line);
        }
        rows.close();
    }
}

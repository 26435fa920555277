import java.io.IOException;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/**
 * Looks at a Thrift server as a tool over JDBC does: Jdbc.java URL CALL...
 *
 * <p>A call is its name and its arguments, separated by tabs; an argument "null" is null. Prints one line for each row:
 * the number of the call and its cells, separated by tabs, or "error" and the message. The call "connect" has the URL for
 * those that follow; "named keys" are the keys behind a row with the names of their columns; a "cancelled query" is cancelled
 * when a line comes in.
 */
public final class Jdbc {
    public static void main(String[] arguments) throws SQLException {
        Connection connection = DriverManager.getConnection(arguments[0]);
        for (int number = 1; number < arguments.length; number++) {
            String[] parts = arguments[number].split("\t");
            if (parts[0].equals("connect")) {
                connection.close();
                connection = DriverManager.getConnection(parts[1]);
                continue;
            }
            try (Statement statement = connection.createStatement();
                    ResultSet rows = call(connection.getMetaData(), statement, parts)) {
                show(number, rows, parts[0].equals("named keys"));
            } catch (SQLException e) {
                System.out.println(number + "\terror\t" + e.getMessage().replaceAll("\\s", " "));
            }
        }
        connection.close();
    }

    private static ResultSet call(DatabaseMetaData metadata, Statement statement, String[] parts) throws SQLException {
        String[] given = new String[6];
        for (int i = 1; i < parts.length; i++) {
            given[i] = parts[i].equals("null") ? null : parts[i];
        }
        return switch (parts[0]) {
            case "query" -> statement.executeQuery(given[1]);
            case "cancelled query" -> {
                cancelAtLine(statement);
                yield statement.executeQuery(given[1]);
            }
            case "catalogs" -> metadata.getCatalogs();
            case "schemas" -> metadata.getSchemas(given[1], given[2]);
            case "tables" -> metadata.getTables(
                    given[1], given[2], given[3], given[4] == null ? null : given[4].split(","));
            case "columns" -> metadata.getColumns(given[1], given[2], given[3], given[4]);
            case "keys", "named keys" -> metadata.getPrimaryKeys(given[1], given[2], given[3]);
            case "types" -> metadata.getTypeInfo();
            case "table types" -> metadata.getTableTypes();
            case "functions" -> metadata.getFunctions(given[1], given[2], given[3]);
            default -> throw new SQLException("no such call: " + parts[0]);
        };
    }

    private static void cancelAtLine(Statement statement) {
        Thread thread = new Thread(() -> {
            try {
                System.in.read();
                statement.cancel();
            } catch (IOException | SQLException e) {
                throw new IllegalStateException(e);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private static void show(int number, ResultSet rows, boolean named) throws SQLException {
        int width = rows.getMetaData().getColumnCount();
        if (named) {
            StringBuilder names = new StringBuilder().append(number);
            for (int column = 1; column <= width; column++) {
                names.append('\t').append(rows.getMetaData().getColumnName(column));
            }
            System.out.println(names);
        }
        while (rows.next()) {
            StringBuilder line = new StringBuilder().append(number);
            for (int column = 1; column <= width; column++) {
                line.append('\t').append(String.valueOf(rows.getString(column)).replaceAll("\\s", " "));
            }
            System.out.println(line);
        }
    }
}

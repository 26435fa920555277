package io.github.pysparkpravega.thriftserver;

import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.apache.hive.service.cli.FetchOrientation;
import org.apache.hive.service.cli.HiveSQLException;
import org.apache.hive.service.cli.RowSet;
import org.apache.hive.service.cli.RowSetFactory;
import org.apache.hive.service.cli.TableSchema;
import org.apache.hive.service.cli.operation.MetadataOperation;
import org.apache.hive.service.rpc.thrift.TRowSet;

/** The rows of a metadata call, sorted by some of their columns, nulls first. */
final class Answer {
  private final RowSet rows;

  Answer(MetadataOperation operation, List<Object[]> rows, int... order) throws HiveSQLException {
    this.rows = RowSetFactory.create(
        new TableSchema(operation.getResultSetSchema()), operation.getProtocolVersion(), false);
    sort(rows, order).forEach(this.rows::addRow);
  }

  static Stream<Object[]> sort(List<Object[]> rows, int... order) {
    Comparator<Object[]> comparator = (one, other) -> 0;
    for (int column : order) {
      comparator = comparator.thenComparing(
          row -> (String) row[column], Comparator.nullsFirst(Comparator.naturalOrder()));
    }
    return rows.stream().sorted(comparator);
  }

  /** Returns a row about Spark's own catalog with that catalog's name, which Spark leaves out for some connections. */
  static Object[] ofSessionCatalog(Object[] row) {
    Object[] named = row.clone(); // they all share one array
    named[0] = Catalogs.SESSION_CATALOG;
    return named;
  }

  TRowSet next(FetchOrientation orientation, long limit) {
    if (orientation == FetchOrientation.FETCH_FIRST) {
      rows.setStartOffset(0);
    }
    return rows.extractSubset((int) limit).toTRowSet();
  }
}

package io.github.pysparkpravega;

import java.util.Collections;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.StructType;

/** A row with the number of rows of a scan, as often as the query counts them. Spark starts no task for it. */
record KnownCount(PravegaScan scan) implements LocalScan {
  @Override
  public InternalRow[] rows() {
    Object[] values = Collections.nCopies(readSchema().length(), scan.known().getAsLong()).toArray();
    return new InternalRow[] {new GenericInternalRow(values)};
  }

  @Override
  public StructType readSchema() {
    return scan.readSchema();
  }

  @Override
  public String description() {
    return scan.description();
  }
}

package io.github.pysparkpravega;

import java.util.Collections;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.StructType;

/** The number of rows of a scan, once for each time that it is asked for, in a row that Spark need start no task for. */
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

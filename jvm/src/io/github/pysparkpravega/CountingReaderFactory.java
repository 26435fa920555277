package io.github.pysparkpravega;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.ProjectingInternalRow;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Readers of rows with one more column, in which rows that are none of the table tell a number of bad events: Python
 * tasks have no other way to set a metric.
 */
record CountingReaderFactory(PartitionReaderFactory python, StructType schema) implements PartitionReaderFactory {
  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    return new Reader(python.createReader(partition), schema);
  }

  private static final class Reader extends DelegatingReader {
    private final int counter;
    private final ProjectingInternalRow row;
    private long bad;

    Reader(PartitionReader<InternalRow> python, StructType schema) {
      super(python);
      this.counter = schema.length();
      List<Object> ordinals = new ArrayList<>();
      for (int ordinal = 0; ordinal < counter; ordinal++) {
        ordinals.add(ordinal);
      }
      this.row = ProjectingInternalRow.apply(schema, CollectionConverters.asScala(ordinals).toSeq());
    }

    @Override
    public boolean next() throws IOException {
      while (python.next()) {
        InternalRow found = python.get();
        if (found.isNullAt(counter)) {
          row.project(found);
          return true;
        }
        bad += found.getLong(counter);
      }
      return false;
    }

    @Override
    public InternalRow get() {
      return row;
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
      CustomTaskMetric[] others = python.currentMetricsValues();
      CustomTaskMetric[] all = Arrays.copyOf(others, others.length + 1);
      all[others.length] = new BadEvents(bad);
      return all;
    }
  }

  private record BadEvents(long value) implements CustomTaskMetric {
    @Override
    public String name() {
      return BadEventsMetric.NAME;
    }

    @Override
    public CustomTaskMetric mergeWith(CustomTaskMetric other) {
      return new BadEvents(value + other.value());
    }
  }
}

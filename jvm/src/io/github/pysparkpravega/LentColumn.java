package io.github.pysparkpravega;

import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column whose memory belongs to the runner, which puts the next batch there. So closing it, as Spark does after each
 * batch, frees nothing. It is not an ArrowColumnVector: Spark believes that those own their memory, and keeps them
 * without a copy while Python UDFs run on later batches. It copies what it keeps of other columns.
 */
final class LentColumn extends ColumnVector {
  private final ArrowColumnVector arrow;

  LentColumn(ArrowColumnVector arrow) {
    super(arrow.dataType());
    this.arrow = arrow;
  }

  @Override
  public void close() {}

  @Override
  public boolean hasNull() {
    return arrow.hasNull();
  }

  @Override
  public int numNulls() {
    return arrow.numNulls();
  }

  @Override
  public boolean isNullAt(int row) {
    return arrow.isNullAt(row);
  }

  @Override
  public boolean getBoolean(int row) {
    return arrow.getBoolean(row);
  }

  @Override
  public byte getByte(int row) {
    return arrow.getByte(row);
  }

  @Override
  public short getShort(int row) {
    return arrow.getShort(row);
  }

  @Override
  public int getInt(int row) {
    return arrow.getInt(row);
  }

  @Override
  public long getLong(int row) {
    return arrow.getLong(row);
  }

  @Override
  public float getFloat(int row) {
    return arrow.getFloat(row);
  }

  @Override
  public double getDouble(int row) {
    return arrow.getDouble(row);
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    return arrow.getDecimal(row, precision, scale);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    return arrow.getUTF8String(row);
  }

  @Override
  public byte[] getBinary(int row) {
    return arrow.getBinary(row);
  }

  @Override
  public ColumnarArray getArray(int row) {
    return arrow.getArray(row);
  }

  @Override
  public ColumnarMap getMap(int row) {
    return arrow.getMap(row);
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return arrow.getChild(ordinal);
  }
}

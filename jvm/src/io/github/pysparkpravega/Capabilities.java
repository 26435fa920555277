package io.github.pysparkpravega;

import java.util.AbstractSet;
import java.util.Iterator;
import java.util.Set;
import java.util.function.BooleanSupplier;
import org.apache.spark.sql.connector.catalog.TableCapability;

/** What batches and streams can do with a table. Whether its rows can be streamed is found out only when Spark asks. */
final class Capabilities extends AbstractSet<TableCapability> {
  private final Set<TableCapability> always;
  private final BooleanSupplier streamed;

  /** @param streamed may refuse with a sentence of the service's, in place of Spark's. */
  Capabilities(BooleanSupplier streamed, TableCapability... always) {
    this.streamed = streamed;
    this.always = Set.of(always);
  }

  @Override
  public boolean contains(Object capability) {
    return capability == TableCapability.MICRO_BATCH_READ ? streamed.getAsBoolean() : always.contains(capability);
  }

  @Override
  public Iterator<TableCapability> iterator() {
    return always.iterator();
  }

  @Override
  public int size() {
    return always.size();
  }
}

package io.github.pysparkpravega;

import java.util.AbstractMap;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;

/**
 * The properties of a table, and on request those by which OpenLineage's agent for Spark names it. The agent looks them
 * up by their keys. They are not among the entries: SHOW TBLPROPERTIES, SHOW CREATE TABLE and CREATE TABLE LIKE copy
 * those, so that lineage would be written as a property of the table.
 */
final class PropertiesWithLineage extends AbstractMap<String, String> {
  static final String NAMESPACE = "openlineage.dataset.namespace";
  static final String NAME = "openlineage.dataset.name";

  private final Map<String, String> properties;
  private final Supplier<Map<String, String>> lineage;

  PropertiesWithLineage(Map<String, String> properties, Supplier<Map<String, String>> lineage) {
    this.properties = properties;
    this.lineage = lineage;
  }

  private Map<String, String> of(Object key) {
    return NAMESPACE.equals(key) || NAME.equals(key) ? lineage.get() : properties;
  }

  @Override
  public String get(Object key) {
    return of(key).get(key);
  }

  @Override
  public boolean containsKey(Object key) {
    return of(key).containsKey(key);
  }

  @Override
  public Set<Map.Entry<String, String>> entrySet() {
    return properties.entrySet();
  }
}

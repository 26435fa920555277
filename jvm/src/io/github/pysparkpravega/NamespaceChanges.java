package io.github.pysparkpravega;

import com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.spark.sql.connector.catalog.NamespaceChange;

/** Describes the changes of ALTER NAMESPACE to the service. */
final class NamespaceChanges {
  private NamespaceChanges() {}

  static void describe(NamespaceChange[] changes, ArrayNode described) {
    for (NamespaceChange change : changes) {
      if (change instanceof NamespaceChange.SetProperty set) {
        described.addObject().put("property", set.property()).put("value", set.value());
      } else if (change instanceof NamespaceChange.RemoveProperty removed) {
        described.addObject().put("property", removed.property()).putNull("value");
      }
    }
  }
}

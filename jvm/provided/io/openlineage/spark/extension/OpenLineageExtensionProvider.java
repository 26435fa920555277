package io.openlineage.spark.extension;

/** What OpenLineage's agent for Spark asks a connector. The agent brings it; it is compiled against, and in no jar. */
public interface OpenLineageExtensionProvider {
  String shadedPackage();

  String getVisitorClassName();
}

package io.github.pysparkpravega;

import io.openlineage.spark.extension.OpenLineageExtensionProvider;

/** Leads OpenLineage's agent, where it is loaded, to what it does not know of this adapter's plans. */
public final class LineageProvider implements OpenLineageExtensionProvider {
  /** Nothing of the agent's is shaded here. */
  @Override
  public String shadedPackage() {
    return "io.openlineage";
  }

  @Override
  public String getVisitorClassName() {
    return LineageOfStreams.class.getName();
  }
}

package io.github.pysparkpravega;

import org.apache.hadoop.hive.common.HiveInterruptUtils;

/** Ctrl-C in Spark's SQL shell, which by itself cancels jobs only, and not their planning. */
final class ShellInterrupts {
  static void call(Runnable action) {
    HiveInterruptUtils.add(action::run);
  }
}

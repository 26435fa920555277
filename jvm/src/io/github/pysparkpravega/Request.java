package io.github.pysparkpravega;

/** What the catalog service can be asked for; `R` is its reply. The records of {@link Requests} are all there are. */
interface Request<R> {
  /** The operation, spelled as the service does: the name of the record in snake case. */
  default String operation() {
    return getClass().getSimpleName().replaceAll("(?<=.)(?=[A-Z])", "_").toLowerCase(java.util.Locale.ROOT);
  }
}

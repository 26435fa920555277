package io.github.pysparkpravega;

/** A request to the catalog service; `R` is its reply. {@link Requests} has all of them. */
interface Request<R> {
  /** Returns the operation as the service spells it: the name of the record in snake case. */
  default String operation() {
    return getClass().getSimpleName().replaceAll("(?<=.)(?=[A-Z])", "_").toLowerCase(java.util.Locale.ROOT);
  }
}

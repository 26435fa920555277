package io.github.pysparkpravega.thriftserver;

import java.util.regex.Pattern;

/**
 * A search pattern of JDBC's metadata calls: % stands for any characters, _ for one, unless a backslash is before it.
 *
 * @param literal the only name that fits, null if the pattern has wildcards.
 */
record SearchPattern(Pattern regex, String literal) {
  static SearchPattern exactly(String name) {
    return new SearchPattern(Pattern.compile(Pattern.quote(name)), name);
  }

  /** Returns the pattern of a text. Null and the empty text fit all names, as in Spark. */
  static SearchPattern of(String pattern) {
    StringBuilder regex = new StringBuilder();
    StringBuilder name = new StringBuilder();
    boolean wild = false;
    int last = -1;
    String text = pattern == null || pattern.isEmpty() ? "%" : pattern;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == '%' || c == '_') {
        wild = true;
        if (c == '_') {
          regex.append('.');
          continue;
        }
        // What is between two % is sought once, never again: else many % over a long name would take years.
        regex.append(last < 0 ? "" : ")");
        last = regex.length();
        regex.append("(?>.*?");
        continue;
      }
      if (c == '\\' && i + 1 < text.length() && "%_\\".indexOf(text.charAt(i + 1)) >= 0) {
        c = text.charAt(++i);
      }
      regex.append(Pattern.quote(String.valueOf(c)));
      name.append(c);
    }
    if (last >= 0) {
      regex.replace(last, last + "(?>.*?".length(), "(?:.*").append(')');
    }
    return new SearchPattern(Pattern.compile(regex.toString(), Pattern.DOTALL), wild ? null : name.toString());
  }

  boolean fits(String name) {
    return regex.matcher(name).matches();
  }
}

package io.github.pysparkpravega.thriftserver;

import java.util.regex.Pattern;

/**
 * A search pattern of JDBC's metadata calls: % stands for any characters, _ for one, unless a backslash is before it.
 */
final class SearchPattern {
  private final Pattern regex;

  /** The only name that fits, null if the pattern has wildcards. */
  final String literal;

  private SearchPattern(Pattern regex, String literal) {
    this.regex = regex;
    this.literal = literal;
  }

  static SearchPattern exactly(String name) {
    return new SearchPattern(Pattern.compile(Pattern.quote(name)), name);
  }

  /** Returns the pattern of a text. Null and the empty text fit all names, as in Spark. */
  static SearchPattern of(String pattern) {
    StringBuilder regex = new StringBuilder();
    StringBuilder name = new StringBuilder();
    boolean wild = false;
    String text = pattern == null || pattern.isEmpty() ? "%" : pattern;
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      if (c == '%' || c == '_') {
        wild = true;
        regex.append(c == '%' ? ".*" : ".");
        continue;
      }
      if (c == '\\' && i + 1 < text.length() && "%_\\".indexOf(text.charAt(i + 1)) >= 0) {
        c = text.charAt(++i);
      }
      regex.append(Pattern.quote(String.valueOf(c)));
      name.append(c);
    }
    return new SearchPattern(Pattern.compile(regex.toString(), Pattern.DOTALL), wild ? null : name.toString());
  }

  boolean fits(String name) {
    return regex.matcher(name).matches();
  }
}

import java.util.Map;

/** Maps, lists, numbers, truth values and texts as JSON on one line. */
final class Json {
  private Json() {}

  static String text(Object value) {
    StringBuilder out = new StringBuilder();
    put(out, value);
    return out.toString();
  }

  private static void put(StringBuilder out, Object value) {
    if (value == null || value instanceof Boolean || isNumber(value)) {
      out.append(value);
    } else if (value instanceof Map<?, ?> map) {
      String between = "{";
      for (Map.Entry<?, ?> entry : map.entrySet()) {
        out.append(between);
        put(out, String.valueOf(entry.getKey()));
        out.append(':');
        put(out, entry.getValue());
        between = ",";
      }
      out.append(map.isEmpty() ? "{}" : "}");
    } else if (value instanceof Iterable<?> list) {
      out.append('[');
      String between = "";
      for (Object one : list) {
        out.append(between);
        put(out, one);
        between = ",";
      }
      out.append(']');
    } else {
      quote(out, value.toString());
    }
  }

  /** What JSON knows as a number: infinities are texts. */
  private static boolean isNumber(Object value) {
    return value instanceof Number number && Double.isFinite(number.doubleValue());
  }

  private static void quote(StringBuilder out, String text) {
    out.append('"');
    for (int at = 0; at < text.length(); at++) {
      char c = text.charAt(at);
      if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < ' ' || Character.isSurrogate(c)) {
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    out.append('"');
  }
}

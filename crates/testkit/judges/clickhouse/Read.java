import java.math.BigDecimal;
import java.sql.DriverManager;
import java.sql.Timestamp;

/** Prints the first four columns of a table, ordered by the first. */
public class Read {
  public static void main(String[] a) throws Exception {
    try (var connection = DriverManager.getConnection("jdbc:ch://127.0.0.1:" + a[0] + "/default?user=default");
        var rows = connection.createStatement().executeQuery("SELECT * FROM " + a[1] + " ORDER BY 1")) {
      while (rows.next()) {
        var line = new StringBuilder();
        for (int column = 1; column <= 4; column++) {
          Object value = rows.getObject(column);
          String text = String.valueOf(value);
          if (value instanceof BigDecimal) text = ((BigDecimal) value).toPlainString();
          if (value != null && column == 4) {
            Timestamp at = rows.getTimestamp(column);
            text = at.toString();
          }
          line.append(column > 1 ? " " : "").append(text);
        }
        System.out.println(line);
      }
    }
  }
}

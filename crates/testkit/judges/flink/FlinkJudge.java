import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.serialization.DeserializationSchema;
import org.apache.flink.formats.common.TimestampFormat;
import org.apache.flink.formats.json.canal.CanalJsonDeserializationSchema;
import org.apache.flink.formats.json.debezium.DebeziumJsonDeserializationSchema;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.utils.LogicalTypeParser;
import org.apache.flink.table.types.utils.TypeConversions;
import org.apache.flink.util.Collector;
import org.apache.flink.util.SimpleUserCodeClassLoader;
import org.apache.flink.util.UserCodeClassLoader;

/**
 * Decodes change messages with Flink's own formats, as a table with {@code 'format' = '…'} does.
 *
 * <p>A request: a line with the format and the columns, for instance {@code canal-json id BIGINT, name
 * STRING}, then one message a line. The formats: {@code canal-json}, {@code debezium-json}, and {@code
 * debezium-json+schema} for messages with a schema around them. The answer, in the messages' order,
 * one JSON object a line: {@code message} (its number, from 0) with {@code kind} (+I, -U, +U or -D) and
 * {@code row}, or with {@code error}. A message that yields no row has no line. Values are texts or
 * null; bytes are hex.
 */
final class FlinkJudge {
  public static void main(String[] arguments) throws Exception {
    Talk.serve(FlinkJudge::answer);
  }

  private static void answer(List<String> request) throws Exception {
    String[] head = request.get(0).split(" ", 2);
    ClassLoader loader = FlinkJudge.class.getClassLoader();
    RowType row = (RowType) LogicalTypeParser.parse("ROW<" + head[1] + ">", loader);
    DeserializationSchema<RowData> decoder = decoder(head[0], row);
    decoder.open(new Context());
    List<RowData.FieldGetter> getters = new ArrayList<>();
    for (int at = 0; at < row.getFieldCount(); at++) {
      getters.add(RowData.createFieldGetter(row.getTypeAt(at), at));
    }
    for (int message = 0; message + 1 < request.size(); message++) {
      int number = message;
      byte[] bytes = request.get(message + 1).getBytes(StandardCharsets.UTF_8);
      try {
        decoder.deserialize(bytes, new Rows(found -> say(number, row, getters, found)));
      } catch (Throwable trouble) {
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("message", number);
        out.put("error", Talk.why(trouble));
        Talk.say(Json.text(out));
      }
    }
  }

  private static DeserializationSchema<RowData> decoder(String format, RowType row) {
    DataType type = TypeConversions.fromLogicalToDataType(row);
    InternalTypeInfo<RowData> info = InternalTypeInfo.of(row);
    return switch (format) {
      case "canal-json" -> CanalJsonDeserializationSchema.builder(type, List.of(), info).build();
      case "debezium-json", "debezium-json+schema" ->
          new DebeziumJsonDeserializationSchema(
              type, List.of(), info, format.endsWith("+schema"), false, TimestampFormat.SQL);
      default -> throw new IllegalArgumentException("no such format: " + format);
    };
  }

  private static void say(int message, RowType type, List<RowData.FieldGetter> getters, RowData row) {
    Map<String, Object> cells = new LinkedHashMap<>();
    for (int at = 0; at < getters.size(); at++) {
      cells.put(type.getFieldNames().get(at), text(getters.get(at).getFieldOrNull(row)));
    }
    Map<String, Object> out = new LinkedHashMap<>();
    out.put("message", message);
    out.put("kind", row.getRowKind().shortString());
    out.put("row", cells);
    Talk.say(Json.text(out));
  }

  private static String text(Object value) {
    if (value == null) {
      return null;
    }
    return value instanceof byte[] bytes ? HexFormat.of().formatHex(bytes) : value.toString();
  }

  /** Takes the rows of one message. */
  private record Rows(java.util.function.Consumer<RowData> each) implements Collector<RowData> {
    @Override
    public void collect(RowData row) {
      each.accept(row);
    }

    @Override
    public void close() {}
  }

  private static final class Context implements DeserializationSchema.InitializationContext {
    @Override
    public MetricGroup getMetricGroup() {
      return new UnregisteredMetricsGroup();
    }

    @Override
    public UserCodeClassLoader getUserCodeClassLoader() {
      return SimpleUserCodeClassLoader.create(FlinkJudge.class.getClassLoader());
    }
  }
}

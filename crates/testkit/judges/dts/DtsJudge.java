import com.aliyun.dts.subscribe.clients.formats.avro.Record;
import com.aliyun.dts.subscribe.clients.record.DefaultUserRecord;
import com.aliyun.dts.subscribe.clients.record.RecordField;
import com.aliyun.dts.subscribe.clients.record.RecordIndexInfo;
import com.aliyun.dts.subscribe.clients.record.RecordSchema;
import com.aliyun.dts.subscribe.clients.record.RowImage;
import com.aliyun.dts.subscribe.clients.record.value.Value;
import com.aliyun.dts.subscribe.clients.recordgenerator.AvroDeserializer;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;

/**
 * Decodes DTS Avro datums with the vendor's subscription SDK.
 *
 * <p>A request: one datum a line, in hex. The answer: one JSON object a line; {@code error} where the
 * SDK refuses the datum. An image is a list of [name, value]; a value is null where the SDK has none.
 */
final class DtsJudge {
  private static final HexFormat HEX = HexFormat.of();

  public static void main(String[] arguments) throws Exception {
    Talk.serve(request -> request.forEach(line -> Talk.say(Json.text(record(HEX.parseHex(line))))));
  }

  private static Map<String, Object> record(byte[] datum) {
    Map<String, Object> out = new LinkedHashMap<>();
    try {
      // A reader of its own for each: a used one keeps what follows the last field it knows.
      describe(new AvroDeserializer().deserialize(datum), out);
    } catch (Throwable trouble) {
      out.put("error", Talk.why(trouble));
    }
    return out;
  }

  private static void describe(Record avro, Map<String, Object> out) {
    DefaultUserRecord record =
        new DefaultUserRecord(new TopicPartition("judge", 0), 0, avro, (at, of, offset, more) -> {});
    out.put("operation", String.valueOf(record.getOperationType()));
    out.put("avro_operation", String.valueOf(avro.getOperation()));
    out.put("id", record.getId());
    out.put("source_timestamp", record.getSourceTimestamp());
    out.put("position", avro.getSourcePosition());
    out.put("safe_position", avro.getSafeSourcePosition());
    out.put("transaction", avro.getSourceTxid());
    out.put("object_name", avro.getObjectName());
    out.put("tags", new TreeMap<>(avro.getTags()));

    RecordSchema schema = record.getSchema();
    out.put("source_type", schema.getDatabaseInfo().getDatabaseType());
    out.put("source_version", schema.getDatabaseInfo().getVersion());
    out.put("database", schema.getDatabaseName().orElse(null));
    out.put("table", schema.getTableName().orElse(null));
    List<Object> fields = new ArrayList<>();
    for (RecordField field : schema.getFields()) {
      Map<String, Object> one = new LinkedHashMap<>();
      one.put("name", field.getFieldName());
      one.put("data_type", field.getRawDataTypeNum());
      one.put("is_primary", field.isPrimary());
      one.put("is_unique", field.isUnique());
      fields.add(one);
    }
    out.put("fields", fields);
    List<Object> key = new ArrayList<>();
    RecordIndexInfo primary = schema.getPrimaryIndexInfo();
    if (primary != null) {
      primary.getIndexFields().forEach(field -> key.add(field.getFieldName()));
    }
    out.put("primary_key", key);
    out.put("before", image(schema, record.getBeforeImage()));
    out.put("after", image(schema, record.getAfterImage()));
  }

  private static List<Object> image(RecordSchema schema, RowImage image) {
    if (image == null) {
      return null;
    }
    List<Object> cells = new ArrayList<>();
    Value<?>[] values = image.getValues();
    // A statement's text is the one value of an image without fields, or with one made up for it.
    for (int at = 0; at < Math.max(values.length, schema.getFieldCount()); at++) {
      List<Object> cell = new ArrayList<>();
      cell.add(at < schema.getFieldCount() ? schema.getField(at).getFieldName() : "");
      cell.add(at < values.length ? value(values[at]) : null);
      cells.add(cell);
    }
    return cells;
  }

  private static Object value(Value<?> value) {
    if (value == null) {
      return null;
    }
    Map<String, Object> out = new LinkedHashMap<>();
    out.put("kind", String.valueOf(value.getType()));
    out.put("text", value.toString());
    if (value.getData() instanceof ByteBuffer data) {
      byte[] bytes = new byte[data.remaining()];
      data.duplicate().get(bytes);
      out.put("hex", HEX.formatHex(bytes));
    }
    return out;
  }
}

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONWriter;
import com.alibaba.otter.canal.common.alarm.LogAlarmHandler;
import com.alibaba.otter.canal.connector.core.producer.MQMessageUtils;
import com.alibaba.otter.canal.instance.core.CanalInstance;
import com.alibaba.otter.canal.instance.manager.CanalInstanceWithManager;
import com.alibaba.otter.canal.instance.manager.model.Canal;
import com.alibaba.otter.canal.instance.manager.model.CanalParameter;
import com.alibaba.otter.canal.parse.driver.mysql.MysqlConnector;
import com.alibaba.otter.canal.parse.driver.mysql.MysqlQueryExecutor;
import com.alibaba.otter.canal.parse.inbound.mysql.MysqlEventParser;
import com.alibaba.otter.canal.parse.inbound.mysql.tsdb.MemoryTableMeta;
import com.alibaba.otter.canal.parse.inbound.mysql.tsdb.TableMetaTSDB;
import com.alibaba.otter.canal.parse.inbound.mysql.tsdb.TableMetaTSDBFactory;
import com.alibaba.otter.canal.protocol.CanalEntry;
import com.alibaba.otter.canal.protocol.ClientIdentity;
import com.alibaba.otter.canal.protocol.FlatMessage;
import com.alibaba.otter.canal.protocol.Message;
import com.alibaba.otter.canal.protocol.position.EntryPosition;
import com.alibaba.otter.canal.server.embedded.CanalServerWithEmbedded;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * The Canal server itself reads a binlog.
 *
 * <p>A request: lines of a name, a tab and a value.
 *
 * <pre>
 *   port      the server's port on 127.0.0.1
 *   user      and
 *   password  an account; Canal's driver cannot do without a password
 *   filter    the tables, Canal's way: shop\..*
 *   file      where to begin, and
 *   position
 *   schema    "now": columns as the server tells them when Canal meets a table; "replayed": as the
 *             statements in the binlog make them from the beginning on
 *   rows      ends after so many rows, or
 *   until     at the first change of this table, db.table, which is left out, or
 *   end       at a place in the binlog, file:position; the transaction before must be of the tables
 *   seconds   gives up after so many
 * </pre>
 *
 * <p>The answer: "ready" when the server has begun to send, then one message a line, as Canal's
 * producer for Kafka serialises it.
 */
final class CanalJudge {
  private static final CanalServerWithEmbedded SERVER = CanalServerWithEmbedded.instance();
  private static final Map<String, Map<String, String>> RUNS = new ConcurrentHashMap<>();

  public static void main(String[] arguments) throws Exception {
    SERVER.setCanalInstanceGenerator(name -> instance(name, RUNS.get(name)));
    SERVER.start();
    Talk.serve(CanalJudge::answer);
  }

  private static void answer(List<String> request) throws Exception {
    Map<String, String> run = new ConcurrentHashMap<>();
    for (String line : request) {
      String[] words = line.split("\t", 2);
      run.put(words[0], words[1]);
    }
    String name = "run" + RUNS.size();
    RUNS.put(name, run);
    long end = System.currentTimeMillis() + 1000 * Long.parseLong(run.get("seconds"));
    ClientIdentity client = new ClientIdentity(name, (short) 1001, run.get("filter"));
    SERVER.start(name);
    try {
      SERVER.subscribe(client);
      awaitReplica(run, replica(RUNS.size()), end);
      Talk.sayNow("ready");
      read(client, run, end);
    } finally {
      SERVER.stop(name);
    }
  }

  private static long replica(int run) {
    return 1_000_000_000L + ProcessHandle.current().pid() % 1_000_000 * 1_000 + run % 1_000;
  }

  private static InetSocketAddress address(Map<String, String> run) {
    return new InetSocketAddress("127.0.0.1", Integer.parseInt(run.get("port")));
  }

  private static CanalInstance instance(String name, Map<String, String> run) {
    CanalParameter parameter = new CanalParameter();
    parameter.setCanalId((long) RUNS.size());
    parameter.setSourcingType(CanalParameter.SourcingType.MYSQL);
    parameter.setMetaMode(CanalParameter.MetaMode.MEMORY);
    parameter.setIndexMode(CanalParameter.IndexMode.MEMORY);
    parameter.setStorageMode(CanalParameter.StorageMode.MEMORY);
    parameter.setStorageBatchMode(CanalParameter.BatchMode.MEMSIZE);
    parameter.setMemoryStorageBufferSize(16 * 1024);
    parameter.setMemoryStorageRawEntry(false);
    parameter.setHaMode(CanalParameter.HAMode.HEARTBEAT);
    parameter.setHeartbeatHaEnable(false);
    parameter.setDetectingEnable(false);
    parameter.setSlaveId(replica(RUNS.size()));
    parameter.setDefaultConnectionTimeoutInSeconds(30);
    parameter.setConnectionCharset("UTF-8");
    parameter.setConnectionCharsetNumber((byte) 33);
    parameter.setReceiveBufferSize(64 * 1024);
    parameter.setSendBufferSize(64 * 1024);
    parameter.setDbAddresses(Collections.singletonList(address(run)));
    parameter.setMasterAddress(address(run));
    parameter.setDbUsername(run.get("user"));
    parameter.setDbPassword(run.get("password"));
    parameter.setDefaultDatabaseName("mysql");
    Map<String, Object> position = new HashMap<>();
    position.put("journalName", run.get("file"));
    position.put("position", Long.parseLong(run.get("position")));
    // With 0 and statements to replay, Canal would begin at the file's head.
    position.put("timestamp", 1);
    parameter.setPositions(Collections.singletonList(Json.text(position)));
    parameter.setTsdbEnable(false);
    parameter.setGtidEnable(false);
    // One thread after the other is the quicker way on few cores, and its order is certain.
    parameter.setParallel(false);
    parameter.setMultiStreamEnable(false);
    Canal canal = new Canal();
    canal.setId((long) RUNS.size());
    canal.setName(name);
    canal.setCanalParameter(parameter);
    CanalInstanceWithManager instance = new CanalInstanceWithManager(canal, run.get("filter"));
    // Canal would try again for ever.
    instance.setAlarmHandler(new Alarms(name));
    if (run.get("schema").equals("replayed")) {
      MysqlEventParser parser = (MysqlEventParser) instance.getEventParser();
      // They become system properties, and so must not be null.
      parser.setTsdbJdbcUrl("");
      parser.setTsdbJdbcUserName("");
      parser.setTsdbJdbcPassword("");
      parser.setTableMetaTSDBFactory(new InMemory());
      parser.setEnableTsdb(true);
    }
    return instance;
  }

  /** Notes what Canal complains about first. */
  private static final class Alarms extends LogAlarmHandler {
    private final String run;

    Alarms(String run) {
      this.run = run;
    }

    @Override
    public void sendAlarm(String destination, String text) {
      super.sendAlarm(destination, text);
      RUNS.get(run).putIfAbsent("trouble", text);
    }
  }

  /** Fails when Canal has complained, and when time is up. */
  private static void check(Map<String, String> run, long end, Object state) {
    if (run.containsKey("trouble")) {
      throw new IllegalStateException("Canal fails: " + run.get("trouble"));
    }
    if (System.currentTimeMillis() > end) {
      throw new IllegalStateException("not at its end in time: " + state);
    }
  }

  /** Tables as statements make them, for one run; Canal's own factories keep them in a database. */
  private static final class InMemory implements TableMetaTSDBFactory {
    @Override
    public TableMetaTSDB build(String name, String file) {
      return new MemoryTableMeta() {
        /** To the beginning: there is nothing yet. */
        @Override
        public boolean rollback(EntryPosition position) {
          return true;
        }
      };
    }

    @Override
    public void destory(String name) {}
  }

  /** Waits until the server lists Canal as its replica: it sends from then on. */
  private static void awaitReplica(Map<String, String> run, long replica, long end) throws Exception {
    MysqlConnector connector =
        new MysqlConnector(
            address(run), run.get("user"), run.get("password"));
    connector.connect();
    try {
      String statement = "SHOW REPLICAS";
      while (true) {
        check(run, end, "the server does not list Canal among its replicas");
        List<String> cells;
        try {
          cells = new MysqlQueryExecutor(connector).query(statement).getFieldValues();
        } catch (java.io.IOException unknown) {
          if (statement.equals("SHOW SLAVE HOSTS")) {
            throw unknown;
          }
          // Up to MySQL 8.0.21, and in MariaDB.
          statement = "SHOW SLAVE HOSTS";
          continue;
        }
        if (cells.contains(String.valueOf(replica))) {
          return;
        }
        Thread.sleep(20);
      }
    } finally {
      connector.disconnect();
    }
  }

  private static void read(ClientIdentity client, Map<String, String> run, long end) throws Exception {
    ThreadPoolExecutor builders =
        new ThreadPoolExecutor(1, 1, 0, TimeUnit.SECONDS, new LinkedBlockingQueue<>());
    try {
      End until = new End(run);
      while (!until.isReached()) {
        check(run, end, until);
        Message message = SERVER.getWithoutAck(client, 50, 50L, TimeUnit.MILLISECONDS);
        if (message.getId() == -1) {
          continue;
        }
        List<CanalEntry.Entry> entries = new ArrayList<>(message.getEntries());
        entries.removeIf(entry -> !until.takes(entry.getHeader()));
        Message taken = new Message(message.getId(), false, entries);
        MQMessageUtils.EntryRowData[] data = MQMessageUtils.buildMessageData(taken, builders);
        for (FlatMessage flat : MQMessageUtils.messageConverter(data, message.getId())) {
          if (until.takes(flat)) {
            Talk.say(JSON.toJSONBytes(flat, JSONWriter.Feature.WriteNulls));
          }
        }
        SERVER.ack(client, message.getId());
      }
    } finally {
      builders.shutdownNow();
    }
  }

  /** Where a run ends. */
  private static final class End {
    private final long rows;
    private final String table;
    private final String file;
    private final long position;
    private long seen;
    private String at = "nothing";
    private boolean isMarked;
    private boolean isThere;

    End(Map<String, String> run) {
      rows = Long.parseLong(run.getOrDefault("rows", "0"));
      table = run.get("until");
      String[] words = run.getOrDefault("end", "").split(":");
      file = words.length == 2 ? words[0] : null;
      position = words.length == 2 ? Long.parseLong(words[1]) : 0;
      if (rows == 0 && table == null && file == null) {
        throw new IllegalArgumentException("no end is given");
      }
    }

    boolean isReached() {
      return isThere || isMarked || rows > 0 && seen >= rows;
    }

    /** Whether an event comes before the place. */
    boolean takes(CanalEntry.Header header) {
      long ends = header.getLogfileOffset() + header.getEventLength();
      at = header.getLogfileName() + ":" + ends;
      int compared = file == null ? -1 : header.getLogfileName().compareTo(file);
      isThere |= compared > 0 || compared == 0 && ends >= position;
      return compared < 0 || compared == 0 && ends <= position;
    }

    /** Whether a message comes before the marker, and is among the first rows. */
    boolean takes(FlatMessage flat) {
      isMarked |= !flat.getIsDdl() && (flat.getDatabase() + "." + flat.getTable()).equals(table);
      if (isMarked || rows > 0 && seen >= rows) {
        return false;
      }
      seen += flat.getData() == null ? 0 : flat.getData().size();
      return true;
    }

    @Override
    public String toString() {
      return seen + " rows so far, the last event ends at " + at;
    }
  }
}

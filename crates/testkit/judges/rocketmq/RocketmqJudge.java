import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.topic.TopicValidator;
import org.apache.rocketmq.remoting.protocol.body.ClusterInfo;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/**
 * RocketMQ's own client at work on a broker.
 *
 * <p>A request: the name server's address, then commands, one a line, their words between tabs:
 *
 * <pre>
 *   topic NAME QUEUES                     makes the topic, or sets the number of its queues
 *   drop NAME                             removes the topic
 *   topics                                one line for each topic that is not the broker's own
 *   send TOPIC QUEUE TAGS KEYS HEX        one message; "" for no tags or keys
 *   dump TOPIC                            one line for each message that the broker has taken by now
 * </pre>
 *
 * <p>The answer: JSON objects, a line each. A dump goes through the queues by number, each from its
 * beginning; the body is hex, and the properties are all that the broker gives, tags and keys among
 * them. Each command is tried again for some seconds: a broker that comes back is not found at once.
 */
final class RocketmqJudge {
  private static final long PATIENCE_MS = 15_000;
  private static final HexFormat HEX = HexFormat.of();
  private static final Map<String, Clients> CLIENTS = new HashMap<>();

  public static void main(String[] arguments) throws Exception {
    Talk.serve(
        request -> {
          String address = request.get(0);
          Clients clients = CLIENTS.get(address);
          if (clients == null) {
            clients = new Clients(address, CLIENTS.size());
            CLIENTS.put(address, clients);
          }
          for (String line : request.subList(1, request.size())) {
            run(clients, line.split("\t", -1));
          }
        });
  }

  private static void run(Clients clients, String[] words) throws Exception {
    switch (words[0]) {
      case "topic" -> patiently(() -> clients.make(words[1], Integer.parseInt(words[2])));
      case "drop" -> patiently(() -> clients.drop(words[1]));
      case "topics" -> patiently(clients::topics).forEach(name -> Talk.say(Json.text(name)));
      case "send" -> patiently(() -> clients.send(words));
      case "dump" -> clients.dump(words[1]);
      default -> throw new IllegalArgumentException("no such command: " + words[0]);
    }
  }

  private interface Work<T> {
    T run() throws Exception;
  }

  private static <T> T patiently(Work<T> work) throws Exception {
    long end = System.currentTimeMillis() + PATIENCE_MS;
    while (true) {
      try {
        return work.run();
      } catch (Exception trouble) {
        if (System.currentTimeMillis() > end) {
          throw trouble;
        }
        Thread.sleep(200);
      }
    }
  }

  /** The clients of one name server. */
  private static final class Clients {
    private final DefaultMQAdminExt admin = new DefaultMQAdminExt(5_000);
    private final DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("judge");
    private final DefaultMQProducer producer = new DefaultMQProducer("judge");

    Clients(String address, int number) throws Exception {
      // Clients of one process are kept apart by their instances' names.
      admin.setNamesrvAddr(address);
      admin.setInstanceName("admin" + number);
      consumer.setNamesrvAddr(address);
      consumer.setInstanceName("consumer" + number);
      producer.setNamesrvAddr(address);
      producer.setInstanceName("producer" + number);
      // Queues that are added are known soon.
      producer.setPollNameServerInterval(1_000);
      admin.start();
      consumer.start();
      producer.start();
    }

    Object make(String topic, int queues) throws Exception {
      ClusterInfo cluster = admin.examineBrokerClusterInfo();
      if (cluster.getBrokerAddrTable().isEmpty()) {
        throw new IllegalStateException("the name server knows no broker");
      }
      for (var broker : cluster.getBrokerAddrTable().values()) {
        admin.createAndUpdateTopicConfig(broker.selectBrokerAddr(), new TopicConfig(topic, queues, queues));
      }
      int known = queues(topic).size();
      if (known != queues) {
        throw new IllegalStateException("the name server tells of " + known + " queues");
      }
      return null;
    }

    Object drop(String topic) throws Exception {
      TreeSet<String> brokers = new TreeSet<>();
      for (var broker : admin.examineBrokerClusterInfo().getBrokerAddrTable().values()) {
        brokers.add(broker.selectBrokerAddr());
      }
      admin.deleteTopicInBroker(brokers, topic);
      admin.deleteTopicInNameServer(new TreeSet<>(admin.getNameServerAddressList()), topic);
      return null;
    }

    TreeSet<String> topics() throws Exception {
      TreeSet<String> names = new TreeSet<>(admin.fetchAllTopicList().getTopicList());
      ClusterInfo cluster = admin.examineBrokerClusterInfo();
      names.removeAll(cluster.getBrokerAddrTable().keySet());
      names.removeIf(name -> TopicValidator.isSystemTopic(name) || name.startsWith("%"));
      for (String one : cluster.getClusterAddrTable().keySet()) {
        names.removeIf(name -> name.equals(one) || name.equals(one + "_REPLY_TOPIC"));
      }
      return names;
    }

    private List<MessageQueue> queues(String topic) throws Exception {
      return admin.examineTopicRouteInfo(topic).getQueueDatas().stream()
          .flatMap(
              data ->
                  java.util.stream.IntStream.range(0, data.getReadQueueNums())
                      .mapToObj(id -> new MessageQueue(topic, data.getBrokerName(), id)))
          .sorted(Comparator.comparingInt(MessageQueue::getQueueId))
          .toList();
    }

    Object send(String[] words) throws Exception {
      Message message = new Message(words[1], HEX.parseHex(words[5]));
      if (!words[3].isEmpty()) {
        message.setTags(words[3]);
      }
      if (!words[4].isEmpty()) {
        message.setKeys(words[4]);
      }
      int queue = Integer.parseInt(words[2]);
      return producer.send(message, (queues, sent, id) -> queues.get(queue), null);
    }

    /** A broker puts what it has taken into the queues a little later: by then a dump would lack the last. */
    Object settled() throws Exception {
      for (var broker : admin.examineBrokerClusterInfo().getBrokerAddrTable().values()) {
        String behind =
            admin.fetchBrokerRuntimeStats(broker.selectBrokerAddr()).getTable().get("dispatchBehindBytes");
        if (Long.parseLong(behind) > 0) {
          throw new IllegalStateException("the queues are " + behind + " bytes behind the log");
        }
      }
      return null;
    }

    void dump(String topic) throws Exception {
      patiently(this::settled);
      for (MessageQueue queue : patiently(() -> queues(topic))) {
        long at = patiently(() -> consumer.minOffset(queue));
        long end = patiently(() -> consumer.maxOffset(queue));
        while (at < end) {
          long from = at;
          PullResult result = patiently(() -> consumer.pull(queue, "*", from, 32, 5_000));
          if (result.getPullStatus() == PullStatus.FOUND) {
            for (MessageExt message : result.getMsgFoundList()) {
              if (message.getQueueOffset() < end) {
                Talk.say(describe(message));
              }
            }
          }
          if (result.getNextBeginOffset() <= at) {
            throw new IllegalStateException(queue + " stays at " + at + ": " + result);
          }
          at = result.getNextBeginOffset();
        }
      }
    }

    private static String describe(MessageExt message) {
      Map<String, Object> out = new LinkedHashMap<>();
      out.put("queue", message.getQueueId());
      out.put("offset", message.getQueueOffset());
      out.put("tags", message.getTags());
      out.put("keys", message.getKeys());
      out.put("properties", new TreeMap<>(message.getProperties()));
      out.put("body", HEX.formatHex(message.getBody()));
      return Json.text(out);
    }
  }
}

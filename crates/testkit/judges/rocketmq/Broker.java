import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.BrokerStartup;

/**
 * RocketMQ's broker, known to its name server at once.
 *
 * <p>The broker registers when it starts, with the name servers that its client has found reachable so
 * far: often none yet. The next time is 10 s later, and its shortest period is that too.
 */
final class Broker {
  public static void main(String[] arguments) throws Exception {
    BrokerController broker = BrokerStartup.start(BrokerStartup.createBrokerController(arguments));
    while (broker.getBrokerOuterAPI().getRemotingClient().getAvailableNameSrvList().isEmpty()) {
      Thread.sleep(20);
    }
    broker.registerBrokerAll(true, false, true);
  }
}

import java.net.URI;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.AwsCredentialsProvider;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.cloudwatch.CloudWatchAsyncClient;
import software.amazon.awssdk.services.dynamodb.DynamoDbAsyncClient;
import software.amazon.awssdk.services.keyspacesstreams.KeyspacesStreamsClient;
import software.amazon.keyspaces.streamsadapter.AmazonKeyspacesStreamsAdapterClient;
import software.amazon.keyspaces.streamsadapter.StreamsSchedulerFactory;
import software.amazon.keyspaces.streamsadapter.adapter.KeyspacesStreamsClientRecord;
import software.amazon.keyspaces.streamsadapter.model.KeyspacesStreamsProcessRecordsInput;
import software.amazon.keyspaces.streamsadapter.processor.KeyspacesStreamsShardRecordProcessor;
import software.amazon.kinesis.common.ConfigsBuilder;
import software.amazon.kinesis.common.InitialPositionInStream;
import software.amazon.kinesis.common.InitialPositionInStreamExtended;
import software.amazon.kinesis.coordinator.CoordinatorConfig;
import software.amazon.kinesis.coordinator.Scheduler;
import software.amazon.kinesis.leases.LeaseManagementConfig;
import software.amazon.kinesis.lifecycle.events.InitializationInput;
import software.amazon.kinesis.lifecycle.events.LeaseLostInput;
import software.amazon.kinesis.lifecycle.events.ShardEndedInput;
import software.amazon.kinesis.lifecycle.events.ShutdownRequestedInput;
import software.amazon.kinesis.metrics.NullMetricsFactory;
import software.amazon.kinesis.processor.StreamTracker;
import software.amazon.kinesis.retrieval.polling.PollingConfig;

/**
 * Amazon's Keyspaces adapter for the Kinesis Client Library reads a stream from its beginning.
 *
 * <p>A request: lines of a name, a tab and a value, and an empty line.
 *
 * <pre>
 *   arn        the stream
 *   streams    the API's address
 *   dynamodb   where leases are kept
 *   key        access key and secret, the same for both
 *   ends       ends after so many ends of shards, or
 *   seconds    after so many seconds
 * </pre>
 *
 * <p>The answer: a JSON object a line, for each record, shard begun and shard ended; then an empty line.
 */
final class KclJudge {
  private static final BlockingQueue<Map<String, Object>> EVENTS = new LinkedBlockingQueue<>();

  private static void tell(Object... pairs) {
    Map<String, Object> event = new LinkedHashMap<>();
    for (int at = 0; at < pairs.length; at += 2) {
      event.put((String) pairs[at], pairs[at + 1]);
    }
    EVENTS.add(event);
  }

  static final class Reader implements KeyspacesStreamsShardRecordProcessor {
    private String shard;

    @Override
    public void initialize(InitializationInput input) {
      shard = input.shardId();
      tell("event", "begin", "shard", shard);
    }

    @Override
    public void processRecords(KeyspacesStreamsProcessRecordsInput input) {
      for (KeyspacesStreamsClientRecord one : input.records()) {
        var record = one.getRecord();
        tell(
            "event", "record",
            "shard", shard,
            "sequence", record.sequenceNumber(),
            "id", record.partitionKeys().get("id").bigintT(),
            "old", record.oldImage() != null,
            "new", record.newImage() == null ? null : record.newImage().valueCells().get("v").value().intT());
      }
      try {
        if (!input.records().isEmpty()) {
          input.checkpointer().checkpoint();
        }
      } catch (Exception error) {
        tell("event", "trouble", "text", error.toString());
      }
    }

    @Override
    public void leaseLost(LeaseLostInput input) {
      tell("event", "lost", "shard", shard);
    }

    @Override
    public void shardEnded(ShardEndedInput input) {
      try {
        input.checkpointer().checkpoint();
        tell("event", "end", "shard", shard);
      } catch (Exception error) {
        tell("event", "trouble", "text", error.toString());
      }
    }

    @Override
    public void shutdownRequested(ShutdownRequestedInput input) {}
  }

  private static Scheduler scheduler(Map<String, String> asked) {
    AwsCredentialsProvider credentials =
        StaticCredentialsProvider.create(AwsBasicCredentials.create(asked.get("key"), asked.get("key") + "-secret"));
    Region region = Region.US_EAST_1;
    URI local = URI.create(asked.get("dynamodb"));
    KeyspacesStreamsClient streams =
        KeyspacesStreamsClient.builder()
            .endpointOverride(URI.create(asked.get("streams")))
            .region(region)
            .credentialsProvider(credentials)
            .build();
    DynamoDbAsyncClient leases =
        DynamoDbAsyncClient.builder().endpointOverride(local).region(region).credentialsProvider(credentials).build();
    CloudWatchAsyncClient watch =
        CloudWatchAsyncClient.builder().endpointOverride(local).region(region).credentialsProvider(credentials).build();
    AmazonKeyspacesStreamsAdapterClient adapter = new AmazonKeyspacesStreamsAdapterClient(streams, region);
    StreamTracker tracker =
        StreamsSchedulerFactory.createSingleStreamTracker(
            asked.get("arn"),
            InitialPositionInStreamExtended.newInitialPosition(InitialPositionInStream.TRIM_HORIZON));
    ConfigsBuilder configs =
        new ConfigsBuilder(tracker, "kcl-judge", adapter, leases, watch, UUID.randomUUID().toString(), Reader::new);
    String stream = tracker.streamConfigList().get(0).streamIdentifier().streamName();
    PollingConfig polling = new PollingConfig(stream, adapter);
    polling.idleTimeBetweenReadsInMillis(200L);
    // Its defaults are minutes, for leases and for the children of a shard.
    LeaseManagementConfig management = configs.leaseManagementConfig().failoverTimeMillis(1000);
    management
        .workerUtilizationAwareAssignmentConfig()
        .workerMetricsReporterFreqInMillis(1000)
        .inMemoryWorkerMetricsCaptureFrequencyMillis(500);
    management
        .shardSyncIntervalMillis(1000)
        .leasesRecoveryAuditorExecutionFrequencyMillis(1000)
        .leasesRecoveryAuditorInconsistencyConfidenceThreshold(1);
    CoordinatorConfig coordinator =
        configs
            .coordinatorConfig()
            .parentShardPollIntervalMillis(500)
            .shardConsumerDispatchPollIntervalMillis(200)
            .skipShardSyncAtWorkerInitializationIfLeasesExist(true);
    return StreamsSchedulerFactory.createScheduler(
        configs.checkpointConfig(),
        coordinator,
        management,
        configs.lifecycleConfig(),
        configs.metricsConfig().metricsFactory(new NullMetricsFactory()),
        configs.processorConfig().callProcessRecordsEvenForEmptyRecordList(false),
        configs.retrievalConfig().retrievalSpecificConfig(polling),
        streams,
        region);
  }

  public static void main(String[] arguments) throws Exception {
    Map<String, String> asked = new HashMap<>();
    Scanner lines = new Scanner(System.in);
    for (String line = lines.nextLine(); !line.isEmpty(); line = lines.nextLine()) {
      String[] pair = line.split("\t", 2);
      asked.put(pair[0], pair[1]);
    }
    Thread running = new Thread(scheduler(asked));
    running.setDaemon(true);
    running.start();
    int ends = Integer.parseInt(asked.get("ends"));
    long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.parseLong(asked.get("seconds")));
    while (ends > 0 && System.nanoTime() < until) {
      ends -= show(EVENTS.poll(200, TimeUnit.MILLISECONDS));
    }
    // What comes twice would come now.
    Thread.sleep(1500);
    List<Map<String, Object>> late = new java.util.ArrayList<>();
    EVENTS.drainTo(late);
    late.forEach(KclJudge::show);
    System.out.println();
    System.out.flush();
    Runtime.getRuntime().halt(0);
  }

  /** Prints an event; 1 for the end of a shard. */
  private static int show(Map<String, Object> event) {
    if (event == null) {
      return 0;
    }
    System.out.println(Json.text(event));
    System.out.flush();
    return "end".equals(event.get("event")) ? 1 : 0;
  }
}

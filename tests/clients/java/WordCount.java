import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/** Counts words with Kafka Streams: at least once, then exactly once. The second half of the lines comes to an application that was
 * started anew without its local state, so that it has to read its changelog back. */
public class WordCount {
    static final List<String> LINES = List.of("to be or not to be", "that is the question", "to do is to be", "be that as it may");

    final String broker, name;
    final Path state;

    WordCount(String broker, String name) throws Exception {
        this.broker = broker;
        this.name = name;
        this.state = Files.createTempDirectory("word-count");
    }

    public static void main(String[] args) throws Exception {
        if (args.length != 2) {
            System.err.println("usage: WordCount HOST:PORT NAME");
            System.exit(2);
        }
        String version = Steps.version();
        System.out.println("version " + version);
        WordCount run = new WordCount(args[0], args[1]);
        Steps.step("word-count", () -> run.count("at_least_once"));
        Steps.step("exactly-once", () -> run.count(version.startsWith("2.") ? "exactly_once_beta" : "exactly_once_v2"));
        System.exit(0);
    }

    void count(String guarantee) throws Exception {
        String in = name + "-" + guarantee + "-lines", out = name + "-" + guarantee + "-counts";
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", broker))) {
            var topics = List.of(new NewTopic(in, 2, (short) 1), new NewTopic(out, 1, (short) 1));
            admin.createTopics(topics).all().get(30, TimeUnit.SECONDS);
        }
        int half = LINES.size() / 2;
        for (int begin = 0; begin < LINES.size(); begin += half) {
            try (KafkaStreams streams = new KafkaStreams(topology(in, out), settings(guarantee))) {
                streams.cleanUp();
                streams.start();
                send(in, LINES.subList(begin, begin + half));
                expect(out, counts(LINES.subList(0, begin + half)));
            }
        }
    }

    static Topology topology(String in, String out) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(in)
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word)
            .count(Materialized.as("counts"))
            .toStream()
            .to(out, Produced.with(Serdes.String(), Serdes.Long()));
        return builder.build();
    }

    Properties settings(String guarantee) {
        Properties settings = new Properties();
        // Streams does not leave its group when it is closed: whoever comes next waits for the session to end.
        settings.putAll(Map.of(
            "session.timeout.ms", "6000", "heartbeat.interval.ms", "1000",
            "application.id", name + "-" + guarantee, "bootstrap.servers", broker, "processing.guarantee", guarantee,
            "state.dir", state.toString(), "replication.factor", "1", "commit.interval.ms", "100",
            "default.key.serde", Serdes.String().getClass(), "default.value.serde", Serdes.String().getClass()));
        return settings;
    }

    void send(String topic, List<String> lines) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", broker);
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            for (String line : lines) producer.send(new ProducerRecord<>(topic, line, line)).get(30, TimeUnit.SECONDS);
        }
    }

    static Map<String, Long> counts(List<String> lines) {
        Map<String, Long> counts = new TreeMap<>();
        for (String line : lines) for (String word : line.split(" ")) counts.merge(word, 1L, Long::sum);
        return counts;
    }

    /** Reads the newest committed counts until they are those expected. */
    void expect(String topic, Map<String, Long> expected) throws Exception {
        Map<String, Object> settings = Map.of("bootstrap.servers", broker, "isolation.level", "read_committed");
        Map<String, Long> got = new TreeMap<>();
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new LongDeserializer())) {
            var partitions = List.of(new TopicPartition(topic, 0));
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            Steps.await("the counts are " + expected, () -> {
                consumer.poll(Duration.ofMillis(100)).forEach(each -> got.put(each.key(), each.value()));
                return got.equals(expected);
            });
        }
    }
}

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The steps of the client matrix, which ../matrix describes, with Apache Kafka's own clients. */
public class Clients {
    static final int COUNT = 200;

    final Map<String, Object> common;
    final Map<String, String> memberSettings;
    final String name;
    final Admin admin;
    List<ConsumerRecord<String, String>> seen = List.of();

    Clients(String broker, String name, Map<String, String> memberSettings) {
        this.common = Map.of("bootstrap.servers", broker, "default.api.timeout.ms", "30000");
        this.memberSettings = memberSettings;
        this.name = name;
        this.admin = Admin.create(common);
    }

    public static void main(String[] args) {
        if (args.length < 2) {
            System.err.println("usage: Clients HOST:PORT NAME [SETTING=VALUE of group members ...]");
            System.exit(2);
        }
        System.out.println("version " + Steps.version());
        Map<String, String> settings = IntStream.range(2, args.length).mapToObj(i -> args[i].split("=", 2))
            .collect(Collectors.toMap(each -> each[0], each -> each[1]));
        Clients run = new Clients(args[0], args[1], settings);
        Steps.step("admin", run::admin);
        Steps.step("produce", run::produce);
        Steps.step("headers", run::headers);
        Steps.step("group", run::group);
        Steps.step("rebalance", run::rebalance);
        Steps.step("transaction", run::transaction);
        System.exit(0);
    }

    void admin() throws Exception {
        String topic = name + "-gone";
        create(topic, 3);
        Steps.equal("partitions", describe(topic).partitions().size(), 3);
        admin.deleteTopics(List.of(topic)).all().get(30, TimeUnit.SECONDS);
        Steps.await("the topic is gone", () -> !admin.listTopics().names().get(30, TimeUnit.SECONDS).contains(topic));
    }

    void create(String topic, int partitions) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get(30, TimeUnit.SECONDS);
    }

    /** Calls by name: all() went with 4.0, allTopicNames() came with 3.1. */
    @SuppressWarnings("unchecked")
    TopicDescription describe(String topic) throws Exception {
        String all = Steps.version().startsWith("2.") ? "all" : "allTopicNames";
        Object result = admin.describeTopics(List.of(topic));
        var future = (KafkaFuture<Map<String, TopicDescription>>) result.getClass().getMethod(all).invoke(result);
        return future.get(30, TimeUnit.SECONDS).get(topic);
    }

    void produce() throws Exception {
        create(name, 4);
        List<ProducerRecord<String, String>> sent = new ArrayList<>();
        for (int i = 0; i < COUNT; i++) {
            var record = new ProducerRecord<>(name, "key-" + i, "value-" + i);
            record.headers().add("number", Integer.toString(i).getBytes()).add("empty", new byte[0]);
            sent.add(record);
        }
        send(sent);
        seen = read(name, COUNT);
        Map<String, String> got = new TreeMap<>(), expected = new TreeMap<>();
        seen.forEach(each -> got.put(each.key(), each.value()));
        sent.forEach(each -> expected.put(each.key(), each.value()));
        Steps.equal("contents", got, expected);
    }

    void headers() {
        Map<String, String> got = new TreeMap<>(), expected = new TreeMap<>();
        for (var each : seen) {
            String text = "";
            for (Header header : each.headers()) text += header.key() + "=" + new String(header.value()) + " ";
            got.put(each.key(), text);
        }
        for (int i = 0; i < COUNT; i++) expected.put("key-" + i, "number=" + i + " empty= ");
        Steps.equal("headers", got, expected);
    }

    static Map<String, Object> with(Map<String, ?> settings, Object... more) {
        Map<String, Object> all = new TreeMap<>(settings);
        for (int i = 0; i < more.length; i += 2) all.put((String) more[i], more[i + 1]);
        return all;
    }

    KafkaProducer<String, String> producer(Object... settings) {
        return new KafkaProducer<>(with(common, settings), new StringSerializer(), new StringSerializer());
    }

    KafkaConsumer<String, String> consumer(Map<String, ?> more, Object... settings) {
        Map<String, Object> all = with(common, settings);
        all.putAll(more);
        all.put("auto.offset.reset", "earliest");
        all.put("enable.auto.commit", "false");
        return new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer());
    }

    void send(List<ProducerRecord<String, String>> records) throws Exception {
        try (var producer = producer("acks", "all")) {
            send(producer, records);
        }
    }

    static void send(KafkaProducer<String, String> producer, List<ProducerRecord<String, String>> records) throws Exception {
        var sent = records.stream().map(producer::send).collect(Collectors.toList());
        for (var each : sent) each.get(30, TimeUnit.SECONDS);
    }

    static List<String> words(String word, int count) {
        return IntStream.range(0, count).mapToObj(i -> String.format("%s-%03d", word, i)).collect(Collectors.toList());
    }

    static List<ProducerRecord<String, String>> records(String topic, List<String> words) {
        return words.stream().map(each -> new ProducerRecord<>(topic, each, each)).collect(Collectors.toList());
    }

    /** Reads the first committed records of a topic without a group. */
    List<ConsumerRecord<String, String>> read(String topic, int count) throws Exception {
        try (var consumer = consumer(Map.of(), "isolation.level", "read_committed")) {
            consumer.assign(consumer.partitionsFor(topic).stream().map(each -> new TopicPartition(topic, each.partition()))
                .collect(Collectors.toList()));
            List<ConsumerRecord<String, String>> all = new ArrayList<>();
            Steps.await(count + " records are read", () -> {
                consumer.poll(Duration.ofMillis(100)).forEach(all::add);
                return all.size() >= count;
            });
            return all;
        }
    }

    /** A consumer in a group, and what it has read. */
    class Member {
        final KafkaConsumer<String, String> consumer;
        final List<String> values = new ArrayList<>();

        Member(String topic, String group) {
            consumer = consumer(memberSettings, "group.id", group);
            consumer.subscribe(List.of(topic));
        }

        int poll() {
            consumer.poll(Duration.ofMillis(100)).forEach(each -> values.add(each.value()));
            return values.size();
        }

        int partitions() {
            poll();
            return consumer.assignment().size();
        }

        void leave() {
            consumer.commitSync();
            consumer.close();
        }
    }

    void group() throws Exception {
        Member first = new Member(name, name + "-group");
        Steps.await("the first member reads all", () -> first.poll() >= COUNT);
        first.leave();
        send(records(name, List.of("later")));
        Member second = new Member(name, name + "-group");
        Steps.await("the second member reads", () -> second.poll() > 0);
        Steps.equal("what is left", second.values, List.of("later"));
        second.leave();
    }

    void rebalance() throws Exception {
        String topic = name + "-shared";
        create(topic, 4);
        Member first = new Member(topic, topic);
        Steps.await("the first member has all", () -> first.partitions() == 4);
        Member second = new Member(topic, topic);
        Steps.await("they share", () -> first.partitions() == 2 & second.partitions() == 2);
        List<String> shared = words("shared", 40);
        send(records(topic, shared));
        Steps.await("they read all", () -> first.poll() + second.poll() >= shared.size());
        first.values.addAll(second.values);
        Steps.equal("values", first.values.stream().sorted().collect(Collectors.toList()), shared);
        second.leave();
        Steps.await("the first has all again", () -> first.partitions() == 4);
        first.leave();
    }

    void transaction() throws Exception {
        String topic = name + "-transactions";
        create(topic, 1);
        try (var producer = producer("transactional.id", topic)) {
            producer.initTransactions();
            producer.beginTransaction();
            send(producer, records(topic, words("aborted", 10)));
            producer.abortTransaction();
            producer.beginTransaction();
            send(producer, records(topic, words("committed", 10)));
            producer.commitTransaction();
        }
        Steps.equal("values", read(topic, 10).stream().map(ConsumerRecord::value).collect(Collectors.toList()), words("committed", 10));
    }
}

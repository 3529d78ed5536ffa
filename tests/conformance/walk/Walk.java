// The calls that consoles and ordinary applications make, through Kafka's own Java Admin client, Producer and Consumer, against any
// running broker. What is expected is what Apache Kafka 4.3.1 answers. admin-walk, one folder up, compiles and runs it:
//
//   java -cp CLASSPATH walk.Walk BROKER GROUPS ONLY
//
// GROUPS is a regex of groups to run, each a class or a method here that makes and deletes its own topics; ONLY one of checks to
// report: the others of a group are run, since checks build on each other, and pass over in silence. Checks that need a setting of the
// broker (retention interval, auto-create) read it first and are skipped with the reason where it does not fit.
package walk;

import java.time.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.*;

public class Walk {
    interface Step { Object run() throws Exception; }
    interface Body { void run() throws Exception; }
    static class Skip extends Exception { Skip(String m) { super(m); } }

    static String broker, group, run = "aw" + Long.toString(System.currentTimeMillis() % 1_000_000_000L, 36) + "-";
    static Pattern groups, only;
    static int passed, failed, skipped;
    static Admin admin;
    static final long start = System.nanoTime();

    // ---- the runner -----------------------------------------------------------------------------------------------

    static void check(String name, Step s) {
        String full = group + "." + name, verdict = "PASS", why;
        try {
            why = String.valueOf(s.run());
        } catch (Skip e) {
            verdict = "SKIP"; why = e.getMessage();
        } catch (Throwable t) {
            while (t instanceof ExecutionException && t.getCause() != null) t = t.getCause();
            why = t instanceof AssertionError ? t.getMessage() : t.getClass().getSimpleName() + ": " + t.getMessage();
            verdict = "FAIL";
        }
        if (only.matcher(full).find()) report(verdict, full, why);
    }
    static synchronized void report(String verdict, String name, String why) {
        switch (verdict) { case "PASS" -> passed++; case "FAIL" -> failed++; default -> skipped++; }
        System.out.printf("%s  %-44s %s%n", verdict, name, why.replaceAll("\\s+", " ").replace(run, "RUN-"));
        System.out.flush();
    }
    static void summary() {
        System.out.printf("%nwalk took %d s%n%d passed, %d failed, %d skipped%n", (System.nanoTime() - start) / 1_000_000_000, passed, failed, skipped);
        System.out.flush();
    }
    static boolean wanted(String name) { return groups.matcher(name).find(); }
    static void group(String name, Body b) {
        if (!wanted(name)) return;
        group = name;
        try { b.run(); } catch (Throwable t) { report("FAIL", name + ".setup", String.valueOf(t)); }
    }
    static void want(boolean ok, String message) { if (!ok) throw new AssertionError(message); }
    static Object eq(Object expected, Object actual) {
        want(Objects.equals(expected, actual), "expected " + expected + ", got " + actual);
        return expected;
    }
    static String name(Throwable t) { return t.getClass().getSimpleName().replaceAll("Exception$", ""); }
    static String error(Future<?> f) throws Exception {
        try { f.get(40, TimeUnit.SECONDS); return "none"; }
        catch (ExecutionException e) { return name(e.getCause()); }
        catch (TimeoutException e) { return "no answer in 40 s"; }
    }
    static Object expect(String error, Future<?> f) throws Exception { return eq(error, error(f)); }
    static String thrown(Step s) {
        try { return "none: " + s.run(); }
        catch (Throwable t) { return name(t.getCause() != null && (t instanceof ExecutionException || t.getClass() == KafkaException.class) ? t.getCause() : t); }
    }
    static <T> T getQuietly(KafkaFuture<T> f) { try { return f.get(); } catch (Exception e) { throw new RuntimeException(e); } }
    static boolean until(int seconds, Callable<Boolean> ok) throws Exception {
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        while (System.nanoTime() < end) { if (ok.call()) return true; Thread.sleep(50); }
        return ok.call();
    }

    // ---- shorthand for clients ------------------------------------------------------------------------------------

    static Map<String, Object> conf(Object... kv) {
        Map<String, Object> m = new HashMap<>();
        m.put("bootstrap.servers", broker);
        for (int i = 0; i < kv.length; i += 2) m.put((String) kv[i], kv[i + 1]);
        return m;
    }
    static KafkaProducer<String, String> producer(Object... kv) {
        Map<String, Object> m = conf("delivery.timeout.ms", 15000, "request.timeout.ms", 10000, "max.block.ms", 15000, "linger.ms", 0);
        m.putAll(conf(kv));
        return new KafkaProducer<>(m, new StringSerializer(), new StringSerializer());
    }
    static KafkaConsumer<String, String> consumer(Object... kv) {
        Map<String, Object> m = conf("auto.offset.reset", "earliest", "enable.auto.commit", "false", "default.api.timeout.ms", 15000);
        m.putAll(conf(kv));
        return new KafkaConsumer<>(m, new StringDeserializer(), new StringDeserializer());
    }
    static void create(String topic, int partitions, String... kv) throws Exception {
        Map<String, String> c = new HashMap<>();
        for (int i = 0; i < kv.length; i += 2) c.put(kv[i], kv[i + 1]);
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(c))).all().get();
        want(until(30, () -> error(admin.describeTopics(List.of(topic)).allTopicNames()).equals("none")), topic + " is created, but not described for 30 s");
    }
    static void drop(String... topics) { for (String t : topics) try { admin.deleteTopics(List.of(t)).all().get(); } catch (Exception e) { /* gone */ } }
    static TopicPartition tp(String t, int p) { return new TopicPartition(t, p); }
    static long offset(String t, OffsetSpec s) throws Exception { return admin.listOffsets(Map.of(tp(t, 0), s)).partitionResult(tp(t, 0)).get().offset(); }
    static RecordMetadata send(Producer<String, String> p, String t, String k, String v) throws Exception { return p.send(new ProducerRecord<>(t, k, v)).get(); }
    static void fill(String t, int n) throws Exception { try (var p = producer()) { for (int i = 0; i < n; i++) p.send(new ProducerRecord<>(t, "k" + i, "v" + i)); p.flush(); } }
    static List<ConsumerRecord<String, String>> readAll(String t, Object... kv) throws Exception {
        try (var c = consumer(kv)) {
            List<TopicPartition> parts = c.partitionsFor(t).stream().map(i -> tp(t, i.partition())).toList();
            c.assign(parts); c.seekToBeginning(parts);
            Map<TopicPartition, Long> ends = c.endOffsets(parts);
            List<ConsumerRecord<String, String>> out = new ArrayList<>();
            until(20, () -> {
                c.poll(Duration.ofMillis(200)).forEach(out::add);
                return parts.stream().allMatch(x -> c.position(x) >= ends.get(x));
            });
            return out;
        }
    }
    static ConfigResource res(ConfigResource.Type t, String n) { return new ConfigResource(t, n); }
    static Config config(ConfigResource r) throws Exception { return admin.describeConfigs(List.of(r)).all().get().get(r); }
    static KafkaFuture<Void> alter(ConfigResource r, AlterConfigOp.OpType op, String k, String v) {
        return admin.incrementalAlterConfigs(Map.of(r, List.of(new AlterConfigOp(new ConfigEntry(k, v), op)))).all();
    }
    static String brokerSetting(String k) throws Exception {
        ConfigEntry e = config(res(ConfigResource.Type.BROKER, anyBroker())).get(k);
        return e == null ? null : e.value();
    }
    static String anyBroker() throws Exception { return admin.describeCluster().nodes().get().iterator().next().idString(); }

    public static void main(String[] args) throws Exception {
        broker = args[0]; groups = Pattern.compile(args[1]); only = Pattern.compile(args[2]);
        Thread dog = new Thread(() -> {
            try { Thread.sleep(720_000); } catch (InterruptedException e) { return; }
            report("FAIL", "walk", "took longer than 12 minutes"); summary(); Runtime.getRuntime().halt(1);
        });
        dog.setDaemon(true); dog.start();
        admin = Admin.create(conf("default.api.timeout.ms", 20000, "request.timeout.ms", 15000));
        try { admin.describeCluster().nodes().get(25, TimeUnit.SECONDS); }
        catch (Exception e) { System.err.println("admin-walk: no Kafka broker answers at " + broker + ": " + e); System.exit(2); }
        Body verifyCleanup = wanted("cleanup") ? Cleanup.start() : () -> { };
        group("cluster", Cluster::cluster);
        group("topics", Topics::topics);
        group("bulk", Topics::bulk);
        group("configs", Configs::configs);
        group("offsets", Records::offsets);
        group("records", Records::records);
        group("limits", Records::limits);
        group("txn", Transactions::transactions);
        group("classic", () -> Groups.groups("classic"));
        group("consumer", () -> Groups.groups("consumer"));
        group("assign", Consumers::assigned);
        group("pattern", Consumers::patterns);
        group("cleanup", verifyCleanup);
        admin.close(Duration.ofSeconds(5));
        summary();
        System.exit(failed == 0 ? 0 : 1);
    }
}

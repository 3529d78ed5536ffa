// Consumers without a group, and consumers that subscribe to a pattern.
package walk;

import static walk.Groups.*;
import static walk.Walk.*;

import java.time.*;
import java.util.*;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;

@SuppressWarnings("removal")
final class Consumers {
    static void assigned() throws Exception {
        String t = run + "asn";
        create(t, 1);
        long now = System.currentTimeMillis();
        try (var p = producer()) { for (int i = 0; i < 10; i++) p.send(new ProducerRecord<>(t, 0, now - (i < 5 ? 7_200_000 : 0) + i, "k" + i, "v" + i)).get(); }
        TopicPartition x = tp(t, 0);
        for (String protocol : List.of("classic", "consumer")) {
            check(protocol + "-seek", () -> { try (var c = consumer("group.protocol", protocol, "group.id", run + "asn1")) { c.assign(List.of(x)); c.seek(x, 4); String v = next(c).value(); c.seekToBeginning(List.of(x)); v += next(c).value(); c.seekToEnd(List.of(x)); return eq("v4v0 10", v + " " + c.position(x)); } });
            check(protocol + "-times-and-ends", () -> { try (var c = consumer("group.protocol", protocol, "group.id", run + "asn1")) { return eq("5 0 10 null", c.offsetsForTimes(Map.of(x, now - 1000)).get(x).offset() + " " + c.beginningOffsets(List.of(x)).get(x) + " " + c.endOffsets(List.of(x)).get(x) + " " + c.offsetsForTimes(Map.of(x, now + 100000)).get(x)); } });
            check(protocol + "-by-duration", () -> { try (var c = consumer("group.protocol", protocol, "group.id", run + "asn2", "auto.offset.reset", "by_duration:PT1H")) { c.assign(List.of(x)); return eq("v5", next(c).value()); } });
            check(protocol + "-latest", () -> { try (var c = consumer("group.protocol", protocol, "group.id", run + "asn2", "auto.offset.reset", "latest")) { c.assign(List.of(x)); return eq(10L, c.position(x)); } });
            check(protocol + "-none", () -> { try (var c = consumer("group.protocol", protocol, "group.id", run + "asn3", "auto.offset.reset", "none")) { c.assign(List.of(x)); return eq("NoOffsetForPartition", thrown(() -> next(c))); } });
            check(protocol + "-out-of-range-none", () -> { try (var c = consumer("group.protocol", protocol, "group.id", run + "asn3", "auto.offset.reset", "none")) { c.assign(List.of(x)); c.seek(x, 99); return eq("OffsetOutOfRange", thrown(() -> next(c))); } });
            check(protocol + "-out-of-range-earliest", () -> { try (var c = consumer("group.protocol", protocol, "group.id", run + "asn3")) { c.assign(List.of(x)); c.seek(x, 99); return eq("v0", next(c).value()); } });
            check(protocol + "-resume-from-commit", () -> { try (var c = consumer("group.protocol", protocol, "group.id", run + "asn4" + protocol)) { c.assign(List.of(x)); c.commitSync(Map.of(x, new OffsetAndMetadata(6))); } try (var c = consumer("group.protocol", protocol, "group.id", run + "asn4" + protocol)) { c.assign(List.of(x)); return eq("v6", next(c).value()); } });
            check(protocol + "-pause-resume", () -> { try (var c = consumer("group.protocol", protocol, "group.id", run + "asn1")) { c.assign(List.of(x)); c.pause(List.of(x)); eq(0, c.poll(Duration.ofMillis(700)).count()); c.resume(List.of(x)); return eq("v0", next(c).value()); } });
            check(protocol + "-long-poll-wakes", () -> {
                try (var c = consumer("group.protocol", protocol, "group.id", run + "asn1", "fetch.max.wait.ms", "5000", "auto.offset.reset", "latest"); var p = producer()) {
                    String tt = t + protocol; create(tt, 1); c.assign(List.of(tp(tt, 0))); c.position(tp(tt, 0)); c.poll(Duration.ofMillis(500));
                    long t0 = System.nanoTime(); send(p, tt, "k", "v"); var r = next(c); long ms = (System.nanoTime() - t0) / 1_000_000; drop(tt);
                    want(ms < 2000, "woke after " + ms + " ms"); return "long before fetch.max.wait.ms";
                }
            });
        }
        drop(t);
    }
    static ConsumerRecord<String, String> next(KafkaConsumer<String, String> c) throws Exception {
        for (int i = 0; i < 50; i++) for (var r : c.poll(Duration.ofMillis(200))) return r;
        throw new AssertionError("no record in 10 s");
    }

    static void patterns() throws Exception {
        String a = run + "pat-a", b = run + "pat-b";
        for (String protocol : List.of("classic", "consumer"))
            check(protocol + "-java-pattern", () -> pattern(member(protocol, run + "pg" + protocol, "metadata.max.age.ms", "500"), c -> c.subscribe(Pattern.compile(run + "pat-.*")), a, b));
        check("consumer-re2-pattern", () -> pattern(member("consumer", run + "pgre2", "metadata.max.age.ms", "500"), c -> c.subscribe(new SubscriptionPattern(run + "pat-.*")), a, b));
        check("consumer-re2-invalid", () -> { try (var c = member("consumer", run + "pgbad")) { c.subscribe(new SubscriptionPattern("(")); return eq("InvalidRegularExpression", thrown(() -> next(c))); } });
        check("consumer-unknown-assignor", () -> { try (var c = member("consumer", run + "pgas", "group.remote.assignor", "nope")) { c.subscribe(List.of(run + "pgas")); return eq("UnsupportedAssignor", thrown(() -> next(c))); } finally { drop(run + "pgas"); } });
        check("consumer-range-assignor", () -> { create(a, 4); String g = run + "pgrange"; try (var c = member("consumer", g, "group.remote.assignor", "range")) { c.subscribe(List.of(a)); balanced(new ArrayList<>(List.of(c)), "4", new ArrayList<>()); return eq("range", describeGroup(g).partitionAssignor()); } finally { drop(a); } });
    }
    static Object pattern(KafkaConsumer<String, String> c, java.util.function.Consumer<KafkaConsumer<String, String>> subscribe, String a, String b) throws Exception {
        try (c) {
            create(a, 2); subscribe.accept(c);
            want(until(20, () -> { c.poll(Duration.ofMillis(100)); return c.assignment().size() == 2; }), "first topic not assigned");
            long t0 = System.nanoTime(); create(b, 1);
            want(until(40, () -> { c.poll(Duration.ofMillis(100)); return c.assignment().size() == 3; }), "a new matching topic not assigned in 40 s");
            return "new topic assigned within " + ((System.nanoTime() - t0) / 1_000_000_000 < 15 ? "15 s" : "40 s");
        } finally { drop(a, b); }
    }
}

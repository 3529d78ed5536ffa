// Offsets, deleted records, codecs, headers, timestamps, acks, and records as large as they may be.
package walk;

import static walk.Walk.*;

import java.time.*;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;

final class Records {
    static void offsets() throws Exception {
        String t = run + "off";
        create(t, 1, "retention.ms", "-1"); // its records are dated 1970
        try (var p = producer()) {
            long[] ts = {1000, 5000, 3000, 9000, 9000, 7000};
            for (int i = 0; i < ts.length; i++) p.send(new ProducerRecord<>(t, 0, ts[i], "k" + i, "v" + i)).get();
            check("earliest", () -> eq(0L, offset(t, OffsetSpec.earliest())));
            check("latest", () -> eq(6L, offset(t, OffsetSpec.latest())));
            check("max-timestamp", () -> { var o = admin.listOffsets(Map.of(tp(t, 0), OffsetSpec.maxTimestamp())).partitionResult(tp(t, 0)).get(); return eq("3 at 9000", o.offset() + " at " + o.timestamp()); });
            check("timestamp-between", () -> { var o = admin.listOffsets(Map.of(tp(t, 0), OffsetSpec.forTimestamp(4000))).partitionResult(tp(t, 0)).get(); return eq("1 at 5000", o.offset() + " at " + o.timestamp()); });
            check("timestamp-beyond", () -> eq(-1L, offset(t, OffsetSpec.forTimestamp(9001))));
            check("timestamp-zero", () -> eq(0L, offset(t, OffsetSpec.forTimestamp(0))));
            check("earliest-local", () -> eq(0L, offset(t, OffsetSpec.earliestLocal())));
            check("latest-tiered", () -> eq(-1L, offset(t, OffsetSpec.latestTiered())));
            check("earliest-pending-upload", () -> eq(-1L, offset(t, OffsetSpec.earliestPendingUpload())));
            check("leader-epoch", () -> eq(Optional.of(0), admin.listOffsets(Map.of(tp(t, 0), OffsetSpec.latest())).partitionResult(tp(t, 0)).get().leaderEpoch()));
            check("unknown-topic", () -> expect("UnknownTopicOrPartition", admin.listOffsets(Map.of(tp(t + "x", 0), OffsetSpec.latest()), new ListOffsetsOptions().timeoutMs(3000)).all()));
            check("producers", () -> {
                var s = admin.describeProducers(List.of(tp(t, 0))).partitionResult(tp(t, 0)).get().activeProducers();
                eq(1, s.size());
                var x = s.get(0);
                return eq("epoch 0, last sequence 5, no transaction, coordinator epoch -1", "epoch " + x.producerEpoch() + ", last sequence " + x.lastSequence()
                    + (x.currentTransactionStartOffset().isEmpty() ? ", no transaction" : ", a transaction") + ", coordinator epoch " + x.coordinatorEpoch().orElse(-1));
            });
            check("delete-records", () -> eq(2L, admin.deleteRecords(Map.of(tp(t, 0), RecordsToDelete.beforeOffset(2))).lowWatermarks().get(tp(t, 0)).get().lowWatermark()));
            check("delete-records-lower-again", () -> eq(2L, admin.deleteRecords(Map.of(tp(t, 0), RecordsToDelete.beforeOffset(1))).lowWatermarks().get(tp(t, 0)).get().lowWatermark()));
            check("delete-records-beyond", () -> expect("OffsetOutOfRange", admin.deleteRecords(Map.of(tp(t, 0), RecordsToDelete.beforeOffset(99))).all()));
            check("delete-records-unknown", () -> expect("Timeout", admin.deleteRecords(Map.of(tp(t + "x", 0), RecordsToDelete.beforeOffset(1)), new DeleteRecordsOptions().timeoutMs(3000)).all()));
            check("delete-records-earliest", () -> eq(2L, offset(t, OffsetSpec.earliest())));
            check("delete-records-read", () -> eq(List.of(2L, 3L, 4L, 5L), readAll(t).stream().map(ConsumerRecord::offset).toList()));
            check("delete-records-timestamp", () -> eq(2L, offset(t, OffsetSpec.forTimestamp(0))));
            check("delete-records-all", () -> eq(6L, admin.deleteRecords(Map.of(tp(t, 0), RecordsToDelete.beforeOffset(-1))).lowWatermarks().get(tp(t, 0)).get().lowWatermark()));
            check("empty-log", () -> eq("6 6 -1", offset(t, OffsetSpec.earliest()) + " " + offset(t, OffsetSpec.latest()) + " " + offset(t, OffsetSpec.forTimestamp(0))) + ", max timestamp at " + offset(t, OffsetSpec.maxTimestamp()));
            check("produce-after-delete", () -> eq(6L, send(p, t, "k", "v").offset()));
        }
        check("delete-records-compacted", () -> { create(t + "c", 1, "cleanup.policy", "compact"); fill(t + "c", 0); try { return expect("PolicyViolation", admin.deleteRecords(Map.of(tp(t + "c", 0), RecordsToDelete.beforeOffset(0))).all()); } finally { drop(t + "c"); } });
        drop(t);
    }

    // ---- records: codecs, headers, timestamps, acks ---------------------------------------------------------------

    static void records() throws Exception {
        String t = run + "rec";
        create(t, 3);
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd"))
            check("codec-" + codec, () -> { String c = run + "codec-" + codec; create(c, 1, "retention.ms", "-1"); Object r = roundTrip(c, "compression.type", codec, "linger.ms", 20, "batch.size", 65536); drop(c); return r; });
        for (String codec : List.of("gzip", "snappy", "lz4", "zstd", "uncompressed"))
            check("topic-codec-" + codec, () -> { String c = run + "tcodec-" + codec; create(c, 1, "compression.type", codec, "retention.ms", "-1"); Object r = roundTrip(c, "compression.type", codec.equals("lz4") ? "zstd" : "lz4", "linger.ms", 20); drop(c); return r; });
        check("headers-nulls-empties", () -> {
            try (var p = producer()) {
                p.send(new ProducerRecord<>(t, 0, null, null, null, List.of())).get();
                p.send(new ProducerRecord<>(t, 0, null, "", "", List.of(new RecordHeader("h", null), new RecordHeader("h", new byte[0]), new RecordHeader("", new byte[] {1, 2})))).get();
                p.send(new ProducerRecord<>(t, 0, null, "ключ", "värde", null)).get();
            }
            var r = readAll(t);
            eq(3, r.size());
            want(r.get(0).key() == null && r.get(0).value() == null && r.get(0).serializedValueSize() == -1, "nulls: " + r.get(0));
            want("".equals(r.get(1).key()) && "".equals(r.get(1).value()), "empties");
            var h = r.get(1).headers().toArray();
            want(h.length == 3 && h[0].value() == null && h[1].value().length == 0 && h[2].key().isEmpty() && h[2].value().length == 2, "headers");
            eq("ключ/värde", r.get(2).key() + "/" + r.get(2).value());
            return "kept";
        });
        check("acks-0", () -> { try (var p = producer("acks", "0", "enable.idempotence", false)) { RecordMetadata m = send(p, t, "k", "v"); return eq(false, m.hasOffset()) + " for hasOffset"; } });
        check("acks-1", () -> { try (var p = producer("acks", "1", "enable.idempotence", false)) { want(send(p, t, "k", "v").hasOffset(), "no offset"); return "offset"; } });
        check("min-isr-2-of-1-is-capped", () -> { // the effective minimum is at most the replication factor
            create(t + "isr", 1, "min.insync.replicas", "2");
            try (var p = producer("retries", 0)) { return expect("none", p.send(new ProducerRecord<>(t + "isr", "k", "v"))); } finally { drop(t + "isr"); }
        });
        check("create-time", () -> {
            create(t + "ct", 1, "retention.ms", "-1");
            try (var p = producer()) { eq(1234567L, p.send(new ProducerRecord<>(t + "ct", 0, 1234567L, "k", "v")).get().timestamp()); }
            var r = readAll(t + "ct").get(0); drop(t + "ct");
            return eq(TimestampType.CREATE_TIME + " 1234567", r.timestampType() + " " + r.timestamp());
        });
        check("log-append-time", () -> {
            create(t + "lat", 1, "message.timestamp.type", "LogAppendTime");
            long now = System.currentTimeMillis(), got;
            try (var p = producer("compression.type", "gzip")) { got = p.send(new ProducerRecord<>(t + "lat", 0, 1234567L, "k", "v")).get().timestamp(); }
            var r = readAll(t + "lat").get(0); drop(t + "lat");
            want(Math.abs(got - now) < 60_000 && r.timestamp() == got, "metadata " + got + ", record " + r.timestamp());
            return eq(TimestampType.LOG_APPEND_TIME, r.timestampType());
        });
        check("timestamp-too-old", () -> {
            create(t + "old", 1, "message.timestamp.before.max.ms", "60000");
            try (var p = producer()) { return expect("InvalidTimestamp", p.send(new ProducerRecord<>(t + "old", 0, 1234567L, "k", "v"))); } finally { drop(t + "old"); }
        });
        check("timestamp-in-future", () -> { try (var p = producer()) { return expect("InvalidTimestamp", p.send(new ProducerRecord<>(t, 0, System.currentTimeMillis() + 7_200_000, "k", "v"))); } });
        check("compacted-needs-key", () -> {
            create(t + "key", 1, "cleanup.policy", "compact");
            try (var p = producer()) { return expect("InvalidRecord", p.send(new ProducerRecord<>(t + "key", null, "v"))); } finally { drop(t + "key"); }
        });
        check("idempotent-10000-in-order", () -> {
            create(t + "idem", 1);
            try (var p = producer("enable.idempotence", true, "max.in.flight.requests.per.connection", 5, "batch.size", 2000)) {
                for (int i = 0; i < 10000; i++) p.send(new ProducerRecord<>(t + "idem", null, "" + i)); p.flush();
            }
            var r = readAll(t + "idem"); drop(t + "idem");
            for (int i = 0; i < r.size(); i++) want(r.get(i).value().equals("" + i) && r.get(i).offset() == i, "at " + i + ": " + r.get(i).value());
            return eq(10000, r.size()) + " in order";
        });
        check("invalid-topic", () -> { try (var p = producer()) { return expect("InvalidTopic", p.send(new ProducerRecord<>("a/b", "k", "v"))); } });
        check("auto-create-by-producer", () -> {
            if (!"true".equals(brokerSetting("auto.create.topics.enable"))) throw new Skip("auto.create.topics.enable=false");
            try (var p = producer()) { eq(0L, send(p, run + "auto1", "k", "v").offset()); }
            drop(run + "auto1"); return "created";
        });
        check("auto-create-off-producer", () -> {
            if ("true".equals(brokerSetting("auto.create.topics.enable"))) throw new Skip("auto.create.topics.enable=true");
            try (var p = producer("max.block.ms", 3000)) { return expect("Timeout", p.send(new ProducerRecord<>(run + "auto2", "k", "v"))); }
        });
        check("auto-create-by-consumer", () -> {
            if (!"true".equals(brokerSetting("auto.create.topics.enable"))) throw new Skip("auto.create.topics.enable=false");
            try (var c = consumer("group.id", run + "auto3")) { c.subscribe(List.of(run + "auto3")); want(until(10, () -> { c.poll(Duration.ofMillis(200)); return admin.listTopics().names().get().contains(run + "auto3"); }), "not created"); }
            drop(run + "auto3"); return "created";
        });
        check("auto-create-refused-by-consumer", () -> {
            try (var c = consumer("group.id", run + "auto4", "allow.auto.create.topics", "false")) { c.subscribe(List.of(run + "auto4")); for (int i = 0; i < 10; i++) c.poll(Duration.ofMillis(200)); }
            want(!admin.listTopics().names().get().contains(run + "auto4"), "created"); return "not created";
        });
        check("partitions-for-unknown", () -> { try (var c = consumer("allow.auto.create.topics", "false")) { return c.partitionsFor(run + "none", Duration.ofSeconds(5)); } });
        drop(t);
    }
    static Object roundTrip(String t, Object... kv) throws Exception {
        StringBuilder sent = new StringBuilder(), got = new StringBuilder();
        try (var p = producer(kv)) {
            for (int i = 0; i < 500; i++) {
                var r = new ProducerRecord<>(t, 0, 1_000_000L + i, "key" + i, "value ".repeat(i % 37) + i, List.of(new RecordHeader("n", ("" + i).getBytes())));
                sent.append(r.key()).append(r.value()).append(r.timestamp()).append(i).append('\n'); p.send(r);
            }
            p.flush();
        }
        for (var r : readAll(t)) got.append(r.key()).append(r.value()).append(r.timestamp()).append(new String(r.headers().lastHeader("n").value())).append('\n');
        want(sent.toString().equals(got.toString()), "read back differently: " + sent.length() + " characters sent, " + got.length() + " read");
        return "500 records equal";
    }

    static int batchSize(int value) { // one record, no key, no header: batch header 61, then the record
        int body = 1 + 1 + 1 + 1 + varint(value) + value + 1;
        return 61 + varint(body) + body;
    }
    static int varint(int v) { int z = v << 1, n = 1; while ((z & ~0x7f) != 0) { z >>>= 7; n++; } return n; }
    static void limits() throws Exception {
        String t = run + "lim";
        create(t, 1, "max.message.bytes", "100000");
        int v = 100000; while (batchSize(v) > 100000) v--;
        int exact = v;
        check("record-of-max-size", () -> { eq(100000, batchSize(exact)); try (var p = producer("batch.size", 0, "max.request.size", 1 << 24)) { return eq(0L, send(p, t, null, "x".repeat(exact)).offset()) + " for a batch of 100000 bytes"; } });
        check("record-one-byte-more", () -> { try (var p = producer("batch.size", 0, "max.request.size", 1 << 24)) { return expect("RecordTooLarge", p.send(new ProducerRecord<>(t, "x".repeat(exact + 1)))); } });
        check("large-batch-is-split", () -> {
            try (var p = producer("batch.size", 1 << 20, "linger.ms", 500, "max.request.size", 1 << 24)) {
                List<Future<RecordMetadata>> f = new ArrayList<>();
                for (int i = 0; i < 20; i++) f.add(p.send(new ProducerRecord<>(t, "y".repeat(20000))));
                p.flush();
                for (var x : f) x.get();
            }
            return eq(21L, offset(t, OffsetSpec.latest())) + " records after MESSAGE_TOO_LARGE and a split";
        });
        check("compressed-under-the-limit", () -> { try (var p = producer("compression.type", "gzip", "max.request.size", 1 << 24)) { send(p, t, null, "z".repeat(900000)); return "900000 bytes of text compressed"; } });
        check("fetch-smaller-than-a-record", () -> {
            var r = readAll(t, "fetch.max.bytes", 1000, "max.partition.fetch.bytes", 1000);
            return eq(22, r.size()) + " records with fetch.max.bytes=1000";
        });
        check("limit-raised", () -> {
            alter(res(ConfigResource.Type.TOPIC, t), AlterConfigOp.OpType.SET, "max.message.bytes", "3000000").get();
            Thread.sleep(300);
            try (var p = producer("max.request.size", 1 << 24)) { send(p, t, null, "x".repeat(2_000_000)); return "2 MB accepted"; }
        });
        check("metadata-too-large", () -> {
            try (var c = consumer("group.id", run + "meta")) { return eq("OffsetMetadataTooLarge", thrown(() -> { c.commitSync(Map.of(tp(t, 0), new OffsetAndMetadata(0, "m".repeat(4097)))); return 0; })); }
        });
        drop(t);
    }
}

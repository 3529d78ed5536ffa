// Compaction and retention: written at the start, looked at in the end.
package walk;

import static walk.Walk.*;

import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.producer.*;

final class Cleanup {
    static Body start() throws Exception {
        String c = run + "compact", s = run + "bysize", a = run + "byage";
        create(c, 1, "cleanup.policy", "compact", "segment.ms", "500", "min.cleanable.dirty.ratio", "0.01", "delete.retention.ms", "0");
        create(s, 1, "segment.bytes", "1048576", "retention.bytes", "2097152");
        create(a, 1, "segment.ms", "500", "retention.ms", "1000");
        try (var p = producer("compression.type", "none")) {
            for (int i = 0; i < 500; i++) p.send(new ProducerRecord<>(c, "key" + i % 10, "value" + i));
            for (int i = 0; i < 10; i++) p.send(new ProducerRecord<>(c, "gone" + i, i < 5 ? "x" : null));
            for (int i = 0; i < 5; i++) p.send(new ProducerRecord<>(c, "gone" + i, null));
            for (int i = 0; i < 80; i++) p.send(new ProducerRecord<>(s, null, "x".repeat(100_000)));
            for (int i = 0; i < 10; i++) p.send(new ProducerRecord<>(a, null, "old" + i));
            p.flush(); Thread.sleep(700); p.send(new ProducerRecord<>(c, "last", "roll")).get(); Thread.sleep(700); p.send(new ProducerRecord<>(c, "last2", "roll")).get();
        }
        return () -> {
            check("compaction", () -> {
                want(until(60, () -> readAll(c).size() <= 32), "after 60 s still " + readAll(c).size() + " records");
                var r = readAll(c);
                Map<String, String> last = new HashMap<>(); long prev = -1;
                for (var x : r) { want(x.offset() > prev, "offsets not ascending"); prev = x.offset(); last.put(x.key(), x.value()); }
                for (int i = 0; i < 10; i++) eq("value" + (490 + i), last.get("key" + i));
                eq(516L, prev);
                return "517 records became at most 32, last values and offsets kept";
            });
            check("tombstones", () -> {
                try (var p = producer()) { want(until(60, () -> { send(p, c, "poke", "x"); Thread.sleep(1000); return readAll(c).stream().noneMatch(x -> x.key().startsWith("gone")); }), "tombstones stay for 60 s"); }
                return "removed with delete.retention.ms=0";
            });
            String interval = brokerSetting("log.retention.check.interval.ms");
            check("retention-by-size", () -> {
                if (interval == null || Long.parseLong(interval) > 30_000) throw new Skip("log.retention.check.interval.ms=" + interval + "; start the broker with 5000");
                want(until(60, () -> offset(s, OffsetSpec.earliest()) > 0), "earliest is still 0");
                int left = readAll(s).size();
                want(left >= 20 && left <= 40, left + " of 80 records left"); return "2 MiB to 3 MiB of 8 MB left";
            });
            check("retention-by-age", () -> {
                if (interval == null || Long.parseLong(interval) > 30_000) throw new Skip("log.retention.check.interval.ms=" + interval + "; start the broker with 5000");
                want(until(60, () -> offset(a, OffsetSpec.earliest()) == 10), "earliest is " + offset(a, OffsetSpec.earliest()));
                return "active segment rolled and deleted: earliest " + eq(10L, offset(a, OffsetSpec.latest()));
            });
            drop(c, s, a);
        };
    }
}

// Configurations of topics, brokers and loggers: told, altered, refused.
package walk;

import static walk.Walk.*;

import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.config.ConfigResource;

final class Configs {
    static void configs() throws Exception {
        String t = run + "cfg";
        create(t, 1, "retention.ms", "1000000");
        var r = res(ConfigResource.Type.TOPIC, t);
        var set = AlterConfigOp.OpType.SET;
        check("describe-topic", () -> {
            Config c = admin.describeConfigs(List.of(r), new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true)).all().get().get(r);
            eq(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, c.get("retention.ms").source());
            eq(ConfigEntry.ConfigSource.DEFAULT_CONFIG, c.get("cleanup.policy").source());
            String syn = c.get("retention.ms").synonyms().stream().map(s -> s.name() + "@" + s.source()).collect(Collectors.joining(" "));
            want(c.get("max.message.bytes").synonyms().stream().anyMatch(s -> s.name().equals("message.max.bytes")), "no broker synonym");
            want(c.entries().stream().allMatch(e -> e.documentation() != null && !e.documentation().isEmpty()), "undocumented");
            return c.entries().size() + " entries; retention.ms: " + syn;
        });
        check("describe-topic-unknown", () -> expect("UnknownTopicOrPartition", admin.describeConfigs(List.of(res(ConfigResource.Type.TOPIC, t + "x"))).all()));
        check("describe-topic-invalid", () -> expect("InvalidTopic", admin.describeConfigs(List.of(res(ConfigResource.Type.TOPIC, "a/b"))).all()));
        check("alter-validate-only", () -> {
            admin.incrementalAlterConfigs(Map.of(r, List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "5"), set))), new AlterConfigsOptions().validateOnly(true)).all().get();
            return "still " + eq("1000000", config(r).get("retention.ms").value());
        });
        check("alter-set", () -> { alter(r, set, "retention.ms", "2000000").get(); want(until(5, () -> "2000000".equals(config(r).get("retention.ms").value())), "unchanged"); return "2000000"; });
        check("alter-append-subtract", () -> {
            alter(r, AlterConfigOp.OpType.APPEND, "cleanup.policy", "compact").get();
            want(until(5, () -> "delete,compact".equals(config(r).get("cleanup.policy").value())), config(r).get("cleanup.policy").value());
            alter(r, AlterConfigOp.OpType.SUBTRACT, "cleanup.policy", "delete").get();
            want(until(5, () -> "compact".equals(config(r).get("cleanup.policy").value())), config(r).get("cleanup.policy").value());
            return "delete,compact then compact";
        });
        check("alter-append-not-a-list", () -> expect("InvalidConfiguration", alter(r, AlterConfigOp.OpType.APPEND, "retention.ms", "1")));
        check("alter-delete", () -> { alter(r, AlterConfigOp.OpType.DELETE, "retention.ms", null).get(); want(until(5, () -> config(r).get("retention.ms").source() != ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG), "still set"); return "default again"; });
        check("alter-bad-value", () -> expect("InvalidConfiguration", alter(r, set, "retention.ms", "abc")));
        check("alter-unknown-key", () -> expect("InvalidConfiguration", alter(r, set, "no.such", "1")));
        check("alter-unknown-topic", () -> expect("UnknownTopicOrPartition", alter(res(ConfigResource.Type.TOPIC, t + "x"), set, "retention.ms", "1")));
        check("alter-duplicate-key", () -> expect("InvalidRequest", admin.incrementalAlterConfigs(Map.of(r, List.of(
            new AlterConfigOp(new ConfigEntry("retention.ms", "1"), set), new AlterConfigOp(new ConfigEntry("retention.ms", "2"), set)))).all()));
        check("broker-default-shows-in-topic", () -> {
            var d = res(ConfigResource.Type.BROKER, "");
            alter(d, set, "log.retention.ms", "777000").get();
            try {
                want(until(5, () -> "777000".equals(config(r).get("retention.ms").value())), "topic shows " + config(r).get("retention.ms").value());
                return eq(ConfigEntry.ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, config(r).get("retention.ms").source());
            } finally { alter(d, AlterConfigOp.OpType.DELETE, "log.retention.ms", null).get(); }
        });
        check("broker-dynamic", () -> {
            var b = res(ConfigResource.Type.BROKER, anyBroker());
            alter(b, set, "log.cleaner.io.max.bytes.per.second", "1e9").get();
            want(until(5, () -> config(b).get("log.cleaner.io.max.bytes.per.second").source() == ConfigEntry.ConfigSource.DYNAMIC_BROKER_CONFIG), "not dynamic");
            alter(b, AlterConfigOp.OpType.DELETE, "log.cleaner.io.max.bytes.per.second", null).get(); return "set and deleted";
        });
        check("broker-read-only", () -> expect("InvalidRequest", alter(res(ConfigResource.Type.BROKER, anyBroker()), set, "log.dirs", "/x")));
        check("broker-bad-value", () -> expect("InvalidRequest", alter(res(ConfigResource.Type.BROKER, anyBroker()), set, "log.cleaner.threads", "abc")));
        check("broker-unknown-key", () -> expect("none", alter(res(ConfigResource.Type.BROKER, anyBroker()), set, "no.such.setting", "1")));
        alter(res(ConfigResource.Type.BROKER, anyBroker()), AlterConfigOp.OpType.DELETE, "no.such.setting", null);
        check("broker-logger-alter", () -> {
            var l = res(ConfigResource.Type.BROKER_LOGGER, anyBroker());
            alter(l, set, "root", config(l).get("root").value()).get();
            return "bad level: " + eq("InvalidConfiguration", error(alter(l, set, "root", "LOUD"))) + ", unknown logger: " + eq("InvalidConfiguration", error(alter(l, set, "no.such.logger", "WARN")));
        });
        drop(t);
    }
}

// Consumer groups, once for each protocol: members come and go, offsets are committed, altered and deleted.
package walk;

import static walk.Walk.*;

import java.time.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;

@SuppressWarnings("removal")
final class Groups {
    static KafkaConsumer<String, String> member(String protocol, String g, Object... kv) {
        List<Object> all = new ArrayList<>(List.of("group.id", g, "group.protocol", protocol));
        if (protocol.equals("classic")) all.addAll(List.of("heartbeat.interval.ms", 500, "session.timeout.ms", 10000,
            "partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"));
        all.addAll(List.of(kv));
        return consumer(all.toArray());
    }
    static String sizes(List<KafkaConsumer<String, String>> cs) { return cs.stream().map(c -> "" + c.assignment().size()).sorted().collect(Collectors.joining("/")); }
    static Object balanced(List<KafkaConsumer<String, String>> cs, String want, List<ConsumerRecord<String, String>> sink) throws Exception {
        until(30, () -> { for (var c : cs) c.poll(Duration.ofMillis(100)).forEach(sink::add); return sizes(cs).equals(want); });
        return eq(want, sizes(cs));
    }
    static ConsumerGroupDescription describeGroup(String g) throws Exception { return admin.describeConsumerGroups(List.of(g)).describedGroups().get(g).get(); }
    static void groups(String protocol) throws Exception {
        String t = run + protocol + "-t", g = run + protocol + "-g";
        boolean modern = protocol.equals("consumer");
        create(t, 6); create(t + "-other", 1);
        try (var p = producer()) { for (int i = 0; i < 600; i++) p.send(new ProducerRecord<>(t, i % 6, null, "v" + i)); p.flush(); }
        List<KafkaConsumer<String, String>> cs = new ArrayList<>();
        List<ConsumerRecord<String, String>> sink = new ArrayList<>();
        try {
            check("one-member", () -> { cs.add(member(protocol, g, "client.id", "c1")); cs.get(0).subscribe(List.of(t)); balanced(cs, "6", sink); until(10, () -> { cs.get(0).poll(Duration.ofMillis(100)).forEach(sink::add); return sink.size() >= 600; }); return eq(600, sink.size()) + " records"; });
            check("second-member", () -> { cs.add(member(protocol, g, "client.id", "c2")); cs.get(1).subscribe(List.of(t)); return balanced(cs, "3/3", sink); });
            check("third-member", () -> { cs.add(member(protocol, g, "client.id", "c3")); cs.get(2).subscribe(List.of(t)); return balanced(cs, "2/2/2", sink); });
            check("describe", () -> {
                var d = describeGroup(g);
                eq(3, d.members().size()); eq(6, d.members().stream().mapToInt(m -> m.assignment().topicPartitions().size()).sum());
                want(d.members().stream().allMatch(m -> m.host().startsWith("/") && m.clientId().startsWith("c") && m.groupInstanceId().isEmpty()), d.toString());
                want(modern == d.groupEpoch().isPresent() && modern == d.targetAssignmentEpoch().isPresent(), "epochs " + d);
                want(!modern || d.members().stream().allMatch(m -> m.targetAssignment().isPresent() && m.memberEpoch().get() > 0), "member epochs " + d);
                return eq((modern ? "Consumer Stable uniform" : "Classic Stable cooperative-sticky"), d.type() + " " + d.groupState() + " " + d.partitionAssignor());
            });
            check("describe-operations", () -> new TreeSet<>(admin.describeConsumerGroups(List.of(g), new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)).describedGroups().get(g).get().authorizedOperations()));
            check("describe-classic-groups", () -> modern ? expect("GroupIdNotFound", admin.describeClassicGroups(List.of(g)).all()) : eq("consumer Stable", admin.describeClassicGroups(List.of(g)).all().get().get(g).protocol() + " " + admin.describeClassicGroups(List.of(g)).all().get().get(g).state()));
            check("list-filters", () -> {
                Function<ListGroupsOptions, String> has = o -> getQuietly(admin.listGroups(o).all()).stream().anyMatch(x -> x.groupId().equals(g)) ? "yes" : "no";
                return eq("all yes, stable yes, empty no, own type yes, other type no, consumer protocol yes, connect protocol no, forConsumerGroups yes",
                    "all " + has.apply(new ListGroupsOptions()) + ", stable " + has.apply(new ListGroupsOptions().inGroupStates(Set.of(GroupState.STABLE)))
                    + ", empty " + has.apply(new ListGroupsOptions().inGroupStates(Set.of(GroupState.EMPTY)))
                    + ", own type " + has.apply(new ListGroupsOptions().withTypes(Set.of(modern ? GroupType.CONSUMER : GroupType.CLASSIC)))
                    + ", other type " + has.apply(new ListGroupsOptions().withTypes(Set.of(modern ? GroupType.CLASSIC : GroupType.CONSUMER)))
                    + ", consumer protocol " + has.apply(new ListGroupsOptions().withProtocolTypes(Set.of("consumer")))
                    + ", connect protocol " + has.apply(new ListGroupsOptions().withProtocolTypes(Set.of("connect")))
                    + ", forConsumerGroups " + has.apply(ListGroupsOptions.forConsumerGroups()));
            });
            check("commit-sync", () -> { // a partition that moved before its first commit is read again from 0: read on to the end first
                until(15, () -> { long at = 0; for (var c : cs) { c.poll(Duration.ofMillis(100)); for (var x : c.assignment()) at += c.position(x); } return at == 600; });
                for (var c : cs) c.commitSync(); return eq(600L, admin.listConsumerGroupOffsets(g).partitionsToOffsetAndMetadata().get().values().stream().mapToLong(OffsetAndMetadata::offset).sum()) + " committed"; });
            check("commit-async", () -> {
                var done = new CompletableFuture<Object>();
                var part = cs.get(0).assignment().iterator().next();
                cs.get(0).commitAsync(Map.of(part, new OffsetAndMetadata(42, Optional.of(0), "note")), (o, e) -> done.complete(e == null ? "ok" : e));
                until(10, () -> { cs.get(0).poll(Duration.ofMillis(100)); return done.isDone(); });
                eq("ok", done.getNow("nothing"));
                var got = admin.listConsumerGroupOffsets(g).partitionsToOffsetAndMetadata().get().get(part);
                return eq("42 note Optional[0]", got.offset() + " " + got.metadata() + " " + got.leaderEpoch());
            });
            check("offsets-of-chosen-partitions", () -> { var r = admin.listConsumerGroupOffsets(Map.of(g, new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(tp(t, 0), tp(t + "x", 0))))).all().get().get(g); want(r.get(tp(t, 0)) != null, "none"); return "unknown topic: " + eq(null, r.get(tp(t + "x", 0))); });
            check("alter-offsets-while-active", () -> expect("UnknownMemberId", admin.alterConsumerGroupOffsets(g, Map.of(tp(t, 0), new OffsetAndMetadata(1))).all()));
            check("delete-offsets-while-subscribed", () -> expect("GroupSubscribedToTopic", admin.deleteConsumerGroupOffsets(g, Set.of(tp(t, 0))).all()));
            check("delete-while-active", () -> expect("GroupNotEmpty", admin.deleteConsumerGroups(List.of(g)).all()));
            check("commit-by-outsider", () -> { try (var c = member(protocol, g)) { return eq("CommitFailed", thrown(() -> { c.assign(List.of(tp(t, 0))); c.commitSync(Map.of(tp(t, 0), new OffsetAndMetadata(1))); return 0; })); } });
            check("remove-member", () -> { cs.remove(2).close(); return balanced(cs, "3/3", sink); });
            check("records-after-rebalances", () -> {
                sink.clear();
                try (var p = producer()) { for (int i = 0; i < 600; i++) p.send(new ProducerRecord<>(t, i % 6, null, "w" + i)); p.flush(); }
                until(15, () -> { for (var c : cs) c.poll(Duration.ofMillis(100)).forEach(sink::add); return sink.stream().filter(r -> r.value().startsWith("w")).count() >= 600; });
                return eq(600L, sink.stream().map(ConsumerRecord::value).filter(x -> x.startsWith("w")).distinct().count()) + " new records, each seen";
            });
            check("remove-unknown-member", () -> expect("UnknownMemberId", admin.removeMembersFromConsumerGroup(g, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("nobody")))).all()));
            check("remove-all-members", () -> {
                admin.removeMembersFromConsumerGroup(g, new RemoveMembersFromConsumerGroupOptions()).all().get();
                return "then the members rejoin: " + balanced(cs, "3/3", sink);
            });
            check("leave-to-empty", () -> { while (!cs.isEmpty()) cs.remove(0).close(); want(until(10, () -> describeGroup(g).groupState() == GroupState.EMPTY), "not empty"); return describeGroup(g).type() + " Empty"; });
            check("alter-offsets", () -> { admin.alterConsumerGroupOffsets(g, Map.of(tp(t, 0), new OffsetAndMetadata(7, Optional.of(0), "x"), tp(t + "-other", 0), new OffsetAndMetadata(0))).all().get(); return eq(7L, admin.listConsumerGroupOffsets(g).partitionsToOffsetAndMetadata().get().get(tp(t, 0)).offset()); });
            check("alter-offsets-unknown-topic", () -> error(admin.alterConsumerGroupOffsets(g, Map.of(tp(t + "x", 0), new OffsetAndMetadata(7))).all()));
            check("delete-offsets", () -> { admin.deleteConsumerGroupOffsets(g, Set.of(tp(t, 0))).all().get(); want(!admin.listConsumerGroupOffsets(g).partitionsToOffsetAndMetadata().get().containsKey(tp(t, 0)), "still there"); return "gone"; });
            check("delete-offsets-unknown-topic", () -> error(admin.deleteConsumerGroupOffsets(g, Set.of(tp(t + "x", 0))).all()));
            check("auto-commit-on-close", () -> {
                String a = g + "-auto";
                try (var c = member(protocol, a, "enable.auto.commit", "true", "auto.commit.interval.ms", "60000")) { c.subscribe(List.of(t)); int[] n = {0}; until(20, () -> { n[0] += c.poll(Duration.ofMillis(100)).count(); return n[0] >= 1200; }); }
                return eq(1200L, admin.listConsumerGroupOffsets(a).partitionsToOffsetAndMetadata().get().values().stream().mapToLong(OffsetAndMetadata::offset).sum()) + " committed";
            });
            check("auto-commit-by-time", () -> {
                String a = g + "-auto2";
                try (var c = member(protocol, a, "enable.auto.commit", "true", "auto.commit.interval.ms", "200")) {
                    c.subscribe(List.of(t));
                    want(until(20, () -> { c.poll(Duration.ofMillis(100)); return admin.listConsumerGroupOffsets(a).partitionsToOffsetAndMetadata().get().values().stream().filter(Objects::nonNull).mapToLong(OffsetAndMetadata::offset).sum() == 1200; }), "not committed");
                } return "1200 committed while open";
            });
            check("static-member", () -> {
                String s = g + "-static";
                var a = member(protocol, s, "group.instance.id", "i1", "client.id", "s1"); var b = member(protocol, s, "group.instance.id", "i2");
                try {
                    a.subscribe(List.of(t)); b.subscribe(List.of(t)); balanced(new ArrayList<>(List.of(a, b)), "3/3", sink);
                    Set<TopicPartition> before = a.assignment(), others = b.assignment();
                    a.close();
                    b.poll(Duration.ofSeconds(1)); eq(others, b.assignment());
                    try (var a2 = member(protocol, s, "group.instance.id", "i1")) {
                        a2.subscribe(List.of(t));
                        until(20, () -> { a2.poll(Duration.ofMillis(100)); b.poll(Duration.ofMillis(100)); return a2.assignment().size() == 3; });
                        eq(before, a2.assignment()); eq(others, b.assignment());
                        eq(Set.of("i1", "i2"), describeGroup(s).members().stream().map(m -> m.groupInstanceId().get()).collect(Collectors.toSet()));
                        try (var a3 = member(protocol, s, "group.instance.id", "i1")) {
                            a3.subscribe(List.of(t));
                            String[] got = {"nothing"};
                            until(15, () -> { try { a3.poll(Duration.ofMillis(200)); a2.poll(Duration.ofMillis(200)); return false; } catch (KafkaException e) { got[0] = name(e); return true; } });
                            eq(modern ? "UnreleasedInstanceId" : "FencedInstanceId", got[0]);
                        } catch (KafkaException e) { /* close of the refused one */ }
                        admin.removeMembersFromConsumerGroup(s, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("i2")))).all().get();
                        return "same partitions after restart; twin: " + (modern ? "UnreleasedInstanceId" : "FencedInstanceId") + "; removed by instance id";
                    }
                } finally { try { b.close(); } catch (KafkaException e) { /* removed */ } }
            });
            check("delete-groups", () -> { want(until(20, () -> error(admin.deleteConsumerGroups(List.of(g, g + "-auto", g + "-auto2")).all()).equals("none")), "not deleted"); return "deleted; again: " + expect("GroupIdNotFound", admin.deleteConsumerGroups(List.of(g)).all()); });
            check("describe-unknown", () -> expect("GroupIdNotFound", admin.describeConsumerGroups(List.of(g)).all()));
            check("offsets-of-unknown", () -> admin.listConsumerGroupOffsets(g).partitionsToOffsetAndMetadata().get());
            check("delete-offsets-of-unknown", () -> expect("GroupIdNotFound", admin.deleteConsumerGroupOffsets(g, Set.of(tp(t, 0))).all()));
            check("topic-deleted-under-group", () -> {
                String d = t + "-gone"; create(d, 1); fill(d, 3);
                try (var c = member(protocol, g + "-gone", "metadata.max.age.ms", "500")) {
                    c.subscribe(List.of(d, t)); until(20, () -> { c.poll(Duration.ofMillis(100)); return c.assignment().size() == 7; });
                    c.commitSync(); drop(d);
                    want(until(20, () -> { try { c.poll(Duration.ofMillis(100)); } catch (org.apache.kafka.common.errors.UnknownTopicOrPartitionException e) { /* may show */ } return !admin.listConsumerGroupOffsets(g + "-gone").partitionsToOffsetAndMetadata().get().containsKey(tp(d, 0)); }), "offsets of the deleted topic stay");
                    return "its offsets go";
                }
            });
            if (modern) check("live-upgrade-from-classic", () -> {
                String u = g + "-up";
                cs.add(member("classic", u)); cs.get(0).subscribe(List.of(t)); balanced(cs, "6", sink);
                cs.add(member("consumer", u)); cs.get(1).subscribe(List.of(t)); balanced(cs, "3/3", sink);
                String mixed = describeGroup(u).type() + " " + describeGroup(u).members().stream().map(m -> "" + m.upgraded().orElse(null)).sorted().toList();
                cs.remove(1).close();
                balanced(cs, "6", sink);
                return eq("Consumer [false, true], back to Classic", mixed + ", back to " + describeGroup(u).type());
            });
        } finally { for (var c : cs) c.close(); drop(t, t + "-other"); }
    }
}

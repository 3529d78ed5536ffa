// Transactions: seen from inside, from outside, and ended by somebody else.
package walk;

import static walk.Walk.*;

import java.time.*;
import java.util.*;
import java.util.function.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;

@SuppressWarnings("removal")
final class Transactions {
    static KafkaProducer<String, String> txn(String id, Object... kv) {
        List<Object> all = new ArrayList<>(List.of("transactional.id", id));
        all.addAll(List.of(kv));
        var p = producer(all.toArray());
        try { p.initTransactions(); } catch (RuntimeException e) { p.close(Duration.ZERO); throw e; }
        return p;
    }
    static List<String> values(String t, String isolation) throws Exception { return readAll(t, "isolation.level", isolation).stream().map(ConsumerRecord::value).toList(); }
    static ProducerState state(String t) throws Exception { return admin.describeProducers(List.of(tp(t, 0))).partitionResult(tp(t, 0)).get().activeProducers().get(0); }
    static void transactions() throws Exception {
        String t = run + "txn", id = run + "id";
        create(t, 1);
        try (var p = txn(id)) {
            check("commit-and-abort", () -> {
                p.beginTransaction(); for (String v : List.of("a", "b", "c")) send(p, t, "k", v); p.commitTransaction();
                p.beginTransaction(); for (String v : List.of("x", "y")) send(p, t, "k", v); p.abortTransaction();
                p.beginTransaction(); p.commitTransaction();
                eq(List.of("a", "b", "c"), values(t, "read_committed"));
                eq(List.of("a", "b", "c", "x", "y"), values(t, "read_uncommitted"));
                return "end offset " + eq(7L, offset(t, OffsetSpec.latest())) + " (5 records, 2 markers)";
            });
            check("open-transaction", () -> {
                p.beginTransaction(); send(p, t, "k", "open");
                eq(8L, offset(t, OffsetSpec.latest()));
                eq(7L, admin.listOffsets(Map.of(tp(t, 0), OffsetSpec.latest()), new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).partitionResult(tp(t, 0)).get().offset());
                eq(3, values(t, "read_committed").size());
                return "last stable offset 7, end 8";
            });
            check("describe-open", () -> {
                TransactionDescription d = admin.describeTransactions(List.of(id)).description(id).get();
                want(d.transactionStartTimeMs().isPresent() && d.producerId() >= 0, d.toString());
                return eq("Ongoing [" + t + "-0] 60000", d.state() + " " + d.topicPartitions() + " " + d.transactionTimeoutMs());
            });
            check("producers-open", () -> { var s = state(t); return "start offset " + eq(7L, s.currentTransactionStartOffset().orElse(-1)) + ", coordinator epoch known: " + s.coordinatorEpoch().isPresent(); });
            check("list-filters", () -> {
                long pid = admin.describeTransactions(List.of(id)).description(id).get().producerId();
                Function<ListTransactionsOptions, String> has = o -> getQuietly(admin.listTransactions(o).all()).stream().anyMatch(x -> x.transactionalId().equals(id)) ? "yes" : "no";
                return eq("all yes, ongoing yes, prepare no, pid yes, other pid no, 1 h no, 0 ms yes, pattern yes, other no",
                    "all " + has.apply(new ListTransactionsOptions())
                    + ", ongoing " + has.apply(new ListTransactionsOptions().filterStates(List.of(TransactionState.ONGOING)))
                    + ", prepare " + has.apply(new ListTransactionsOptions().filterStates(List.of(TransactionState.PREPARE_COMMIT)))
                    + ", pid " + has.apply(new ListTransactionsOptions().filterProducerIds(List.of(pid))) + ", other pid " + has.apply(new ListTransactionsOptions().filterProducerIds(List.of(pid + 100000)))
                    + ", 1 h " + has.apply(new ListTransactionsOptions().filterOnDuration(3_600_000)) + ", 0 ms " + has.apply(new ListTransactionsOptions().filterOnDuration(0))
                    + ", pattern " + has.apply(new ListTransactionsOptions().filterOnTransactionalIdPattern(run + ".*")) + ", other " + has.apply(new ListTransactionsOptions().filterOnTransactionalIdPattern("zz.*")));
            });
            check("list-bad-pattern", () -> expect("InvalidRegularExpression", admin.listTransactions(new ListTransactionsOptions().filterOnTransactionalIdPattern("(")).all()));
            check("commit-open", () -> { p.commitTransaction(); eq(4, values(t, "read_committed").size()); return until(5, () -> admin.describeTransactions(List.of(id)).description(id).get().state() == TransactionState.COMPLETE_COMMIT) ? "CompleteCommit" : "not complete after 5 s"; });
            check("offsets-in-transaction", () -> {
                String g = run + "txn-group";
                try (var c = consumer("group.id", g)) {
                    c.subscribe(List.of(t)); until(15, () -> { c.poll(Duration.ofMillis(100)); return !c.assignment().isEmpty(); });
                    p.beginTransaction(); p.sendOffsetsToTransaction(Map.of(tp(t, 0), new OffsetAndMetadata(3, "m")), c.groupMetadata());
                    eq(null, admin.listConsumerGroupOffsets(g).partitionsToOffsetAndMetadata().get().get(tp(t, 0)));
                    String stable = error(admin.listConsumerGroupOffsets(g, new ListConsumerGroupOffsetsOptions().requireStable(true).timeoutMs(1500)).partitionsToOffsetAndMetadata());
                    p.abortTransaction();
                    eq(null, admin.listConsumerGroupOffsets(g).partitionsToOffsetAndMetadata().get().get(tp(t, 0)));
                    p.beginTransaction(); p.sendOffsetsToTransaction(Map.of(tp(t, 0), new OffsetAndMetadata(4, "m")), c.groupMetadata()); p.commitTransaction();
                    return "aborted invisible, pending with requireStable: " + stable + ", committed " + eq(4L, c.committed(Set.of(tp(t, 0))).get(tp(t, 0)).offset());
                } finally { admin.deleteConsumerGroups(List.of(g)); }
            });
            check("offsets-with-stale-generation", () -> {
                p.beginTransaction();
                String e = thrown(() -> { p.sendOffsetsToTransaction(Map.of(tp(t, 0), new OffsetAndMetadata(1)), new ConsumerGroupMetadata(run + "txn-none", 5, "nobody", Optional.empty())); return 0; });
                p.abortTransaction(); return eq("CommitFailed", e);
            });
            check("second-producer-fences", () -> {
                p.beginTransaction(); send(p, t, "k", "zombie");
                try (var q = txn(id)) { eq("ProducerFenced", thrown(() -> { p.commitTransaction(); return 0; })); q.beginTransaction(); send(q, t, "k", "heir"); q.commitTransaction(); }
                want(!values(t, "read_committed").contains("zombie") && values(t, "read_committed").contains("heir"), "wrong survivor");
                return "ProducerFenced";
            });
        }
        check("admin-fences", () -> {
            try (var p = txn(id)) {
                p.beginTransaction(); send(p, t, "k", "fenced");
                var f = admin.fenceProducers(List.of(id)); f.all().get();
                want(f.producerId(id).get() >= 0 && f.epochId(id).get() > 0, "no epoch");
                String produce = thrown(() -> send(p, t, "k", "v").offset());
                want(!values(t, "read_committed").contains("fenced"), "still there");
                return "next send: " + eq("InvalidProducerEpoch", produce);
            }
        });
        check("fence-unknown-id", () -> expect("none", admin.fenceProducers(List.of(run + "never")).all()));
        check("force-terminate", () -> {
            try (var p = txn(run + "term")) {
                p.beginTransaction(); send(p, t, "k", "terminated");
                admin.forceTerminateTransaction(run + "term").result().get();
                want(until(5, () -> admin.describeTransactions(List.of(run + "term")).description(run + "term").get().state() == TransactionState.EMPTY), "not ended");
                want(!values(t, "read_committed").contains("terminated"), "its record is visible");
                return "Empty; the producer's commit: " + thrown(() -> { p.commitTransaction(); return 0; });
            }
        });
        check("force-terminate-unknown", () -> expect("none", admin.forceTerminateTransaction(run + "never2").result()));
        check("describe-unknown", () -> expect("TransactionalIdNotFound", admin.describeTransactions(List.of(run + "nothing")).all()));
        check("abort-wrong-epoch", () -> { var s = state(t); return expect("InvalidProducerEpoch", admin.abortTransaction(new AbortTransactionSpec(tp(t, 0), s.producerId(), (short) (s.producerEpoch() - 1), 0)).all()); });
        check("abort-unknown-topic", () -> expect("Timeout", admin.abortTransaction(new AbortTransactionSpec(tp(t + "x", 0), 1, (short) 0, 0), new AbortTransactionOptions().timeoutMs(4000)).all()));
        check("abort-open-by-admin", () -> {
            create(t + "h", 1);
            try (var p = txn(run + "hang")) {
                p.beginTransaction(); send(p, t + "h", "k", "hanging");
                var s = state(t + "h");
                admin.abortTransaction(new AbortTransactionSpec(tp(t + "h", 0), s.producerId(), (short) s.producerEpoch(), s.coordinatorEpoch().orElse(0))).all().get();
                eq(2L, admin.listOffsets(Map.of(tp(t + "h", 0), OffsetSpec.latest()), new ListOffsetsOptions(IsolationLevel.READ_COMMITTED)).partitionResult(tp(t + "h", 0)).get().offset());
                return "marker written, last stable offset 2; the producer's commit: " + thrown(() -> { p.commitTransaction(); return 0; });
            } finally { drop(t + "h"); }
        });
        check("timeout-too-large", () -> {
            try { txn(run + "long", "transaction.timeout.ms", 3_600_000); } catch (KafkaException e) { want(e.getMessage().contains("transaction timeout is larger"), e.getMessage()); return "refused"; }
            throw new AssertionError("accepted");
        });
        check("timeout-aborts", () -> {
            try (var p = txn(run + "slow", "transaction.timeout.ms", 1000, "delivery.timeout.ms", 1000, "request.timeout.ms", 900)) {
                p.beginTransaction(); send(p, t, "k", "slow");
                want(until(30, () -> admin.describeTransactions(List.of(run + "slow")).description(run + "slow").get().state() == TransactionState.COMPLETE_ABORT), "not aborted in 30 s");
                return "CompleteAbort; the producer's commit: " + thrown(() -> { p.commitTransaction(); return 0; });
            }
        });
        check("two-topics-atomic", () -> {
            create(t + "1", 2); create(t + "2", 2);
            try (var p = txn(run + "two")) {
                p.beginTransaction(); for (int i = 0; i < 100; i++) { p.send(new ProducerRecord<>(t + "1", "" + i, "v")); p.send(new ProducerRecord<>(t + "2", "" + i, "v")); }
                p.flush(); eq(0, values(t + "1", "read_committed").size()); p.commitTransaction();
                return eq(200, values(t + "1", "read_committed").size() + values(t + "2", "read_committed").size()) + " visible after commit";
            } finally { drop(t + "1", t + "2"); }
        });
        drop(t);
    }
}

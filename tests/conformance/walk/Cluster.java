// What a console asks when it connects: the cluster, its features, quorum, brokers, loggers, directories, quotas and users.
package walk;

import static walk.Walk.*;

import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;

final class Cluster {
    static void cluster() throws Exception {
        check("describe", () -> {
            var r = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
            want(r.clusterId().get().length() == 22, "cluster id " + r.clusterId().get());
            want(r.nodes().get().size() >= 1, "no nodes");
            want(r.nodes().get().stream().anyMatch(n -> n.id() == getQuietly(r.controller()).id()), "the controller is not among the nodes");
            return "operations " + new TreeSet<>(r.authorizedOperations().get());
        });
        check("describe-without-operations", () -> eq(null, admin.describeCluster().authorizedOperations().get()));
        check("describe-fenced", () -> admin.describeCluster(new DescribeClusterOptions().includeFencedBrokers(true)).nodes().get().size() + " node(s)");
        check("features", () -> {
            FeatureMetadata f = admin.describeFeatures().featureMetadata().get();
            for (String k : List.of("metadata.version", "transaction.version", "group.version"))
                want(f.supportedFeatures().containsKey(k) && f.finalizedFeatures().containsKey(k), k + " is not both supported and finalized");
            want(f.finalizedFeaturesEpoch().isPresent(), "no epoch");
            return new TreeMap<>(f.finalizedFeatures()).toString().replaceAll("FinalizedVersionRange\\[min_version_level:\\d+, max_version_level:(\\d+)\\]", "$1");
        });
        check("update-feature-unknown", () -> expect("InvalidUpdateVersion", admin.updateFeatures(
            Map.of("no.such.feature", new FeatureUpdate((short) 1, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions().validateOnly(true)).all()));
        check("metadata-quorum", () -> {
            QuorumInfo q = admin.describeMetadataQuorum().quorumInfo().get();
            want(q.leaderId() >= 0 && q.voters().size() >= 1 && q.highWatermark() > 0, q.toString());
            want(q.voters().stream().anyMatch(v -> v.replicaId() == q.leaderId() && v.logEndOffset() > 0), "the leader is no voter");
            return q.voters().size() + " voter(s), nodes known: " + !q.nodes().isEmpty();
        });
        check("broker-configs", () -> {
            var r = res(ConfigResource.Type.BROKER, anyBroker());
            Config c = admin.describeConfigs(List.of(r), new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true)).all().get().get(r);
            want(c.entries().size() >= 100, "only " + c.entries().size());
            want(c.get("node.id").isReadOnly() && c.get("node.id").source() == ConfigEntry.ConfigSource.STATIC_BROKER_CONFIG, "node.id " + c.get("node.id"));
            want(!c.get("log.retention.ms").isReadOnly() && c.get("log.retention.ms").type() == ConfigEntry.ConfigType.LONG, "log.retention.ms " + c.get("log.retention.ms"));
            want(c.get("ssl.keystore.password").isSensitive() && c.get("ssl.keystore.password").value() == null, "ssl.keystore.password shows");
            want(c.get("message.max.bytes").synonyms().size() >= 1, "no synonyms");
            long undocumented = c.entries().stream().filter(e -> e.documentation() == null).count();
            return c.entries().size() + " entries, " + c.entries().stream().filter(e -> !e.isReadOnly()).count() + " dynamic, " + undocumented + " undocumented";
        });
        check("broker-default-configs", () -> config(res(ConfigResource.Type.BROKER, "")).entries().size() + " entries for the cluster-wide default");
        check("broker-loggers", () -> {
            Config c = config(res(ConfigResource.Type.BROKER_LOGGER, anyBroker()));
            want(c.get("root") != null, "no root logger");
            return "root present, has others: " + (c.entries().size() > 1);
        });
        check("log-dirs", () -> {
            var dirs = admin.describeLogDirs(List.of(Integer.parseInt(anyBroker()))).allDescriptions().get().values().iterator().next();
            LogDirDescription d = dirs.values().iterator().next();
            want(d.error() == null && d.totalBytes().isPresent() && d.totalBytes().getAsLong() >= d.usableBytes().getAsLong() && !d.isCordoned(), d.toString());
            return dirs.size() + " dir(s)";
        });
        check("config-resources", () -> admin.listConfigResources(Set.of(), new ListConfigResourcesOptions()).all().get().stream()
            .map(x -> x.type()).filter(t -> t != ConfigResource.Type.TOPIC).collect(Collectors.toCollection(TreeSet::new)));
        check("client-metrics-resources", () -> {
            var r = res(ConfigResource.Type.CLIENT_METRICS, run + "cm");
            alter(r, AlterConfigOp.OpType.SET, "interval.ms", "30000").get();
            want(until(5, () -> admin.listConfigResources(Set.of(ConfigResource.Type.CLIENT_METRICS), new ListConfigResourcesOptions()).all().get().contains(r)), "not listed");
            eq("30000", config(r).get("interval.ms").value());
            eq("InvalidRequest", error(alter(r, AlterConfigOp.OpType.SET, "no.such", "1")));
            alter(r, AlterConfigOp.OpType.DELETE, "interval.ms", null).get();
            want(until(5, () -> !admin.listConfigResources(Set.of(ConfigResource.Type.CLIENT_METRICS), new ListConfigResourcesOptions()).all().get().contains(r)), "still listed");
            return "set, listed, described, deleted";
        });
        check("group-config", () -> {
            var r = res(ConfigResource.Type.GROUP, run + "gc");
            int before = config(r).entries().size();
            alter(r, AlterConfigOp.OpType.SET, "consumer.session.timeout.ms", "50000").get();
            want(until(5, () -> "50000".equals(config(r).get("consumer.session.timeout.ms").value())), "not set");
            eq("InvalidConfiguration", error(alter(r, AlterConfigOp.OpType.SET, "consumer.session.timeout.ms", "1")));
            alter(r, AlterConfigOp.OpType.DELETE, "consumer.session.timeout.ms", null).get();
            return before + " entries";
        });
        check("quotas", () -> {
            var e = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, run + "u", ClientQuotaEntity.CLIENT_ID, "c"));
            var f = ClientQuotaFilter.containsOnly(List.of(ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, run + "u"), ClientQuotaFilterComponent.ofEntityType(ClientQuotaEntity.CLIENT_ID)));
            admin.alterClientQuotas(List.of(new ClientQuotaAlteration(e, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1e6))))).all().get();
            want(until(5, () -> Map.of(e, Map.of("producer_byte_rate", 1e6)).equals(admin.describeClientQuotas(f).entities().get())), "not described");
            eq("InvalidRequest", error(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(e, List.of(new ClientQuotaAlteration.Op("no_such", 1.0))))).all()));
            admin.alterClientQuotas(List.of(new ClientQuotaAlteration(e, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", null))))).all().get();
            want(until(5, () -> admin.describeClientQuotas(f).entities().get().isEmpty()), "not deleted");
            return admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().size() + " left";
        });
        check("scram-users", () -> {
            eq("ResourceNotFound", error(admin.describeUserScramCredentials(List.of(run + "nobody")).description(run + "nobody")));
            var info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
            admin.alterUserScramCredentials(List.of(new UserScramCredentialUpsertion(run + "u", info, "secret"))).all().get();
            want(until(5, () -> admin.describeUserScramCredentials().users().get().contains(run + "u")), "user not listed");
            eq(List.of(info), admin.describeUserScramCredentials(List.of(run + "u")).description(run + "u").get().credentialInfos());
            eq("ResourceNotFound", error(admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion(run + "u", ScramMechanism.SCRAM_SHA_512))).all()));
            admin.alterUserScramCredentials(List.of(new UserScramCredentialDeletion(run + "u", ScramMechanism.SCRAM_SHA_256))).all().get();
            return "upserted, described, deleted";
        });
        check("acls-without-authorizer", () -> {
            String e = error(admin.describeAcls(AclBindingFilter.ANY).values());
            if (e.equals("none")) throw new Skip("the broker has an authorizer");
            var b = new AclBinding(new ResourcePattern(ResourceType.TOPIC, "t", PatternType.LITERAL), new AccessControlEntry("User:x", "*", AclOperation.READ, AclPermissionType.ALLOW));
            eq("SecurityDisabled", error(admin.createAcls(List.of(b)).all()));
            eq("SecurityDisabled", error(admin.deleteAcls(List.of(b.toFilter())).all()));
            return eq("SecurityDisabled", e);
        });
        check("delegation-tokens", () -> "create: " + eq("UnsupportedByAuthentication", error(admin.createDelegationToken().delegationToken()))
            + ", describe: " + eq("UnsupportedByAuthentication", error(admin.describeDelegationToken().delegationTokens())));
        check("unregister-unknown-broker", () -> expect("BrokerIdNotRegistered", admin.unregisterBroker(4711).all()));
    }
}

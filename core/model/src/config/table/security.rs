//! Broker configuration names. TLS, SASL, tokens and authorization.
//!
//! Rows are sorted by name. Source: what a running Apache Kafka 4.3 lists; the descriptions are ours.

use crate::config::key::{ConfigKey, broker_keys};

broker_keys! {
    pub(super) KEYS

    "authorizer.class.name" String "" any Low ReadOnly Planned
        "The class that decides who may do what; none when empty.";
    "connection.failed.authentication.delay.ms" Int "100" (min 0) Low ReadOnly Planned
        "How long a failed login is kept waiting before its connection closes.";
    "connections.max.reauth.ms" Long "0" any Medium ReadOnly Planned
        "How long a SASL login stays valid; 0 is for ever.";
    "delegation.token.expiry.check.interval.ms" Long "3600000" (min 1) Low ReadOnly Planned
        "How often expired tokens are removed.";
    "delegation.token.expiry.time.ms" Long "86400000" (min 1) Medium ReadOnly Planned
        "How long a token lasts without renewal.";
    "delegation.token.max.lifetime.ms" Long "604800000" (min 1) Medium ReadOnly Planned
        "How long a token lasts at most.";
    "delegation.token.secret.key" Password null any Medium ReadOnly Planned
        "The secret that signs tokens, the same on all brokers.";
    "principal.builder.class" Class
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder" any Medium PerBroker Ignored
        "The class that turns a login into a principal.";
    "sasl.client.callback.handler.class" Class null any Medium ReadOnly Ignored
        "A plugin class for SASL client callbacks.";
    "sasl.enabled.mechanisms" List "GSSAPI" any Medium PerBroker Planned
        "The SASL mechanisms on offer.";
    "sasl.jaas.config" Password null any Medium PerBroker Planned
        "The login module and its options for SASL.";
    "sasl.kerberos.kinit.cmd" String "/usr/bin/kinit" any Medium PerBroker Ignored
        "The path of kinit.";
    "sasl.kerberos.min.time.before.relogin" Long "60000" any Medium PerBroker Ignored
        "The least time between two Kerberos logins.";
    "sasl.kerberos.principal.to.local.rules" List "DEFAULT" any Medium PerBroker Ignored
        "Rules that map Kerberos principals to short names.";
    "sasl.kerberos.service.name" String null any Medium PerBroker Ignored
        "The Kerberos service name of the brokers.";
    "sasl.kerberos.ticket.renew.jitter" Double "0.05" any Medium PerBroker Ignored
        "The random share added to a ticket's renewal time.";
    "sasl.kerberos.ticket.renew.window.factor" Double "0.8" any Medium PerBroker Ignored
        "The part of a ticket's life after which it is renewed.";
    "sasl.login.callback.handler.class" Class null any Medium ReadOnly Ignored
        "A plugin class for SASL login callbacks.";
    "sasl.login.class" Class null any Medium ReadOnly Ignored
        "A plugin class for the SASL login itself.";
    "sasl.login.connect.timeout.ms" Int null any Low ReadOnly Ignored
        "How long a connection to a login provider may take.";
    "sasl.login.read.timeout.ms" Int null any Low ReadOnly Ignored
        "How long a login provider's answer may take.";
    "sasl.login.refresh.buffer.seconds" Short "300" any Medium PerBroker Ignored
        "How long before its end a credential is refreshed at the latest.";
    "sasl.login.refresh.min.period.seconds" Short "60" any Medium PerBroker Ignored
        "The least time between two refreshes of a credential.";
    "sasl.login.refresh.window.factor" Double "0.8" any Medium PerBroker Ignored
        "The part of a credential's life after which it is refreshed.";
    "sasl.login.refresh.window.jitter" Double "0.05" any Medium PerBroker Ignored
        "The random share added to a credential's refresh time.";
    "sasl.login.retry.backoff.max.ms" Long "10000" any Low ReadOnly Ignored
        "The longest wait between two login attempts.";
    "sasl.login.retry.backoff.ms" Long "100" any Low ReadOnly Ignored
        "The first wait between two login attempts.";
    "sasl.mechanism.controller.protocol" String "GSSAPI" any High ReadOnly Ignored
        "The SASL mechanism towards controllers.";
    "sasl.mechanism.inter.broker.protocol" String "GSSAPI" any Medium PerBroker Ignored
        "The SASL mechanism between brokers.";
    "sasl.oauthbearer.assertion.algorithm" String "RS256"
        (any_case "ES256" "RS256") Medium ReadOnly Ignored
        "The algorithm that signs login assertions.";
    "sasl.oauthbearer.assertion.claim.aud" String null any Medium ReadOnly Ignored
        "The audience claim of login assertions.";
    "sasl.oauthbearer.assertion.claim.exp.seconds" Int "300" (range 0 86400) Low ReadOnly Ignored
        "How long a login assertion lasts.";
    "sasl.oauthbearer.assertion.claim.iss" String null any Medium ReadOnly Ignored
        "The issuer claim of login assertions.";
    "sasl.oauthbearer.assertion.claim.jti.include" Boolean "false" any Medium ReadOnly Ignored
        "Whether login assertions carry a unique id.";
    "sasl.oauthbearer.assertion.claim.nbf.seconds" Int "60" (range 0 3600) Low ReadOnly Ignored
        "How far back a login assertion starts to be valid.";
    "sasl.oauthbearer.assertion.claim.sub" String null any Medium ReadOnly Ignored
        "The subject claim of login assertions.";
    "sasl.oauthbearer.assertion.file" String null any Medium ReadOnly Ignored
        "A file that holds a ready login assertion.";
    "sasl.oauthbearer.assertion.private.key.file" String null any Medium ReadOnly Ignored
        "The file of the key that signs login assertions.";
    "sasl.oauthbearer.assertion.private.key.passphrase" Password null any Medium ReadOnly Ignored
        "The passphrase of the key that signs login assertions.";
    "sasl.oauthbearer.assertion.template.file" String null any Medium ReadOnly Ignored
        "A file with further headers and claims of login assertions.";
    "sasl.oauthbearer.client.credentials.client.id" String null any Medium ReadOnly Ignored
        "The client id of the client-credentials grant.";
    "sasl.oauthbearer.client.credentials.client.secret" Password null any Medium ReadOnly Ignored
        "The client secret of the client-credentials grant.";
    "sasl.oauthbearer.clock.skew.seconds" Int "30" any Low ReadOnly Ignored
        "The clock difference tolerated when tokens are checked.";
    "sasl.oauthbearer.expected.audience" List "" any High ReadOnly Ignored
        "The audiences a token may name.";
    "sasl.oauthbearer.expected.issuer" String null any High ReadOnly Ignored
        "The issuer a token must name.";
    "sasl.oauthbearer.jwks.endpoint.refresh.ms" Long "3600000" any Low ReadOnly Ignored
        "How often the provider's keys are fetched again.";
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms" Long "10000" any Low ReadOnly Ignored
        "The longest wait before the provider's keys are tried again.";
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms" Long "100" any Low ReadOnly Ignored
        "The first wait before the provider's keys are tried again.";
    "sasl.oauthbearer.jwks.endpoint.url" String null any Medium ReadOnly Ignored
        "Where the provider's keys are found.";
    "sasl.oauthbearer.jwt.retriever.class" Class
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever" any Medium ReadOnly Ignored
        "The class that obtains tokens.";
    "sasl.oauthbearer.jwt.validator.class" Class
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator" any Medium ReadOnly Ignored
        "The class that checks tokens.";
    "sasl.oauthbearer.scope" String null any Medium ReadOnly Ignored
        "The scope asked for with a token.";
    "sasl.oauthbearer.scope.claim.name" String "scope" any Low ReadOnly Ignored
        "The claim that holds a token's scope.";
    "sasl.oauthbearer.sub.claim.name" String "sub" any Low ReadOnly Ignored
        "The claim that holds a token's subject.";
    "sasl.oauthbearer.token.endpoint.url" String null any Medium ReadOnly Ignored
        "Where tokens are obtained.";
    "sasl.server.callback.handler.class" Class null any Medium ReadOnly Ignored
        "A plugin class for SASL server callbacks.";
    "sasl.server.max.receive.size" Int "524288" any Medium ReadOnly Planned
        "The largest SASL message a client may send.";
    "security.inter.broker.protocol" String "PLAINTEXT"
        (one_of "PLAINTEXT" "SSL" "SASL_PLAINTEXT" "SASL_SSL") Medium ReadOnly Ignored
        "The security protocol between brokers.";
    "security.providers" String null any Low ReadOnly Ignored
        "Plugin classes that install security algorithms.";
    "ssl.allow.dn.changes" Boolean "false" any Low ReadOnly Ignored
        "Whether a replaced certificate may have another name.";
    "ssl.allow.san.changes" Boolean "false" any Low ReadOnly Ignored
        "Whether a replaced certificate may have other alternative names.";
    "ssl.cipher.suites" List "" any Medium PerBroker Planned
        "The cipher suites on offer; all of the library's when empty.";
    "ssl.client.auth" String "none" (one_of "required" "requested" "none") Medium PerBroker Planned
        "Whether clients must, may or need not show a certificate.";
    "ssl.enabled.protocols" List "TLSv1.2,TLSv1.3" any Medium PerBroker Planned
        "The TLS versions on offer.";
    "ssl.endpoint.identification.algorithm" String "https" any Low PerBroker Ignored
        "How a server's name is checked against its certificate.";
    "ssl.engine.factory.class" Class null any Low PerBroker Ignored
        "A plugin class that makes TLS engines.";
    "ssl.key.password" Password null any Medium PerBroker Planned
        "The password of the private key.";
    "ssl.keymanager.algorithm" String "SunX509" any Medium PerBroker Ignored
        "The JVM's key manager.";
    "ssl.keystore.certificate.chain" Password null any Medium PerBroker Planned
        "The certificate chain itself, in PEM.";
    "ssl.keystore.key" Password null any Medium PerBroker Planned
        "The private key itself, in PEM.";
    "ssl.keystore.location" String null any Medium PerBroker Planned
        "The file with key and certificates.";
    "ssl.keystore.password" Password null any Medium PerBroker Planned
        "The password of the key store.";
    "ssl.keystore.type" String "JKS" any Medium PerBroker Planned
        "The format of the key store.";
    "ssl.principal.mapping.rules" String "DEFAULT" any Low ReadOnly Planned
        "Rules that map certificate names to principals.";
    "ssl.protocol" String "TLSv1.3" any Medium PerBroker Ignored
        "The JVM's TLS context.";
    "ssl.provider" String null any Medium PerBroker Ignored
        "The JVM's security provider for TLS.";
    "ssl.secure.random.implementation" String null any Low PerBroker Ignored
        "The JVM's random generator for TLS.";
    "ssl.trustmanager.algorithm" String "PKIX" any Medium PerBroker Ignored
        "The JVM's trust manager.";
    "ssl.truststore.certificates" Password null any Medium PerBroker Planned
        "The trusted certificates themselves, in PEM.";
    "ssl.truststore.location" String null any Medium PerBroker Planned
        "The file with trusted certificates.";
    "ssl.truststore.password" Password null any Medium PerBroker Planned
        "The password of the trust store.";
    "ssl.truststore.type" String "JKS" any Medium PerBroker Planned
        "The format of the trust store.";
}

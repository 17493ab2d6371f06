import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import javax.security.auth.callback.Callback;
import javax.security.auth.callback.NameCallback;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.sasl.SaslServer;
import org.apache.kafka.common.config.SaslConfigs;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.security.JaasContext;
import org.apache.kafka.common.security.auth.AuthenticateCallbackHandler;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerExtensionsValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerToken;
import org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallback;
import org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslServer;
import org.apache.kafka.common.security.plain.PlainAuthenticateCallback;
import org.apache.kafka.common.security.plain.internals.PlainSaslServer;
import org.apache.kafka.common.security.scram.ScramCredential;
import org.apache.kafka.common.security.scram.ScramCredentialCallback;
import org.apache.kafka.common.security.scram.internals.ScramFormatter;
import org.apache.kafka.common.security.scram.internals.ScramMechanism;
import org.apache.kafka.common.security.scram.internals.ScramSaslServer;
import org.apache.kafka.common.security.token.delegation.internals.DelegationTokenCredentialCallback;

/** Kafka's SASL servers, each of which knows one user. */
class Sasl {
    private static final Map<String, SaslServer> SERVERS = new HashMap<>();

    /** A server for one user (for OAUTHBEARER: one token, and what it says of others). */
    static byte[][] open(String id, String mechanism, String user, String secret, int iterations) throws Exception {
        AuthenticateCallbackHandler handler = new Handler(mechanism, user, secret, iterations);
        SaslServer server;
        if (mechanism.equals("PLAIN"))
            server = new PlainSaslServer(handler);
        else if (mechanism.equals("OAUTHBEARER"))
            server = new OAuthBearerSaslServer(handler);
        else
            server = new ScramSaslServer(ScramMechanism.forMechanismName(mechanism), Map.of(), handler);
        SERVERS.put(id, server);
        return new byte[][] {};
    }

    /** A server that takes Kerberos' tickets for its service. */
    static byte[][] openKerberos(String id, String krb5Conf, String keytab, String principal, String service, String host)
            throws Exception {
        SERVERS.put(id, new Kerberos(krb5Conf, keytab, principal, service, host));
        return new byte[][] {};
    }

    /** What an entry of `sasl.jaas.config` is to Java: the module, then names and values. */
    static byte[][] jaas(String text) {
        Map<String, Object> configs = Map.of(SaslConfigs.SASL_JAAS_CONFIG, new Password(text));
        AppConfigurationEntry entry = JaasContext.loadClientContext(configs).configurationEntries().get(0);
        List<byte[]> words = new ArrayList<>();
        words.add(Oracle.text(entry.getLoginModuleName()));
        entry.getOptions().forEach((name, value) -> {
            words.add(Oracle.text(name));
            words.add(Oracle.text((String) value));
        });
        return words.toArray(new byte[0][]);
    }

    /** What the server answers, whether it is satisfied, and who it takes the client for. */
    static byte[][] step(String id, byte[] message) throws Exception {
        SaslServer server = SERVERS.get(id);
        byte[] answer = server.evaluateResponse(message);
        String who = server.isComplete() ? server.getAuthorizationID() : "";
        return new byte[][] {answer, Oracle.text(String.valueOf(server.isComplete())), Oracle.text(who)};
    }

    /** What an authenticated server negotiated. */
    static byte[][] negotiated(String id, String name) {
        return new byte[][] {Oracle.text(String.valueOf(SERVERS.get(id).getNegotiatedProperty(name)))};
    }

    /** Java's own bytes of a salted password. */
    static byte[][] salted(String mechanism, String password, byte[] salt, int iterations) throws Exception {
        ScramFormatter formatter = new ScramFormatter(ScramMechanism.forMechanismName(mechanism));
        return new byte[][] {formatter.saltedPassword(password, salt, iterations)};
    }

    private record Handler(String mechanism, String user, String secret, int iterations)
            implements AuthenticateCallbackHandler {
        @Override
        public void configure(Map<String, ?> configs, String name, List<AppConfigurationEntry> entries) {}

        @Override
        public void close() {}

        @Override
        public void handle(Callback[] callbacks) {
            String name = null;
            for (Callback callback : callbacks) {
                if (callback instanceof NameCallback named)
                    name = named.getDefaultName();
                else if (callback instanceof PlainAuthenticateCallback plain)
                    plain.authenticated(user.equals(name) && secret.equals(new String(plain.password())));
                else if (callback instanceof DelegationTokenCredentialCallback token && user.equals(name)) {
                    token.scramCredential(credential());
                    token.tokenOwner("the owner");
                } else if (callback instanceof ScramCredentialCallback scram && user.equals(name))
                    scram.scramCredential(credential());
                else if (callback instanceof OAuthBearerValidatorCallback bearer) {
                    if (bearer.tokenValue().equals(secret))
                        bearer.token(new Token(secret, user));
                    else
                        bearer.error("invalid_token", "flights", "https://issuer.example/config");
                } else if (callback instanceof OAuthBearerExtensionsValidatorCallback extensions)
                    extensions.inputExtensions().map().keySet().forEach(extensions::valid);
            }
        }

        private ScramCredential credential() {
            try {
                return new ScramFormatter(ScramMechanism.forMechanismName(mechanism))
                        .generateCredential(secret, iterations);
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }
    }

    private record Token(String value, String principalName) implements OAuthBearerToken {
        @Override
        public Set<String> scope() {
            return Set.of();
        }

        @Override
        public long lifetimeMs() {
            return Long.MAX_VALUE;
        }

        @Override
        public Long startTimeMs() {
            return null;
        }
    }
}

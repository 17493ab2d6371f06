import java.security.PrivilegedExceptionAction;
import java.util.Map;
import javax.security.auth.Subject;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;
import javax.security.auth.login.LoginContext;
import javax.security.sasl.AuthorizeCallback;
import javax.security.sasl.Sasl;
import javax.security.sasl.SaslException;
import javax.security.sasl.SaslServer;

/** Java's SASL server of GSSAPI, made as a broker makes it, with the key of its service. */
class Kerberos implements SaslServer {
    private final Subject subject;
    private final SaslServer server;

    /** krb5.conf can be named once in the life of this process. */
    Kerberos(String krb5Conf, String keytab, String principal, String service, String host) throws Exception {
        System.setProperty("java.security.krb5.conf", krb5Conf);
        Map<String, String> options = Map.of(
                "useKeyTab", "true",
                "keyTab", keytab,
                "principal", principal,
                "storeKey", "true",
                "isInitiator", "false");
        Configuration configuration = new Configuration() {
            @Override
            public AppConfigurationEntry[] getAppConfigurationEntry(String name) {
                return new AppConfigurationEntry[] {
                    new AppConfigurationEntry(
                            "com.sun.security.auth.module.Krb5LoginModule",
                            AppConfigurationEntry.LoginModuleControlFlag.REQUIRED,
                            options)
                };
            }
        };
        LoginContext login = new LoginContext("KafkaServer", null, null, configuration);
        login.login();
        subject = login.getSubject();
        server = as(() -> Sasl.createSaslServer("GSSAPI", service, host, Map.of(), callbacks -> {
            for (var callback : callbacks)
                if (callback instanceof AuthorizeCallback authorize)
                    authorize.setAuthorized(true);
        }));
    }

    private <T> T as(PrivilegedExceptionAction<T> action) throws SaslException {
        try {
            return Subject.doAs(subject, action);
        } catch (java.security.PrivilegedActionException wrapped) {
            if (wrapped.getCause() instanceof SaslException refused)
                throw refused;
            throw new SaslException(String.valueOf(wrapped.getCause()), wrapped.getCause());
        }
    }

    @Override
    public byte[] evaluateResponse(byte[] response) throws SaslException {
        byte[] answer = as(() -> server.evaluateResponse(response));
        return answer == null ? new byte[0] : answer;
    }

    @Override
    public String getMechanismName() {
        return server.getMechanismName();
    }

    @Override
    public boolean isComplete() {
        return server.isComplete();
    }

    @Override
    public String getAuthorizationID() {
        return server.getAuthorizationID();
    }

    @Override
    public Object getNegotiatedProperty(String name) {
        return server.getNegotiatedProperty(name);
    }

    @Override
    public byte[] unwrap(byte[] data, int offset, int length) throws SaslException {
        return server.unwrap(data, offset, length);
    }

    @Override
    public byte[] wrap(byte[] data, int offset, int length) throws SaslException {
        return server.wrap(data, offset, length);
    }

    @Override
    public void dispose() throws SaslException {
        server.dispose();
    }
}

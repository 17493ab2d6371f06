import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterClientQuotasOptions;
import org.apache.kafka.clients.admin.DeleteAclsResult;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialAlteration;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AccessControlEntryFilter;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourcePatternFilter;
import org.apache.kafka.common.resource.ResourceType;

/** ACLs, quotas and SCRAM users by Java's client, a line of output for each step: {@code SecurityScript <bootstrap> <name>}. */
public final class SecurityScript {
    private static final long DEADLINE_MS = 20_000;

    private SecurityScript() {}

    public static void main(String[] arguments) throws Exception {
        String name = arguments[1];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            acls(admin, name, "User:" + name);
            quotas(admin, name);
            users(admin, name);
        }
    }

    private static void acls(Admin admin, String name, String principal) throws Exception {
        AclBinding read = binding(ResourceType.TOPIC, name, PatternType.LITERAL, principal, "*", AclOperation.READ, AclPermissionType.ALLOW);
        AclBinding write = binding(ResourceType.TOPIC, name.substring(0, 4), PatternType.PREFIXED, principal, "10.0.0.1", AclOperation.WRITE, AclPermissionType.DENY);
        AclBinding describe = binding(ResourceType.TRANSACTIONAL_ID, "*", PatternType.LITERAL, principal, "*", AclOperation.DESCRIBE, AclPermissionType.ALLOW);
        AclBinding tokens = binding(ResourceType.USER, principal, PatternType.LITERAL, principal, "*", AclOperation.CREATE_TOKENS, AclPermissionType.ALLOW);
        say("create acls", () -> admin.createAcls(List.of(read, write, describe, tokens, read)).all());
        AclBindingFilter own = filter(ResourceType.ANY, null, PatternType.ANY, principal, AclOperation.ANY, AclPermissionType.ANY);
        until(() -> admin.describeAcls(own).values().get().size() == 4);
        say("own acls", () -> admin.describeAcls(own).values().thenApply(SecurityScript::lines));
        AclBindingFilter matching = filter(ResourceType.TOPIC, name, PatternType.MATCH, principal, AclOperation.ANY, AclPermissionType.ANY);
        say("matching acls", () -> admin.describeAcls(matching).values().thenApply(SecurityScript::lines));
        AclBindingFilter denials = filter(ResourceType.ANY, null, PatternType.ANY, principal, AclOperation.ANY, AclPermissionType.DENY);
        AclBindingFilter reads = filter(ResourceType.ANY, null, PatternType.ANY, principal, AclOperation.READ, AclPermissionType.ANY);
        DeleteAclsResult deleted = admin.deleteAcls(List.of(denials, reads));
        say("denials", () -> deleted.values().get(denials).thenApply(SecurityScript::results));
        say("reads", () -> deleted.values().get(reads).thenApply(SecurityScript::results));
        until(() -> admin.describeAcls(own).values().get().size() == 2);
        say("rest", () -> admin.deleteAcls(List.of(own)).values().get(own).thenApply(SecurityScript::results));
    }

    private static void quotas(Admin admin, String name) throws Exception {
        ClientQuotaEntity user = new ClientQuotaEntity(Map.of(ClientQuotaEntity.USER, name));
        Map<String, String> names = new TreeMap<>(Map.of(ClientQuotaEntity.USER, name));
        names.put(ClientQuotaEntity.CLIENT_ID, null);
        ClientQuotaEntity both = new ClientQuotaEntity(names);
        say("no zero", () -> alter(admin, user, "producer_byte_rate", 0.0, false));
        say("no such quota", () -> alter(admin, user, "nope", 1.0, false));
        say("no fraction", () -> alter(admin, user, "producer_byte_rate", 0.5, true));
        say("validate", () -> alter(admin, user, "producer_byte_rate", 1000.0, true));
        say("set", () -> alter(admin, user, "producer_byte_rate", 1000.0, false));
        say("set both", () -> alter(admin, both, "request_percentage", 12.5, false));
        ClientQuotaFilter wide = ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, name)));
        until(() -> admin.describeClientQuotas(wide).entities().get().size() == 2);
        say("wide", () -> admin.describeClientQuotas(wide).entities().thenApply(SecurityScript::entities));
        ClientQuotaFilter strict = ClientQuotaFilter.containsOnly(List.of(ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, name)));
        say("strict", () -> admin.describeClientQuotas(strict).entities().thenApply(SecurityScript::entities));
        ClientQuotaFilter any = ClientQuotaFilter.containsOnly(List.of(
            ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, name), ClientQuotaFilterComponent.ofEntityType(ClientQuotaEntity.CLIENT_ID)));
        say("any", () -> admin.describeClientQuotas(any).entities().thenApply(SecurityScript::entities));
        ClientQuotaFilter byDefault = ClientQuotaFilter.contains(List.of(
            ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, name), ClientQuotaFilterComponent.ofDefaultEntity(ClientQuotaEntity.CLIENT_ID)));
        say("default", () -> admin.describeClientQuotas(byDefault).entities().thenApply(SecurityScript::entities));
        say("remove", () -> alter(admin, user, "producer_byte_rate", null, false));
        say("remove both", () -> alter(admin, both, "request_percentage", null, false));
        until(() -> admin.describeClientQuotas(wide).entities().get().isEmpty());
    }

    private static void users(Admin admin, String name) throws Exception {
        String other = name + "-2";
        say("no user", () -> admin.describeUserScramCredentials(List.of(name)).description(name));
        say("no credential", () -> alter(admin, new UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_256)));
        say("sha 256", () -> alter(admin, upsertion(name, ScramMechanism.SCRAM_SHA_256, 4096)));
        say("both", () -> alter(admin, upsertion(name, ScramMechanism.SCRAM_SHA_512, 16384), upsertion(other, ScramMechanism.SCRAM_SHA_512, 5000)));
        until(() -> admin.describeUserScramCredentials(List.of(other)).all().get().size() == 1);
        say("users", () -> admin.describeUserScramCredentials(List.of(name, other)).all().thenApply(found -> new TreeMap<>(found).values().stream().map(
            each -> each.name() + " " + each.credentialInfos().stream().map(info -> info.mechanism().mechanismName() + " " + info.iterations()).sorted().toList()).toList()));
        for (String user : List.of(name, other)) {
            say("delete " + user, () -> alter(admin, new UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512)));
        }
        say("delete the last", () -> alter(admin, new UserScramCredentialDeletion(name, ScramMechanism.SCRAM_SHA_256)));
    }

    private static KafkaFuture<Void> alter(Admin admin, ClientQuotaEntity entity, String key, Double value, boolean validate) {
        ClientQuotaAlteration change = new ClientQuotaAlteration(entity, List.of(new ClientQuotaAlteration.Op(key, value)));
        return admin.alterClientQuotas(List.of(change), new AlterClientQuotasOptions().validateOnly(validate)).all();
    }

    private static KafkaFuture<Void> alter(Admin admin, UserScramCredentialAlteration... alterations) {
        return admin.alterUserScramCredentials(List.of(alterations)).all();
    }

    private static UserScramCredentialUpsertion upsertion(String name, ScramMechanism mechanism, int iterations) {
        return new UserScramCredentialUpsertion(name, new ScramCredentialInfo(mechanism, iterations), "secret");
    }

    private static AclBinding binding(ResourceType type, String name, PatternType pattern, String principal, String host, AclOperation operation, AclPermissionType permission) {
        return new AclBinding(new ResourcePattern(type, name, pattern), new AccessControlEntry(principal, host, operation, permission));
    }

    private static AclBindingFilter filter(ResourceType type, String name, PatternType pattern, String principal, AclOperation operation, AclPermissionType permission) {
        return new AclBindingFilter(new ResourcePatternFilter(type, name, pattern), new AccessControlEntryFilter(principal, null, operation, permission));
    }

    private static List<String> lines(Collection<AclBinding> bindings) {
        return bindings.stream().map(each -> String.join(" ", each.pattern().resourceType().name(), each.pattern().name(), each.pattern().patternType().name(),
            each.entry().principal(), each.entry().host(), each.entry().operation().name(), each.entry().permissionType().name())).sorted().toList();
    }

    private static List<String> results(DeleteAclsResult.FilterResults found) {
        List<AclBinding> deleted = new ArrayList<>();
        for (DeleteAclsResult.FilterResult each : found.values()) {
            if (each.exception() != null) {
                throw each.exception();
            }
            deleted.add(each.binding());
        }
        return lines(deleted);
    }

    private static List<String> entities(Map<ClientQuotaEntity, Map<String, Double>> found) {
        return found.entrySet().stream().map(each -> new TreeMap<>(each.getKey().entries()) + " " + new TreeMap<>(each.getValue())).sorted().toList();
    }

    private static void until(Callable<Boolean> known) throws Exception {
        long end = System.currentTimeMillis() + DEADLINE_MS;
        while (!isTrue(known)) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("the broker does not show the change");
            }
            Thread.sleep(20);
        }
    }

    private static boolean isTrue(Callable<Boolean> known) throws Exception {
        try {
            return known.call();
        } catch (ExecutionException error) {
            return false;
        }
    }

    private static void say(String step, Callable<KafkaFuture<?>> call) throws Exception {
        String outcome;
        try {
            Object found = call.call().get(20, TimeUnit.SECONDS);
            outcome = found == null ? "done" : found.toString();
        } catch (ExecutionException error) {
            outcome = Errors.forException(error.getCause()).name();
        }
        System.out.println("> " + step + ": " + outcome);
    }
}

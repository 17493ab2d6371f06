import java.time.Duration;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;

/** Pushes metrics of Java's `Admin`; prints the default of the option and the client instance id. Its input ends it. */
public class AdminPush {
    public static void main(String[] arguments) throws Exception {
        System.out.println(AdminClientConfig.configDef().defaultValues().get("enable.metrics.push"));
        try (Admin admin = Admin.create(Map.of(
                "bootstrap.servers", arguments[0], "client.id", arguments[1], "enable.metrics.push", true))) {
            admin.listTopics().names().get();
            System.out.println(admin.clientInstanceId(Duration.ofSeconds(30)));
            System.in.read();
        }
    }
}

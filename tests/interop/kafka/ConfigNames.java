import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;

/** Prints every configuration of this Kafka: kind, name, type, default, what is valid, when it may change, synonyms. */
public class ConfigNames {
    static final String TAB = "\t";

    static void print(String kind, ConfigDef definition, Map<String, String> modes, Map<String, String> synonyms) {
        for (ConfigDef.ConfigKey key : new TreeMap<>(definition.configKeys()).values()) {
            Object value = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE ? null : key.defaultValue;
            System.out.println(String.join(TAB,
                kind,
                key.name,
                key.type.toString(),
                value == null ? "<null>" : ConfigDef.convertToString(value, key.type),
                key.validator == null ? "" : key.validator.toString(),
                modes.getOrDefault(key.name, ""),
                key.internalConfig ? "internal" : "",
                synonyms.getOrDefault(key.name, "")));
        }
    }

    static Object constant(String type, String field) throws ReflectiveOperationException {
        var found = Class.forName(type).getDeclaredField(field);
        found.setAccessible(true);
        return found.get(null);
    }

    static Object call(String type, String method) throws ReflectiveOperationException {
        return Class.forName(type).getMethod(method).invoke(null);
    }

    @SuppressWarnings("unchecked")
    static Map<String, String> topicSynonyms() throws ReflectiveOperationException {
        var all = (Map<String, List<Object>>) constant(
            "org.apache.kafka.server.config.ServerTopicConfigSynonyms", "ALL_TOPIC_CONFIG_SYNONYMS");
        var names = new TreeMap<String, String>();
        for (var entry : all.entrySet()) {
            var several = new StringBuilder();
            for (Object synonym : entry.getValue()) {
                several.append(several.isEmpty() ? "" : ",").append(synonym.getClass().getMethod("name").invoke(synonym));
            }
            names.put(entry.getKey(), several.toString());
        }
        return names;
    }

    @SuppressWarnings("unchecked")
    public static void main(String[] arguments) throws ReflectiveOperationException {
        var modes = (Map<String, String>) call(
            "org.apache.kafka.server.config.DynamicBrokerConfig", "dynamicConfigUpdateModes");
        var broker = (ConfigDef) call("kafka.server.KafkaConfig", "configDef");
        print("broker", broker, modes, Map.of());
        // These three have no static form: they are known to kafka-configs only.
        var dynamic = new ConfigDef();
        var keys = (Map<String, ConfigDef.ConfigKey>) call(
            "org.apache.kafka.server.config.DynamicConfig$Broker", "configKeys");
        keys.values().stream().filter(key -> !broker.names().contains(key.name)).forEach(dynamic::define);
        print("broker", dynamic, modes, Map.of());
        print("topic", (ConfigDef) call("org.apache.kafka.storage.internals.log.LogConfig", "configDefCopy"),
            Map.of(), topicSynonyms());
        print("group", (ConfigDef) constant("org.apache.kafka.coordinator.group.GroupConfig", "CONFIG_DEF"),
            Map.of(), Map.of());
        print("client-metrics", (ConfigDef) call("org.apache.kafka.server.metrics.ClientMetricsConfigs", "configDef"),
            Map.of(), Map.of());
    }
}

import com.fasterxml.jackson.databind.ObjectMapper;
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.Header;
import io.debezium.engine.format.Json;
import io.debezium.engine.format.KeyValueHeaderChangeEventFormat;
import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Runs Debezium's embedded engine and passes its records on, batch by batch, until it is ended by a signal.
 *
 * <p>Arguments: a file of Debezium's properties; and where to, either the path of a file that gets a line of JSON for
 * each record (topic, key, value, headers), or {@code kafka:BOOTSTRAP}, where the records go to their topics.
 */
public class Engine {
    interface Sink {
        void write(List<ChangeEvent<String, String>> records) throws Exception;
    }

    static Sink lines(Path path) throws IOException {
        BufferedWriter writer = Files.newBufferedWriter(path, StandardCharsets.UTF_8);
        var mapper = new ObjectMapper();
        return records -> {
            for (var record : records) {
                Map<String, Object> told = new LinkedHashMap<>();
                told.put("topic", record.destination());
                told.put("key", record.key());
                told.put("value", record.value());
                told.put("headers", headers(record));
                writer.write(mapper.writeValueAsString(told));
                writer.write('\n');
            }
            writer.flush();
        };
    }

    static Map<String, String> headers(ChangeEvent<String, String> record) {
        Map<String, String> found = new LinkedHashMap<>();
        List<Header<String>> headers = record.headers();
        for (var header : headers) {
            found.put(header.getKey(), header.getValue());
        }
        return found;
    }

    /** A batch is passed on when all of it is acknowledged. */
    static Sink topics(String bootstrap) {
        var settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("acks", "all");
        settings.put("enable.idempotence", "true");
        settings.put("linger.ms", "5");
        settings.put("batch.size", "262144");
        var producer = new KafkaProducer<byte[], byte[]>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        return records -> {
            List<Future<RecordMetadata>> sent = new ArrayList<>(records.size());
            for (var record : records) {
                var made = new ProducerRecord<>(record.destination(), bytes(record.key()), bytes(record.value()));
                sent.add(producer.send(made));
            }
            producer.flush();
            for (var each : sent) {
                each.get();
            }
        };
    }

    static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    public static void main(String[] arguments) throws Exception {
        var properties = new Properties();
        try (var reader = Files.newBufferedReader(Path.of(arguments[0]))) {
            properties.load(reader);
        }
        String to = arguments[1];
        Sink sink = to.startsWith("kafka:") ? topics(to.substring("kafka:".length())) : lines(Path.of(to));
        boolean[] isFailed = {false};
        var format = KeyValueHeaderChangeEventFormat.of(Json.class, Json.class, Json.class);
        DebeziumEngine<ChangeEvent<String, String>> engine = DebeziumEngine.create(format)
            .using(properties)
            .using((success, message, error) -> {
                isFailed[0] = !success;
                if (error != null) {
                    error.printStackTrace();
                } else if (!success) {
                    System.err.println(message);
                }
            })
            .notifying((records, committer) -> {
                try {
                    sink.write(records);
                } catch (Exception error) {
                    throw new RuntimeException(error);
                }
                for (var record : records) {
                    committer.markProcessed(record);
                }
                committer.markBatchFinished();
            })
            .build();
        engine.run();
        System.exit(isFailed[0] ? 1 : 0);
    }
}

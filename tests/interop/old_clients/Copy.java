import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Copy BOOTSTRAP COUNT: makes two topics, writes records to the one, and copies them to the other in transactions as a
 * member of a group, every second transaction aborted and done again. Prints what a reader of committed records finds.
 */
public class Copy {
    static final long LIMIT = 120;  // seconds
    static final String GROUP = "copies";

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        int count = Integer.parseInt(arguments[1]);
        try (AdminClient admin = AdminClient.create(settings(bootstrap))) {
            admin.createTopics(java.util.Arrays.asList(new NewTopic("from", 1, (short) 1), new NewTopic("to", 1, (short) 1)))
                .all().get(LIMIT, TimeUnit.SECONDS);
            System.out.println("topics " + new java.util.TreeSet<>(admin.listTopics().names().get(LIMIT, TimeUnit.SECONDS)));
        }
        fill(bootstrap, count);
        copy(bootstrap, count);
        read(bootstrap, count);
    }

    static Properties settings(String bootstrap) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("key.serializer", StringSerializer.class.getName());
        settings.put("value.serializer", StringSerializer.class.getName());
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", "false");
        return settings;
    }

    static void fill(String bootstrap, int count) throws Exception {
        Properties settings = settings(bootstrap);
        settings.put("enable.idempotence", "true");
        settings.put("compression.type", "lz4");
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(settings)) {
            for (int number = 0; number < count; number++) {
                producer.send(new ProducerRecord<>("from", "k", "v" + number));
            }
            producer.flush();
        }
    }

    static void copy(String bootstrap, int count) throws Exception {
        Properties reading = settings(bootstrap), writing = settings(bootstrap);
        reading.put("group.id", GROUP);
        reading.put("max.poll.records", "7");
        writing.put("transactional.id", "copier");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reading);
             KafkaProducer<String, String> producer = new KafkaProducer<>(writing)) {
            producer.initTransactions();
            consumer.subscribe(Collections.singletonList("from"));
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT);
            boolean aborts = true;
            for (int done = 0; done < count;) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException(done + " of " + count + " were copied");
                }
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                Map<TopicPartition, Long> first = new HashMap<>();
                int records = 0;
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    TopicPartition place = new TopicPartition(record.topic(), record.partition());
                    if (records++ == 0) {
                        producer.beginTransaction();
                    }
                    first.putIfAbsent(place, record.offset());
                    offsets.put(place, new OffsetAndMetadata(record.offset() + 1));
                    producer.send(new ProducerRecord<>("to", record.key(), record.value()));
                }
                if (records == 0) {
                    continue;
                }
                producer.sendOffsetsToTransaction(offsets, GROUP);
                if (aborts) {
                    producer.abortTransaction();
                    first.forEach(consumer::seek);
                } else {
                    producer.commitTransaction();
                    done += records;
                }
                aborts = !aborts;
            }
            System.out.println("committed " + consumer.committed(new TopicPartition("from", 0)).offset());
        }
    }

    static void read(String bootstrap, int count) {
        Properties settings = settings(bootstrap);
        settings.put("group.id", "readers");
        try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(Collections.singletonList("to"));
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT);
            for (int found = 0; found < count && System.nanoTime() < deadline;) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    System.out.println(record.value());
                    found++;
                }
            }
            consumer.commitSync();
        }
    }
}

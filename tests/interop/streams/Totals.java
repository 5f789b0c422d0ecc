import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Counts and sums the integers of topic "numbers" by their last digit, and writes each new pair to topic "totals".
 *
 * <p>The digit becomes the key, so the integers go through a topic in between; the pairs so far are in a store with a
 * changelog. Without a cache before the store every integer gives one pair.
 *
 * <p>Arguments: bootstrap, folder of the state, guarantee.
 */
public class Totals {
    static Topology topology() {
        var builder = new StreamsBuilder();
        builder.<String, String>stream("numbers")
            .selectKey((nothing, number) -> number.substring(number.length() - 1))
            .groupByKey(Grouped.as("digits"))
            .aggregate(() -> "0 0", (digit, number, pair) -> next(pair, number),
                Materialized.<String, String, KeyValueStore<Bytes, byte[]>>as("pairs").withCachingDisabled())
            .toStream()
            .to("totals");
        return builder.build();
    }

    static String next(String pair, String number) {
        var parts = pair.split(" ");
        return (Long.parseLong(parts[0]) + 1) + " " + (Long.parseLong(parts[1]) + Long.parseLong(number));
    }

    static Properties settings(String bootstrap, Path state, String guarantee) {
        var settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "app");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.String().getClass());
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        // The topic in between is cleaned behind the reader, which asks the broker to delete records.
        settings.put(StreamsConfig.REPARTITION_PURGE_INTERVAL_MS_CONFIG, 500);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        // A killed member is given up soon; the next one waits for that.
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 3_000);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), 500);
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG), 5_000);
        // Small steps, so that something is under way whenever the application is killed.
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 0);
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.BATCH_SIZE_CONFIG), 2_000);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), 50);
        settings.put(StreamsConfig.topicPrefix(TopicConfig.SEGMENT_MS_CONFIG), 1_000);
        settings.put(StreamsConfig.topicPrefix(TopicConfig.MIN_CLEANABLE_DIRTY_RATIO_CONFIG), 0.01);
        return settings;
    }

    public static void main(String[] arguments) {
        var streams = new KafkaStreams(topology(), settings(arguments[0], Path.of(arguments[1]), arguments[2]));
        streams.setUncaughtExceptionHandler(error -> StreamThreadExceptionResponse.REPLACE_THREAD);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(30))));
        streams.start();
    }
}

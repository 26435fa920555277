import com.example.Reading;
import io.pravega.client.ClientConfig;
import io.pravega.client.EventStreamClientFactory;
import io.pravega.client.admin.StreamManager;
import io.pravega.client.stream.EventStreamWriter;
import io.pravega.client.stream.EventWriterConfig;
import io.pravega.client.stream.ScalingPolicy;
import io.pravega.client.stream.StreamConfiguration;
import io.pravega.client.stream.impl.JavaSerializer;
import java.net.URI;

/** Writes readings by Java's own serialization: WriteReadings.java CONTROLLER SCOPE STREAM ID=TEMP... */
public final class WriteReadings {
    public static void main(String[] arguments) {
        ClientConfig config = ClientConfig.builder().controllerURI(URI.create(arguments[0])).build();
        try (StreamManager streams = StreamManager.create(config)) {
            StreamConfiguration fixed = StreamConfiguration.builder().scalingPolicy(ScalingPolicy.fixed(2)).build();
            streams.createStream(arguments[1], arguments[2], fixed);
        }
        try (EventStreamClientFactory clients = EventStreamClientFactory.withScope(arguments[1], config);
                EventStreamWriter<Reading> writer = clients.createEventWriter(
                        arguments[2], new JavaSerializer<>(), EventWriterConfig.builder().build())) {
            for (int number = 3; number < arguments.length; number++) {
                String[] parts = arguments[number].split("=");
                Reading reading = new Reading(Integer.parseInt(parts[0]), Double.parseDouble(parts[1]));
                writer.writeEvent(parts[0], reading).join();
            }
        }
    }
}

import io.pravega.client.segment.impl.Segment;
import io.pravega.client.stream.Stream;
import io.pravega.client.stream.StreamCut;
import io.pravega.client.stream.impl.StreamCutImpl;
import io.pravega.common.hash.HashHelper;
import io.pravega.controller.store.stream.records.RecordHelper;
import io.pravega.shared.NameUtils;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.UUID;

/**
 * Prints what the official Java classes (pravega-client and pravega-controller 0.13.0) make of keys, stream cuts and names.
 *
 *   java -cp CLASSPATH Vectors.java routing     > ../vectors/routing.tsv
 *   java -cp CLASSPATH Vectors.java table-keys  > ../vectors/table_keys.tsv
 *   java -cp CLASSPATH Vectors.java stream-cuts > ../vectors/stream_cuts.tsv
 *   java -cp CLASSPATH Vectors.java names       > ../vectors/names.tsv
 *   java -cp CLASSPATH Vectors.java read CUT... prints the positions of stream cuts written by others
 *
 * Keys are in hex (of UTF-16BE code units, or of bytes) and positions as the bits of the double, so that nothing is lost.
 */
public class Vectors {
    public static void main(String[] arguments) {
        switch (arguments[0]) {
            case "routing" -> routing();
            case "table-keys" -> tableKeys();
            case "stream-cuts" -> streamCuts();
            case "names" -> names();
            case "read" -> {
                for (int i = 1; i < arguments.length; i++) {
                    System.out.println(positions(StreamCut.from(arguments[i])));
                }
            }
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static void routing() {
        List<String> keys = new ArrayList<>(List.of("", "a", "sensor-1", "ключ", "датчик-7", "日本語のキー", "😀", "x😀y", "\ud800", "é", "\u0000"));
        for (int length = 1; length <= 33; length++) {
            keys.add("0123456789abcdefghijklmnopqrstuvwxyzABCDEFG".substring(0, length));
            keys.add("жаñ漢字😀 кириллица и ещё немного текста здесь".substring(0, length));
        }
        Random random = new Random(1);
        for (int i = 0; i < 100; i++) {
            StringBuilder key = new StringBuilder();
            for (int length = random.nextInt(200); length > 0; length--) {
                key.append((char) random.nextInt(0xd800));
            }
            keys.add(key.toString());
        }
        HashHelper hash = HashHelper.seededWith("EventRouter");
        for (String key : keys) {
            StringBuilder units = new StringBuilder();
            key.chars().forEach(unit -> units.append(String.format("%04x", unit)));
            System.out.println(units + "\t" + bits(hash.hashToRange(key)));
        }
    }

    private static void tableKeys() {
        HashHelper hash = HashHelper.seededWith("KeyValueTableRouter");
        Random random = new Random(2);
        for (int length = 1; length <= 40; length++) {
            byte[] key = new byte[length];
            random.nextBytes(key);
            StringBuilder hex = new StringBuilder();
            for (byte value : key) {
                hex.append(String.format("%02x", value));
            }
            System.out.println(hex + "\t" + bits(hash.hashToRange(ByteBuffer.wrap(key))));
        }
    }

    private static void streamCuts() {
        List<StreamCut> cuts = new ArrayList<>();
        cuts.add(cut("scope", "stream", 0L, 0L));
        cuts.add(cut("my.scope-1", "my.stream-2", 0L, 17L, 1L, 9_999_999_999L, segment(2, 1), Long.MAX_VALUE));
        cuts.add(cut("s", "t", segment(2147483646, 2147483646), 8L));
        Object[] many = new Object[1000];
        for (int i = 0; i < 500; i++) {
            many[2 * i] = segment(i, i % 7);
            many[2 * i + 1] = 1000L * i;
        }
        cuts.add(cut("scope", "wide", many));
        for (StreamCut cut : cuts) {
            System.out.println(cut.asText() + "\t" + positions(cut));
        }
        System.out.println(StreamCut.UNBOUNDED.asText() + "\t");
    }

    private static void names() {
        long[] segments = {0L, 7L, segment(3, 2), segment(12345, 678)};
        UUID[] transactions = {new UUID(0, 6), new UUID(2L << 32 | 1, 77), new UUID(9L << 32 | 0xffffffffL, Long.MIN_VALUE)};
        for (long segment : segments) {
            String name = NameUtils.getQualifiedStreamSegmentName("scope", "stream", segment);
            System.out.println(segment + "\t\t" + name);
            for (UUID transaction : transactions) {
                String primary = NameUtils.getQualifiedStreamSegmentName(
                    "scope", "stream", RecordHelper.generalizedSegmentId(segment, transaction));
                System.out.println(segment + "\t" + transaction + "\t" + NameUtils.getTransactionNameFromId(primary, transaction));
            }
        }
        System.out.println(segment(1, 0) + "\ttable\t" + NameUtils.getQualifiedTableSegmentName("scope", "t", 1L));
    }

    private static long segment(int number, int epoch) {
        return NameUtils.computeSegmentId(number, epoch);
    }

    private static StreamCut cut(String scope, String stream, Object... positions) {
        Map<Segment, Long> map = new LinkedHashMap<>();
        for (int i = 0; i < positions.length; i += 2) {
            map.put(new Segment(scope, stream, (long) (Long) positions[i]), (Long) positions[i + 1]);
        }
        return new StreamCutImpl(Stream.of(scope, stream), map);
    }

    private static String positions(StreamCut cut) {
        StringBuilder text = new StringBuilder(cut.asImpl().getStream().getScopedName());
        cut.asImpl().getPositions().entrySet().stream()
            .sorted((a, b) -> Long.compare(a.getKey().getSegmentId(), b.getKey().getSegmentId()))
            .forEach(entry -> text.append(" ").append(entry.getKey().getSegmentId()).append("=").append(entry.getValue()));
        return text.toString();
    }

    private static String bits(double value) {
        return String.format("%016x", Double.doubleToLongBits(value));
    }
}

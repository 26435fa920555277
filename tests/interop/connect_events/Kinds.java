package connect_events;

import io.debezium.config.CommonConnectorConfig.BinaryHandlingMode;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/** All kinds of columns that there are cases of. */
final class Kinds {
    private Kinds() {}

    @SafeVarargs
    static <T> List<T> joined(List<? extends T>... lists) {
        List<T> all = new ArrayList<>();
        for (List<? extends T> each : lists) {
            all.addAll(each);
        }
        return all;
    }

    static List<Kind<?>> scalars() {
        List<Kind<?>> all = joined(Numbers.primitives(), Numbers.numbers(), Times.connectTimes(),
                Times.debeziumTimes(), Times.isoTimes(), Times.durations(), Values.texts(), Values.shapes());
        for (int length : List.of(2, 8, 12, 64)) {
            all.add(Values.bits(length));
        }
        for (BinaryHandlingMode mode : BinaryHandlingMode.values()) {
            all.add(Numbers.binary(mode));
        }
        return all;
    }

    static Kind<?> named(List<Kind<?>> kinds, String name) {
        return kinds.stream().filter(each -> each.name().equals(name)).findFirst().orElseThrow();
    }

    static List<Kind<?>> allKinds() {
        List<Kind<?>> scalars = scalars();
        List<Kind<?>> all = new ArrayList<>(scalars);
        Kind<?> number = named(scalars, "int64");
        for (Kind<?> each : scalars) {
            all.add(Nested.array(each));
            all.add(Nested.map(named(scalars, "string"), each));
        }
        // A double that is no number is not equal to itself in a map of Java; arrays of bytes have no equality there.
        for (Kind<?> each : Numbers.primitives()) {
            if (!List.of("string", "bytes", "float-not-finite").contains(each.name())) {
                all.add(Nested.map(each, number));
            }
        }
        all.add(Nested.map(named(scalars, "date"), number));
        all.add(Nested.map(named(scalars, "connect-timestamp"), number));
        all.add(Nested.map(named(scalars, "decimal-12-2"), number));
        Kind<?> nested = Nested.struct(List.of(number, named(scalars, "micro-timestamp"),
                named(scalars, "decimal-12-2"),
                named(scalars, "bytes"), Nested.array(named(scalars, "date"))));
        all.add(nested);
        all.add(Nested.array(nested));
        all.add(Nested.struct(List.of(nested, Nested.map(named(scalars, "int32"), nested))));
        return all;
    }

    /** A kind of any shape, for tests of generated schemas. */
    static Kind<?> anyKind(Random random, List<Kind<?>> scalars, int depth) {
        int choice = depth == 0 ? 3 : random.nextInt(6);
        Kind<?> scalar = scalars.get(random.nextInt(scalars.size()));
        if (choice == 0) {
            return Nested.array(anyKind(random, scalars, depth - 1));
        }
        if (choice == 1) {
            List<String> keys = List.of("boolean", "int8", "int16", "int32", "int64", "string", "date");
            Kind<?> key = named(scalars, keys.get(random.nextInt(keys.size())));
            return Nested.map(key, anyKind(random, scalars, depth - 1));
        }
        if (choice == 2) {
            return Nested.struct(List.of(anyKind(random, scalars, depth - 1), anyKind(random, scalars, depth - 1)));
        }
        return scalar;
    }
}

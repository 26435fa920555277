import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.debezium.config.CommonConnectorConfig.BinaryHandlingMode;
import io.debezium.connector.postgresql.PostgresValueConverter;
import io.debezium.connector.postgresql.data.Ltree;
import io.debezium.data.Bits;
import io.debezium.data.Envelope;
import io.debezium.data.Json;
import io.debezium.data.SpecialValueDecimal;
import io.debezium.data.TsVector;
import io.debezium.data.Uuid;
import io.debezium.data.VariableScaleDecimal;
import io.debezium.data.Xml;
import io.debezium.data.geometry.Geography;
import io.debezium.data.geometry.Geometry;
import io.debezium.data.geometry.Point;
import io.debezium.data.vector.DoubleVector;
import io.debezium.data.vector.FloatVector;
import io.debezium.data.vector.SparseDoubleVector;
import io.debezium.jdbc.JdbcValueConverters;
import io.debezium.jdbc.JdbcValueConverters.BigIntUnsignedMode;
import io.debezium.jdbc.JdbcValueConverters.DecimalMode;
import io.debezium.jdbc.TemporalPrecisionMode;
import io.debezium.relational.Column;
import io.debezium.time.Interval;
import io.debezium.time.IsoDate;
import io.debezium.time.IsoTime;
import io.debezium.time.IsoTimestamp;
import io.debezium.time.MicroDuration;
import io.debezium.time.MicroTime;
import io.debezium.time.MicroTimestamp;
import io.debezium.time.NanoDuration;
import io.debezium.time.NanoTime;
import io.debezium.time.NanoTimestamp;
import io.debezium.time.Year;
import io.debezium.time.ZonedTime;
import io.debezium.time.ZonedTimestamp;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.sql.Types;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.OffsetTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.jar.JarFile;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;

/**
 * Writes events as Kafka Connect and Debezium do, with their own classes, and says what each value is.
 *
 * Reads one JSON request a line from standard input and answers each with one JSON line; `kafka_connect.py` describes them.
 * A column's schema comes from the class that publishes its type, its encoded value from Debezium's own conversions
 * where they are public, the bytes from Connect's JsonConverter. What a value is (`meaning`) comes from the values of
 * java.time and java.math that it was made of.
 */
public class KafkaConnect {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final BigInteger THOUSAND = BigInteger.valueOf(1000);
    private static final int GENERATED_DEPTH = 2;

    /** What a column is of: its schema, and how a value becomes what Connect has for it and what it means. */
    private record Kind<T>(String name, Supplier<SchemaBuilder> schema, Function<T, Object> encode,
            Function<T, JsonNode> meaning, Function<Random, T> draw, List<T> values) {
        Object encoded(Object value) {
            return encode.apply(cast(value));
        }

        JsonNode means(Object value) {
            return meaning.apply(cast(value));
        }

        @SuppressWarnings("unchecked")
        private T cast(Object value) {
            return (T) value;
        }
    }

    private record Months(int years, int months, int days, int hours, int minutes, BigDecimal seconds) {}

    private record Shape(byte[] wkb, Integer srid) {}

    private record Position(double x, double y) {}

    private record Entry(Object key, Object value) {}

    // ------------------------------------------------------------------------------------------------ meanings

    private static JsonNode meaning(String form, Object value) {
        return JSON.createObjectNode().put("form", form).set("value", JSON.valueToTree(value));
    }

    private static JsonNode nothing() {
        return meaning("null", null);
    }

    private static JsonNode whole(Object value) {
        return meaning("integer", String.valueOf(value));
    }

    private static JsonNode floating(Number value) {
        return meaning("float", Double.toString(value.doubleValue()));
    }

    private static JsonNode text(String value) {
        return meaning("text", value);
    }

    private static JsonNode bytes(byte[] value) {
        return meaning("bytes", HEX.formatHex(value));
    }

    private static JsonNode decimal(BigDecimal value) {
        return meaning("decimal", value.toPlainString());
    }

    private static JsonNode special(SpecialValueDecimal value) {
        return value.getDecimalValue().map(KafkaConnect::decimal).orElseGet(() -> meaning("special", value.toString()));
    }

    private static JsonNode date(LocalDate value) {
        if (value.equals(PostgresValueConverter.POSITIVE_INFINITY_LOCAL_DATE)) {
            return meaning("infinity", "infinity");
        }
        if (value.equals(PostgresValueConverter.NEGATIVE_INFINITY_LOCAL_DATE)) {
            return meaning("infinity", "-infinity");
        }
        return meaning("date", value.toString());
    }

    private static JsonNode time(LocalTime value) {
        return meaning("time", value.toString());
    }

    /** A date and time without a zone; what PostgreSQL calls infinity is said so. */
    private static JsonNode local(LocalDateTime value) {
        if (value.equals(PostgresValueConverter.POSITIVE_INFINITY_LOCAL_DATE_TIME)) {
            return meaning("infinity", "infinity");
        }
        if (value.equals(PostgresValueConverter.NEGATIVE_INFINITY_LOCAL_DATE_TIME)) {
            return meaning("infinity", "-infinity");
        }
        return meaning("timestamp", value.toString());
    }

    private static JsonNode list(List<JsonNode> values) {
        return meaning("list", values);
    }

    private static JsonNode members(Object... namesAndMeanings) {
        ObjectNode members = JSON.createObjectNode();
        for (int i = 0; i < namesAndMeanings.length; i += 2) {
            members.set((String) namesAndMeanings[i], (JsonNode) namesAndMeanings[i + 1]);
        }
        return meaning("struct", members);
    }

    // ---------------------------------------------------------------------------------------------- primitives

    private static <T> Kind<T> plain(String name, Schema.Type type, Function<T, JsonNode> meaning,
            Function<Random, T> draw, List<T> values) {
        return new Kind<>(name, () -> new SchemaBuilder(type), value -> value, meaning, draw, values);
    }

    private static List<Kind<?>> primitives() {
        return List.of(
                plain("boolean", Schema.Type.BOOLEAN, (Boolean it) -> meaning("boolean", it), Random::nextBoolean,
                        List.of(true, false)),
                plain("int8", Schema.Type.INT8, KafkaConnect::whole, random -> (byte) random.nextInt(),
                        List.of((byte) 7, (byte) 0, (byte) -7, Byte.MIN_VALUE, Byte.MAX_VALUE)),
                plain("int16", Schema.Type.INT16, KafkaConnect::whole, random -> (short) random.nextInt(),
                        List.of((short) 300, (short) 0, (short) -300, Short.MIN_VALUE, Short.MAX_VALUE)),
                plain("int32", Schema.Type.INT32, KafkaConnect::whole, Random::nextInt,
                        List.of(70_000, 0, -70_000, Integer.MIN_VALUE, Integer.MAX_VALUE)),
                plain("int64", Schema.Type.INT64, KafkaConnect::whole, KafkaConnect::anyLong,
                        List.of(5_000_000_000L, 0L, -5_000_000_000L, Long.MIN_VALUE, Long.MAX_VALUE)),
                plain("float32", Schema.Type.FLOAT32, KafkaConnect::floating, random -> (float) random.nextGaussian(),
                        List.of(1.5f, 0f, -0.1f, Float.MIN_VALUE, Float.MAX_VALUE, -Float.MAX_VALUE)),
                plain("float64", Schema.Type.FLOAT64, KafkaConnect::floating, random -> random.nextGaussian() * 1e9,
                        List.of(1.5, 0.0, -0.1, Double.MIN_VALUE, Double.MAX_VALUE, -Double.MAX_VALUE, 1e23)),
                plain("float-not-finite", Schema.Type.FLOAT64, KafkaConnect::floating,
                        random -> random.nextBoolean() ? Double.NaN : Double.NEGATIVE_INFINITY,
                        List.of(Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY)),
                plain("string", Schema.Type.STRING, KafkaConnect::text, KafkaConnect::anyText,
                        List.of("text", "", "Grüße \"\\\n\u0000\ud83d\ude00", "2024-01-31", "AQID", "0102")),
                new Kind<>("bytes", SchemaBuilder::bytes, value -> value, KafkaConnect::bytes, KafkaConnect::anyBytes, BINARY));
    }

    private static final List<byte[]> BINARY = List.of(HEX.parseHex("fbff00"), HEX.parseHex(""), HEX.parseHex("0a"),
            HEX.parseHex("fbefbe"), HEX.parseHex("deadbeef00112233"), "text".getBytes(StandardCharsets.UTF_8));

    /** A binary column in one of the four modes of `binary.handling.mode`, converted by Debezium. */
    private static Kind<byte[]> binary(BinaryHandlingMode mode) {
        JdbcValueConverters converters = new JdbcValueConverters(DecimalMode.PRECISE, TemporalPrecisionMode.ADAPTIVE,
                ZoneOffset.UTC, null, BigIntUnsignedMode.LONG, mode);
        Column column = Column.editor().name("v").type("VARBINARY").jdbcType(Types.VARBINARY).create();
        Field field = new Field("v", 0, converters.schemaBuilder(column).build());
        return new Kind<>("binary-" + mode.getValue(), () -> converters.schemaBuilder(column),
                value -> converters.converter(column, field).convert(value), KafkaConnect::bytes, KafkaConnect::anyBytes, BINARY);
    }

    // ------------------------------------------------------------------------------------------------ decimals

    private static BigDecimal anyDecimal(Random random, int precision, int scale) {
        BigInteger limit = BigInteger.TEN.pow(1 + random.nextInt(precision));
        BigInteger digits = new BigInteger(limit.bitLength() + 8, random).mod(limit);
        return new BigDecimal(random.nextBoolean() ? digits : digits.negate(), scale);
    }

    private static BigDecimal nines(int precision, int scale) {
        return new BigDecimal(BigInteger.TEN.pow(precision).subtract(BigInteger.ONE), scale);
    }

    private static List<BigDecimal> decimals(int precision, int scale) {
        BigDecimal most = nines(precision, scale);
        return List.of(new BigDecimal(BigInteger.valueOf(150), scale), BigDecimal.ZERO.setScale(scale),
                new BigDecimal(BigInteger.valueOf(-1), scale), new BigDecimal(BigInteger.valueOf(-128), scale),
                new BigDecimal(BigInteger.valueOf(128), scale), most, most.negate());
    }

    private static Kind<BigDecimal> connectDecimal(int precision, int scale) {
        return new Kind<>("decimal-" + precision + "-" + scale, () -> Decimal.builder(scale), value -> value,
                KafkaConnect::decimal, random -> anyDecimal(random, precision, scale), decimals(precision, scale));
    }

    /** A column DECIMAL(12, 2) in one of the three modes of `decimal.handling.mode`. */
    private static Kind<SpecialValueDecimal> handled(DecimalMode mode) {
        List<SpecialValueDecimal> values = new ArrayList<>();
        decimals(12, 2).forEach(each -> values.add(new SpecialValueDecimal(each)));
        if (mode != DecimalMode.PRECISE) {
            values.add(SpecialValueDecimal.NOT_A_NUMBER);
            values.add(SpecialValueDecimal.POSITIVE_INF);
            values.add(SpecialValueDecimal.NEGATIVE_INF);
        }
        // Twelve digits are exact in a double's shortest decimal notation.
        return new Kind<>("debezium-decimal-" + mode.name().toLowerCase(), () -> SpecialValueDecimal.builder(mode, 12, 2),
                value -> SpecialValueDecimal.fromLogical(value, mode, "v"), KafkaConnect::special,
                random -> new SpecialValueDecimal(anyDecimal(random, 12, 2)), values);
    }

    private static List<Kind<?>> numbers() {
        List<SpecialValueDecimal> variable = new ArrayList<>();
        for (String each : List.of("1.50", "0", "-0.001", "12345678901234567890.123456789", "1E+3", "-99")) {
            variable.add(new SpecialValueDecimal(new BigDecimal(each)));
        }
        return List.of(connectDecimal(12, 2), connectDecimal(9, 0), connectDecimal(38, 10), connectDecimal(38, 38),
                connectDecimal(5, -2), handled(DecimalMode.PRECISE), handled(DecimalMode.DOUBLE),
                handled(DecimalMode.STRING),
                new Kind<>("variable-scale-decimal", VariableScaleDecimal::builder,
                        value -> VariableScaleDecimal.fromLogical(VariableScaleDecimal.schema(), value),
                        KafkaConnect::special,
                        random -> new SpecialValueDecimal(anyDecimal(random, 30, random.nextInt(12))), variable));
    }

    // --------------------------------------------------------------------------------------------------- times

    private static final LocalDate EPOCH = LocalDate.EPOCH;
    private static final List<LocalDate> DATES = List.of(LocalDate.of(2024, 1, 31), EPOCH, LocalDate.of(1969, 12, 31),
            LocalDate.of(1582, 10, 4), LocalDate.of(1, 1, 1), LocalDate.of(9999, 12, 31), LocalDate.of(0, 12, 31),
            LocalDate.of(10000, 1, 1));
    private static final List<LocalDateTime> EARLY = List.of(LocalDateTime.of(2024, 1, 31, 13, 14, 15, 123_000_000),
            LocalDateTime.of(2024, 1, 31, 0, 0), EPOCH.atStartOfDay(), LocalDateTime.of(1969, 12, 31, 23, 59, 59, 1_000_000),
            LocalDateTime.of(1700, 2, 28, 1, 2, 3));
    private static final List<LocalDateTime> FAR = List.of(LocalDateTime.of(1, 1, 1, 0, 0),
            LocalDateTime.of(9999, 12, 31, 23, 59, 59, 999_000_000), LocalDateTime.of(0, 12, 31, 23, 59, 59),
            LocalDateTime.of(10000, 1, 1, 0, 0));
    private static final List<LocalDateTime> ENDLESS = List.of(PostgresValueConverter.POSITIVE_INFINITY_LOCAL_DATE_TIME,
            PostgresValueConverter.NEGATIVE_INFINITY_LOCAL_DATE_TIME);
    private static final List<LocalTime> TIMES = List.of(LocalTime.of(13, 14, 15, 123_000_000), LocalTime.MIDNIGHT,
            LocalTime.of(0, 0, 0, 1_000_000), LocalTime.of(23, 59, 59, 999_000_000));

    @SafeVarargs
    private static <T> List<T> joined(List<? extends T>... lists) {
        List<T> all = new ArrayList<>();
        Arrays.stream(lists).forEach(all::addAll);
        return all;
    }

    private static LocalDate anyDate(Random random) {
        return LocalDate.ofEpochDay(random.nextInt(3_652_059) - 719_162);
    }

    /** A time of day that is whole in units of so many nanoseconds; often at midnight. */
    private static LocalTime anyTime(Random random, long unit) {
        long units = 86_400_000_000_000L / unit;
        return LocalTime.ofNanoOfDay(random.nextInt(4) == 0 ? 0 : Math.floorMod(random.nextLong(), units) * unit);
    }

    private static LocalDateTime anyLocal(Random random, long unit) {
        return anyDate(random).atTime(anyTime(random, unit));
    }

    private static LocalDateTime ofNanos(long nanos) {
        return LocalDateTime.ofEpochSecond(Math.floorDiv(nanos, 1_000_000_000L),
                (int) Math.floorMod(nanos, 1_000_000_000L), ZoneOffset.UTC);
    }

    private static LocalDateTime ofMicros(long micros) {
        return LocalDateTime.ofEpochSecond(Math.floorDiv(micros, 1_000_000L),
                (int) Math.floorMod(micros, 1_000_000L) * 1000, ZoneOffset.UTC);
    }

    /** Nanoseconds since 1970 as a number of any size: Debezium's own conversion wraps near the ends. */
    private static long nanos(LocalDateTime value) {
        return BigInteger.valueOf(value.toEpochSecond(ZoneOffset.UTC)).multiply(THOUSAND.pow(3))
                .add(BigInteger.valueOf(value.getNano())).longValueExact();
    }

    private static java.util.Date javaDate(LocalDateTime value) {
        return java.util.Date.from(value.toInstant(ZoneOffset.UTC));
    }

    private static List<Kind<?>> connectTimes() {
        return List.of(
                new Kind<LocalDate>("connect-date", org.apache.kafka.connect.data.Date::builder,
                        value -> javaDate(value.atStartOfDay()), KafkaConnect::date, KafkaConnect::anyDate, DATES),
                new Kind<LocalTime>("connect-time", org.apache.kafka.connect.data.Time::builder,
                        value -> javaDate(value.atDate(EPOCH)), KafkaConnect::time, random -> anyTime(random, 1_000_000),
                        TIMES),
                new Kind<LocalDateTime>("connect-timestamp", org.apache.kafka.connect.data.Timestamp::builder,
                        KafkaConnect::javaDate, KafkaConnect::local, random -> anyLocal(random, 1_000_000), joined(EARLY, FAR)));
    }

    private static List<Kind<?>> debeziumTimes() {
        List<LocalDateTime> micros = joined(EARLY, FAR, ENDLESS,
                List.of(LocalDateTime.of(1969, 12, 31, 23, 59, 59, 999_999_000), ofMicros(Long.MIN_VALUE),
                        ofMicros(Long.MAX_VALUE)));
        List<LocalDateTime> nanos = joined(EARLY, List.of(LocalDateTime.of(1969, 12, 31, 23, 59, 59, 999_999_999),
                LocalDateTime.of(2024, 1, 31, 13, 14, 15, 123_456_789), ofNanos(Long.MIN_VALUE),
                ofNanos(Long.MAX_VALUE)));
        List<LocalTime> fine = joined(TIMES, List.of(LocalTime.of(1, 2, 3, 4_000)));
        return List.of(
                new Kind<LocalDate>("date", io.debezium.time.Date::builder,
                        value -> io.debezium.time.Date.toEpochDay(value, null), KafkaConnect::date, KafkaConnect::anyDate,
                        joined(DATES, List.of(PostgresValueConverter.POSITIVE_INFINITY_LOCAL_DATE,
                                PostgresValueConverter.NEGATIVE_INFINITY_LOCAL_DATE))),
                new Kind<LocalTime>("time", io.debezium.time.Time::builder,
                        value -> io.debezium.time.Time.toMilliOfDay(value, true), KafkaConnect::time,
                        random -> anyTime(random, 1_000_000), TIMES),
                new Kind<LocalTime>("micro-time", MicroTime::builder, value -> MicroTime.toMicroOfDay(value, true),
                        KafkaConnect::time, random -> anyTime(random, 1000), fine),
                new Kind<LocalTime>("nano-time", NanoTime::builder, value -> NanoTime.toNanoOfDay(value, true),
                        KafkaConnect::time, random -> anyTime(random, 1),
                        joined(fine, List.of(LocalTime.of(23, 59, 59, 999_999_999)))),
                new Kind<LocalDateTime>("timestamp", io.debezium.time.Timestamp::builder,
                        value -> io.debezium.time.Timestamp.toEpochMillis(value, null), KafkaConnect::local,
                        random -> anyLocal(random, 1_000_000), joined(EARLY, FAR, ENDLESS)),
                new Kind<LocalDateTime>("micro-timestamp", MicroTimestamp::builder,
                        value -> MicroTimestamp.toEpochMicros(value, null), KafkaConnect::local,
                        random -> anyLocal(random, 1000), micros),
                new Kind<LocalDateTime>("nano-timestamp", NanoTimestamp::builder, KafkaConnect::nanos, KafkaConnect::local,
                        random -> ofNanos(random.nextLong()), nanos),
                new Kind<Integer>("year", Year::builder, value -> value, value -> meaning("year", value),
                        random -> random.nextInt(10000), List.of(2024, 1970, 0, 1901, 2155)));
    }

    private static List<Kind<?>> isoTimes() {
        return List.of(
                new Kind<LocalDate>("iso-date", IsoDate::builder, value -> IsoDate.toIsoString(value, null),
                        KafkaConnect::date, KafkaConnect::anyDate, DATES),
                new Kind<LocalTime>("iso-time", IsoTime::builder, value -> IsoTime.toIsoString(value, false),
                        KafkaConnect::time, random -> anyTime(random, 1000), TIMES),
                new Kind<LocalDateTime>("iso-timestamp", IsoTimestamp::builder,
                        value -> IsoTimestamp.toIsoString(value, null), KafkaConnect::local,
                        random -> anyLocal(random, 1000), joined(EARLY, FAR)),
                new Kind<OffsetDateTime>("zoned-timestamp", ZonedTimestamp::builder,
                        value -> ZonedTimestamp.toIsoString(value, null),
                        value -> meaning("instant", value.toInstant().toString()),
                        random -> anyLocal(random, 1000).atOffset(anyOffset(random)),
                        List.of(OffsetDateTime.parse("2024-01-31T13:14:15.123456Z"),
                                OffsetDateTime.parse("2024-01-31T13:14:15+05:30"),
                                OffsetDateTime.parse("2024-01-31T13:14:15.100-11:00"),
                                OffsetDateTime.parse("1970-01-01T00:00:00Z"),
                                OffsetDateTime.parse("1969-12-31T23:59:59.999999Z"),
                                OffsetDateTime.parse("0001-01-02T00:00:00Z"),
                                OffsetDateTime.parse("9999-12-30T23:59:59Z"))),
                new Kind<String>("zoned-timestamp-endless", ZonedTimestamp::builder, value -> value,
                        value -> meaning("infinity", value), random -> "infinity",
                        List.of(PostgresValueConverter.POSITIVE_INFINITY_TIMESTAMP_PG_STRING,
                                PostgresValueConverter.NEGATIVE_INFINITY_TIMESTAMP_PG_STRING)),
                new Kind<OffsetTime>("zoned-time", ZonedTime::builder, value -> ZonedTime.toIsoString(value, null),
                        value -> meaning("zoned-time", value.toString()),
                        random -> anyTime(random, 1000).atOffset(anyOffset(random)),
                        List.of(OffsetTime.parse("13:14:15.123456Z"), OffsetTime.parse("00:00:00Z"),
                                OffsetTime.parse("23:59:59+05:30"))));
    }

    private static ZoneOffset anyOffset(Random random) {
        return ZoneOffset.ofTotalSeconds((random.nextInt(73) - 36) * 900);
    }

    private static List<Kind<?>> durations() {
        return List.of(
                new Kind<Long>("micro-duration", MicroDuration::builder, value -> value,
                        value -> meaning("duration", BigInteger.valueOf(value).multiply(THOUSAND).toString()),
                        KafkaConnect::anyLong, List.of(1_500_000L, 0L, -1L,
                                MicroDuration.durationMicros(1, 2, 3, 4, 5, 6.5, MicroDuration.DAYS_PER_MONTH_AVG),
                                Long.MIN_VALUE, Long.MAX_VALUE)),
                new Kind<Long>("nano-duration", NanoDuration::builder, value -> value,
                        value -> meaning("duration", value.toString()), KafkaConnect::anyLong,
                        List.of(1_500_000_000L, 0L, -1L, NanoDuration.durationNanos(0, 0, 3, 4, 5, 6L),
                                Long.MIN_VALUE, Long.MAX_VALUE)),
                new Kind<Months>("interval", Interval::builder,
                        value -> Interval.toIsoString(value.years, value.months, value.days, value.hours,
                                value.minutes, value.seconds),
                        value -> members("years", whole(value.years), "months", whole(value.months),
                                "days", whole(value.days), "hours", whole(value.hours),
                                "minutes", whole(value.minutes), "seconds", decimal(value.seconds)),
                        random -> new Months(random.nextInt(100), random.nextInt(12), random.nextInt(31),
                                random.nextInt(24), random.nextInt(60), anyDecimal(random, 8, 6)),
                        List.of(new Months(1, 2, 3, 4, 5, new BigDecimal("6.78")),
                                new Months(0, 0, 0, 0, 0, BigDecimal.ZERO),
                                new Months(-1, -2, -3, -4, -5, new BigDecimal("-6.000001")))));
    }

    // ----------------------------------------------------------------------------------------- other data types

    private static Kind<String> words(String name, Supplier<SchemaBuilder> schema, String... values) {
        return new Kind<>(name, schema, value -> value, KafkaConnect::text, random -> values[random.nextInt(values.length)],
                List.of(values));
    }

    /** Bits of a column BIT(length); they mean their digits, the most significant first. */
    private static Kind<BitSet> bits(int length) {
        Function<BitSet, JsonNode> digits = value -> {
            StringBuilder all = new StringBuilder();
            for (int i = length - 1; i >= 0; i--) {
                all.append(value.get(i) ? '1' : '0');
            }
            return meaning("bits", all.toString());
        };
        BitSet full = new BitSet();
        full.set(0, length);
        BitSet ends = new BitSet();
        ends.set(0);
        ends.set(length - 1);
        BitSet last = new BitSet();
        last.set(length - 1);
        return new Kind<>("bits-" + length, () -> Bits.builder(length),
                value -> Bits.fromBitSet(Bits.schema(length), value), digits,
                random -> BitSet.valueOf(new BigInteger(length, random).toByteArray()).get(0, length),
                List.of(ends, new BitSet(), full, last));
    }

    private static List<Kind<?>> texts() {
        String empty = "00000000-0000-0000-0000-000000000000";
        return List.of(words("enum", () -> io.debezium.data.Enum.builder(List.of("small", "large", "")), "small", ""),
                words("enum-set", () -> io.debezium.data.EnumSet.builder(List.of("a", "b", "c")), "a,c", "", "b"),
                words("json", Json::builder, "{\"a\": [1, 2.50, null]}", "null", "\"text\"", "[]", "1e400"),
                words("xml", Xml::builder, "<a b=\"c\">d</a>", ""),
                words("uuid", Uuid::builder, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", empty),
                words("tsvector", TsVector::builder, "'a':1 'fat':2,4", ""),
                words("ltree", Ltree::builder, "Top.Science.Astronomy", ""));
    }

    private static byte[] wellKnownPoint(Position at) {
        return ByteBuffer.allocate(21).order(ByteOrder.LITTLE_ENDIAN).put((byte) 1).putInt(1).putDouble(at.x)
                .putDouble(at.y).array();
    }

    private static Kind<Shape> shape(String name, Supplier<SchemaBuilder> schema) {
        return new Kind<>(name, schema,
                value -> Geometry.createValue(schema.get().build(), value.wkb, value.srid),
                value -> members("wkb", bytes(value.wkb), "srid", value.srid == null ? nothing() : whole(value.srid)),
                random -> new Shape(anyBytes(random), random.nextBoolean() ? null : random.nextInt(10_000)),
                List.of(new Shape(wellKnownPoint(new Position(1.5, -2)), 4326), new Shape(new byte[0], null)));
    }

    private static List<Kind<?>> shapes() {
        return List.of(
                new Kind<Position>("point", Point::builder,
                        value -> Point.createValue(Point.builder().build(), value.x, value.y),
                        value -> members("x", floating(value.x), "y", floating(value.y), "wkb",
                                bytes(wellKnownPoint(value)), "srid", nothing()),
                        random -> new Position(random.nextGaussian(), random.nextGaussian()),
                        List.of(new Position(1.5, -2), new Position(0, 0))),
                shape("geometry", Geometry::builder), shape("geography", Geography::builder),
                new Kind<List<Double>>("double-vector", DoubleVector::builder,
                        value -> DoubleVector.fromLogical(DoubleVector.schema(), value.toString()),
                        value -> list(value.stream().map(KafkaConnect::floating).toList()),
                        random -> List.of(random.nextGaussian(), random.nextGaussian()),
                        List.of(List.of(1.5, -0.1), List.of(0.0))),
                new Kind<List<Float>>("float-vector", FloatVector::builder,
                        value -> FloatVector.fromLogical(FloatVector.schema(), value.toString()),
                        value -> list(value.stream().map(KafkaConnect::floating).toList()),
                        random -> List.of((float) random.nextGaussian(), (float) random.nextGaussian()),
                        List.of(List.of(1.5f, -0.1f), List.of(0f))),
                new Kind<List<Entry>>("sparse-double-vector", SparseDoubleVector::builder,
                        value -> {
                            List<String> entries = value.stream().map(it -> it.key + ":" + it.value).toList();
                            String literal = "{" + String.join(",", entries) + "}/25";
                            return SparseDoubleVector.fromLogical(SparseDoubleVector.schema(), literal);
                        },
                        value -> members("dimensions", whole(25), "vector", pairs(value, KafkaConnect::whole,
                                it -> floating((Number) it))),
                        random -> List.of(new Entry((short) (1 + random.nextInt(25)), random.nextGaussian())),
                        List.of(List.of(new Entry((short) 1, 0.5), new Entry((short) 20, -2.0)),
                                List.of(new Entry((short) 3, 1.0)))));
    }

    // ------------------------------------------------------------------------------------------- nested schemas

    private static JsonNode pairs(List<Entry> entries, Function<Object, JsonNode> keys,
            Function<Object, JsonNode> values) {
        ArrayNode pairs = JSON.createArrayNode();
        for (Entry each : entries) {
            pairs.addArray().add(keys.apply(each.key)).add(values.apply(each.value));
        }
        return meaning("map", pairs);
    }

    /** A kind's schema, optional; those of geometries are so already, and Connect takes that once. */
    private static SchemaBuilder optionalBuilder(Kind<?> kind) {
        SchemaBuilder builder = kind.schema.get();
        return builder.isOptional() ? builder : builder.optional();
    }

    private static Schema optional(Kind<?> kind) {
        return optionalBuilder(kind).build();
    }

    private static Object nullable(Object value, Function<Object, ?> otherwise) {
        return value == null ? null : otherwise.apply(value);
    }

    private static JsonNode meansOrNull(Kind<?> kind, Object value) {
        return value == null ? nothing() : kind.means(value);
    }

    private static <T> Kind<List<T>> array(Kind<T> of) {
        Function<Random, List<T>> draw = random -> {
            List<T> drawn = new ArrayList<>();
            for (int i = random.nextInt(4); i > 0; i--) {
                drawn.add(random.nextInt(4) == 0 ? null : of.draw.apply(random));
            }
            return drawn;
        };
        List<T> all = new ArrayList<>(of.values);
        all.add(null);
        return new Kind<>("array of " + of.name, () -> SchemaBuilder.array(optional(of)),
                value -> value.stream().map(each -> nullable(each, of::encoded)).toList(),
                value -> list(value.stream().map(each -> meansOrNull(of, each)).toList()), draw,
                List.of(all, List.of()));
    }

    private static Kind<List<Entry>> map(Kind<?> keys, Kind<?> values) {
        Function<List<Entry>, Object> encode = entries -> {
            Map<Object, Object> encoded = new LinkedHashMap<>();
            entries.forEach(it -> encoded.put(keys.encoded(it.key), nullable(it.value, values::encoded)));
            return encoded;
        };
        Function<Random, List<Entry>> draw = random -> {
            Map<Object, Entry> byKey = new LinkedHashMap<>();
            for (int i = random.nextInt(4); i > 0; i--) {
                Object key = keys.draw.apply(random);
                Object value = random.nextInt(4) == 0 ? null : values.draw.apply(random);
                byKey.put(keys.means(key), new Entry(key, value));
            }
            return new ArrayList<>(byKey.values());
        };
        List<Entry> all = new ArrayList<>();
        for (int i = 0; i < keys.values.size(); i++) {
            Object value = i == 1 ? null : values.values.get(i % values.values.size());
            all.add(new Entry(keys.values.get(i), value));
        }
        return new Kind<>("map of " + keys.name + " to " + values.name,
                () -> SchemaBuilder.map(keys.schema.get().build(), optional(values)), encode,
                entries -> pairs(entries, keys::means, it -> meansOrNull(values, it)), draw, List.of(all, List.of()));
    }

    private static Kind<List<Object>> struct(List<Kind<?>> of) {
        Supplier<SchemaBuilder> schema = () -> {
            SchemaBuilder builder = SchemaBuilder.struct().name("oracle.Nested");
            for (int i = 0; i < of.size(); i++) {
                builder.field("f" + i, optional(of.get(i)));
            }
            return builder;
        };
        Function<List<Object>, Object> encode = values -> {
            Struct encoded = new Struct(schema.get().build());
            for (int i = 0; i < of.size(); i++) {
                encoded.put("f" + i, retyped(encoded.schema().field("f" + i).schema(),
                        nullable(values.get(i), of.get(i)::encoded)));
            }
            return encoded;
        };
        Function<List<Object>, JsonNode> meaning = values -> {
            Object[] members = new Object[2 * of.size()];
            for (int i = 0; i < of.size(); i++) {
                members[2 * i] = "f" + i;
                members[2 * i + 1] = meansOrNull(of.get(i), values.get(i));
            }
            return members(members);
        };
        Function<Random, List<Object>> draw = random -> {
            List<Object> drawn = new ArrayList<>();
            of.forEach(each -> drawn.add(random.nextInt(4) == 0 ? null : each.draw.apply(random)));
            return drawn;
        };
        List<Object> nulls = Arrays.asList(new Object[of.size()]);
        List<Object> first = new ArrayList<>();
        of.forEach(each -> first.add(each.values.get(0)));
        String names = String.join(", ", of.stream().map(Kind::name).toList());
        return new Kind<>("struct of " + names, schema, encode, meaning, draw, List.of(first, nulls));
    }

    /**
     * The value with its structs under another schema of the same fields.
     *
     * A Struct holds its schema, and Connect takes one only where exactly that schema, optional or with its default,
     * is expected.
     */
    private static Object retyped(Schema schema, Object value) {
        if (value instanceof Struct struct) {
            Struct other = new Struct(schema);
            for (Field field : schema.fields()) {
                other.put(field, retyped(field.schema(), struct.getWithoutDefault(field.name())));
            }
            return other;
        }
        if (value instanceof List<?> elements) {
            List<Object> others = new ArrayList<>();
            elements.forEach(each -> others.add(retyped(schema.valueSchema(), each)));
            return others;
        }
        if (value instanceof Map<?, ?> entries) {
            Map<Object, Object> others = new LinkedHashMap<>();
            entries.forEach((key, each) -> others.put(retyped(schema.keySchema(), key),
                    retyped(schema.valueSchema(), each)));
            return others;
        }
        return value;
    }

    // --------------------------------------------------------------------------------------------- all the kinds

    private static List<Kind<?>> scalars() {
        List<Kind<?>> all = joined(primitives(), numbers(), connectTimes(), debeziumTimes(), isoTimes(), durations(),
                List.of(bits(2), bits(8), bits(12), bits(64)), texts(), shapes());
        for (BinaryHandlingMode mode : BinaryHandlingMode.values()) {
            all.add(binary(mode));
        }
        return all;
    }

    private static Kind<?> named(List<Kind<?>> kinds, String name) {
        return kinds.stream().filter(each -> each.name.equals(name)).findFirst().orElseThrow();
    }

    private static List<Kind<?>> allKinds() {
        List<Kind<?>> scalars = scalars();
        List<Kind<?>> all = new ArrayList<>(scalars);
        Kind<?> number = named(scalars, "int64");
        for (Kind<?> each : scalars) {
            all.add(array(each));
            all.add(map(named(scalars, "string"), each));
        }
        // A double that is no number is not equal to itself in a map of Java; arrays of bytes have no equality there.
        for (Kind<?> each : primitives()) {
            if (!List.of("string", "bytes", "float-not-finite").contains(each.name)) {
                all.add(map(each, number));
            }
        }
        all.add(map(named(scalars, "date"), number));
        all.add(map(named(scalars, "connect-timestamp"), number));
        all.add(map(named(scalars, "decimal-12-2"), number));
        Kind<?> nested = struct(List.of(number, named(scalars, "micro-timestamp"), named(scalars, "decimal-12-2"),
                named(scalars, "bytes"), array(named(scalars, "date"))));
        all.add(nested);
        all.add(array(nested));
        all.add(struct(List.of(nested, map(named(scalars, "int32"), nested))));
        return all;
    }

    /** A kind of any shape, for tests of generated schemas. */
    private static Kind<?> anyKind(Random random, List<Kind<?>> scalars, int depth) {
        int choice = depth == 0 ? 3 : random.nextInt(6);
        Kind<?> scalar = scalars.get(random.nextInt(scalars.size()));
        if (choice == 0) {
            return array(anyKind(random, scalars, depth - 1));
        }
        if (choice == 1) {
            List<String> keys = List.of("boolean", "int8", "int16", "int32", "int64", "string", "date");
            Kind<?> key = named(scalars, keys.get(random.nextInt(keys.size())));
            return map(key, anyKind(random, scalars, depth - 1));
        }
        if (choice == 2) {
            return struct(List.of(anyKind(random, scalars, depth - 1), anyKind(random, scalars, depth - 1)));
        }
        return scalar;
    }

    private static long anyLong(Random random) {
        return random.nextLong() >> random.nextInt(64);
    }

    private static String anyText(Random random) {
        return random.ints(random.nextInt(8), 1, 0x3000).collect(StringBuilder::new, StringBuilder::appendCodePoint,
                StringBuilder::append).toString();
    }

    private static byte[] anyBytes(Random random) {
        byte[] drawn = new byte[random.nextInt(10)];
        random.nextBytes(drawn);
        return drawn;
    }

    // --------------------------------------------------------------------------------------------------- events

    private final JsonNode request;
    private final JsonConverter converter = new JsonConverter();
    private final boolean schemas;
    private final ArrayNode cases = JSON.createArrayNode();
    private int id;

    private KafkaConnect(JsonNode request) {
        this.request = request;
        this.schemas = request.path("schemas").asBoolean(true);
        converter.configure(Map.of("converter.type", "value", "schemas.enable", schemas, "decimal.format",
                request.path("decimal").asText("BASE64"), "replace.null.with.default",
                request.path("defaults").asBoolean(true)));
    }

    /** A row (id, v) as Debezium's envelope around it: what an INSERT wrote. */
    private void add(Kind<?> kind, String presence, Schema schema, Object value, JsonNode meaning) {
        id += 1;
        Schema row = SchemaBuilder.struct().name("oracle.Value").optional().field("id", Schema.INT32_SCHEMA)
                .field("v", schema).build();
        Struct source = source();
        Envelope envelope = Envelope.defineSchema().withName("oracle.Envelope").withRecord(row)
                .withSource(source.schema()).build();
        Struct after = new Struct(row).put("id", id).put("v", retyped(schema, value));
        Struct event = envelope.create(after, source, Instant.ofEpochMilli(1_700_000_000_000L + id));
        byte[] written = converter.fromConnectData("oracle", event.schema(), event);
        ObjectNode added = cases.addObject();
        added.put("name", kind.name).put("presence", presence).put("id", id);
        added.put("semantic", schema.name()).put("kind", schema.type().getName());
        added.put("event", new String(written, StandardCharsets.UTF_8));
        added.set("meaning", meaning);
        if (schemas) {
            added.put("readBack", readBack(written, event));
        }
    }

    /** Whether Connect's converter reads what it wrote; a null that has a default comes back as that default. */
    private boolean readBack(byte[] written, Struct event) {
        SchemaAndValue read = converter.toConnectData("oracle", written);
        return converter.asJsonSchema(read.schema()).equals(converter.asJsonSchema(event.schema()))
                && same(read.value(), event);
    }

    private Struct source() {
        String connector = request.path("connector").asText("postgresql");
        Map<String, Object> members = new LinkedHashMap<>();
        members.put("version", "3.6.1.Final");
        members.put("connector", connector);
        members.put("name", "oracle");
        members.put("ts_ms", 1_700_000_000_000L + id);
        members.put("snapshot", "false");
        members.put("db", "oracle");
        members.put("schema", "public");
        members.put("table", "t");
        switch (connector) {
            case "postgresql" -> members.put("lsn", 1000L + id);
            case "mysql", "mariadb" -> {
                members.put("file", "binlog.000001");
                members.put("pos", 1000L + id);
                members.put("row", 0);
            }
            case "sqlserver" -> {
                members.put("change_lsn", String.format("00000027:00000ac0:%04x", id));
                members.put("commit_lsn", String.format("00000027:00000ac0:%04x", id));
                members.put("event_serial_no", 1L);
            }
            case "oracle" -> members.put("scn", String.valueOf(1000 + id));
            default -> throw new IllegalArgumentException(connector);
        }
        SchemaBuilder schema = SchemaBuilder.struct().name("oracle.Source");
        members.forEach((name, value) -> schema.field(name, value instanceof Long ? Schema.INT64_SCHEMA
                : value instanceof Integer ? Schema.INT32_SCHEMA : Schema.STRING_SCHEMA));
        Struct source = new Struct(schema.build());
        members.forEach(source::put);
        return source;
    }

    /** All values of a kind: required, optional, null, with a default, and null where there is a default. */
    private void addAll(Kind<?> kind) {
        Object first = kind.values.get(0);
        for (Object value : kind.values) {
            add(kind, "required", kind.schema.get().build(), kind.encoded(value), kind.means(value));
        }
        add(kind, "optional", optional(kind), kind.encoded(first), kind.means(first));
        add(kind, "null", optional(kind), null, nothing());
        Schema plain = kind.schema.get().build();
        if (plain.type() == Schema.Type.STRUCT) {
            return;
        }
        Object last = kind.values.get(kind.values.size() - 1);
        Schema preset = optionalBuilder(kind).defaultValue(retyped(plain, kind.encoded(first))).build();
        add(kind, "default", preset, kind.encoded(last), kind.means(last));
        boolean replaced = request.path("defaults").asBoolean(true);
        add(kind, "null-with-default", preset, null, replaced ? kind.means(first) : nothing());
    }

    private void addGenerated() {
        Random random = new Random(request.get("seed").asLong());
        List<Kind<?>> scalars = scalars();
        int count = request.get("count").asInt();
        while (cases.size() < count) {
            Kind<?> kind = anyKind(random, scalars, GENERATED_DEPTH);
            for (int i = 0; i < 4 && cases.size() < count; i++) {
                Object value = random.nextInt(8) == 0 ? null : kind.draw.apply(random);
                add(kind, "optional", optional(kind), nullable(value, kind::encoded), meansOrNull(kind, value));
            }
        }
    }

    private static boolean same(Object one, Object other) {
        if (one instanceof Struct left && other instanceof Struct right) {
            return left.schema().fields().stream()
                    .allMatch(field -> same(left.get(field.name()), right.get(field.name())));
        }
        if (one instanceof List<?> left && other instanceof List<?> right) {
            return pairwise(left, right);
        }
        if (one instanceof Map<?, ?> left && other instanceof Map<?, ?> right) {
            return left.keySet().equals(right.keySet())
                    && left.keySet().stream().allMatch(key -> same(left.get(key), right.get(key)));
        }
        if (binary(one) != null && binary(other) != null) {
            return Arrays.equals(binary(one), binary(other));
        }
        return one == null ? other == null : one.equals(other);
    }

    private static boolean pairwise(List<?> left, List<?> right) {
        for (int i = 0; i < left.size() && i < right.size(); i++) {
            if (!same(left.get(i), right.get(i))) {
                return false;
            }
        }
        return left.size() == right.size();
    }

    private static byte[] binary(Object value) {
        return value instanceof ByteBuffer buffer ? buffer.array() : value instanceof byte[] plain ? plain : null;
    }

    // ------------------------------------------------------------------------------------------------- requests

    /** Names of all semantic types that the packages of a jar publish. */
    private static List<String> published(Class<?> inJar, List<String> packages) throws Exception {
        List<String> names = new ArrayList<>();
        String jar = Path.of(inJar.getProtectionDomain().getCodeSource().getLocation().toURI()).toString();
        try (JarFile file = new JarFile(jar)) {
            for (String entry : file.stream().map(each -> each.getName()).sorted().toList()) {
                String name = entry.replace('/', '.');
                if (!name.endsWith(".class") || packages.stream().noneMatch(name::startsWith)) {
                    continue;
                }
                Class<?> found = Class.forName(name.substring(0, name.length() - ".class".length()));
                for (java.lang.reflect.Field field : found.getDeclaredFields()) {
                    if (List.of("LOGICAL_NAME", "SCHEMA_NAME").contains(field.getName())) {
                        field.setAccessible(true);
                        names.add((String) field.get(null));
                    }
                }
            }
        }
        return names;
    }

    private void run(ObjectNode answer) throws Exception {
        switch (request.get("operation").asText()) {
            case "cases" -> {
                allKinds().forEach(this::addAll);
                answer.set("cases", cases);
            }
            case "generated" -> {
                addGenerated();
                answer.set("cases", cases);
            }
            case "published" -> answer.set("names", JSON.valueToTree(joined(
                    published(Envelope.class, List.of("io.debezium.time.", "io.debezium.data.")),
                    published(Ltree.class, List.of("io.debezium.connector.postgresql.data.")),
                    published(Decimal.class, List.of("org.apache.kafka.connect.data.")))));
            default -> throw new IllegalArgumentException(request.get("operation").asText());
        }
    }

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Whatever a library prints must not mix with the answers.
        System.setOut(System.err);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                new KafkaConnect(JSON.readTree(line)).run(answer);
            } catch (Exception | LinkageError e) {
                e.printStackTrace();
                answer.removeAll();
                answer.put("error", e.toString());
            }
            answers.println(answer);
        }
    }
}

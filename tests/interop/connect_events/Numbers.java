package connect_events;

import static connect_events.Meanings.*;

import com.fasterxml.jackson.databind.JsonNode;
import io.debezium.config.CommonConnectorConfig.BinaryHandlingMode;
import io.debezium.data.SpecialValueDecimal;
import io.debezium.data.VariableScaleDecimal;
import io.debezium.jdbc.JdbcValueConverters;
import io.debezium.jdbc.JdbcValueConverters.BigIntUnsignedMode;
import io.debezium.jdbc.JdbcValueConverters.DecimalMode;
import io.debezium.jdbc.TemporalPrecisionMode;
import io.debezium.relational.Column;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.sql.Types;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.function.Function;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;

/** Columns of numbers, texts and bytes: Connect's own types, decimals and binary columns in all modes. */
final class Numbers {
    static final HexFormat HEX = HexFormat.of();

    private Numbers() {}

    static <T> Kind<T> plain(String name, Schema.Type type, Function<T, JsonNode> meaning,
            Function<Random, T> draw, List<T> values) {
        return new Kind<>(name, () -> new SchemaBuilder(type), value -> value, meaning, draw, values);
    }

    static List<Kind<?>> primitives() {
        return List.of(
                plain("boolean", Schema.Type.BOOLEAN, (Boolean it) -> meaning("boolean", it), Random::nextBoolean,
                        List.of(true, false)),
                plain("int8", Schema.Type.INT8, Meanings::whole, random -> (byte) random.nextInt(),
                        List.of((byte) 7, (byte) 0, (byte) -7, Byte.MIN_VALUE, Byte.MAX_VALUE)),
                plain("int16", Schema.Type.INT16, Meanings::whole, random -> (short) random.nextInt(),
                        List.of((short) 300, (short) 0, (short) -300, Short.MIN_VALUE, Short.MAX_VALUE)),
                plain("int32", Schema.Type.INT32, Meanings::whole, Random::nextInt,
                        List.of(70_000, 0, -70_000, Integer.MIN_VALUE, Integer.MAX_VALUE)),
                plain("int64", Schema.Type.INT64, Meanings::whole, Numbers::anyLong,
                        List.of(5_000_000_000L, 0L, -5_000_000_000L, Long.MIN_VALUE, Long.MAX_VALUE)),
                plain("float32", Schema.Type.FLOAT32, Meanings::floating, random -> (float) random.nextGaussian(),
                        List.of(1.5f, 0f, -0.1f, Float.MIN_VALUE, Float.MAX_VALUE, -Float.MAX_VALUE)),
                plain("float64", Schema.Type.FLOAT64, Meanings::floating, random -> random.nextGaussian() * 1e9,
                        List.of(1.5, 0.0, -0.1, Double.MIN_VALUE, Double.MAX_VALUE, -Double.MAX_VALUE, 1e23)),
                plain("float-not-finite", Schema.Type.FLOAT64, Meanings::floating,
                        random -> random.nextBoolean() ? Double.NaN : Double.NEGATIVE_INFINITY,
                        List.of(Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY)),
                plain("string", Schema.Type.STRING, Meanings::text, Numbers::anyText,
                        List.of("text", "", "Grüße \"\\\n\u0000\ud83d\ude00", "2024-01-31", "AQID", "0102")),
                new Kind<>("bytes", SchemaBuilder::bytes, value -> value, Meanings::bytes, Numbers::anyBytes, BINARY));
    }

    static final List<byte[]> BINARY = List.of(HEX.parseHex("fbff00"), HEX.parseHex(""), HEX.parseHex("0a"),
            HEX.parseHex("fbefbe"), HEX.parseHex("deadbeef00112233"), "text".getBytes(StandardCharsets.UTF_8));

    /** A binary column in one of the four modes of `binary.handling.mode`, converted by Debezium. */
    static Kind<byte[]> binary(BinaryHandlingMode mode) {
        JdbcValueConverters converters = new JdbcValueConverters(DecimalMode.PRECISE, TemporalPrecisionMode.ADAPTIVE,
                ZoneOffset.UTC, null, BigIntUnsignedMode.LONG, mode);
        Column column = Column.editor().name("v").type("VARBINARY").jdbcType(Types.VARBINARY).create();
        Field field = new Field("v", 0, converters.schemaBuilder(column).build());
        return new Kind<>("binary-" + mode.getValue(), () -> converters.schemaBuilder(column),
                value -> converters.converter(column, field).convert(value), Meanings::bytes, Numbers::anyBytes,
                BINARY);
    }

    static BigDecimal anyDecimal(Random random, int precision, int scale) {
        BigInteger limit = BigInteger.TEN.pow(1 + random.nextInt(precision));
        BigInteger digits = new BigInteger(limit.bitLength() + 8, random).mod(limit);
        return new BigDecimal(random.nextBoolean() ? digits : digits.negate(), scale);
    }

    static BigDecimal nines(int precision, int scale) {
        return new BigDecimal(BigInteger.TEN.pow(precision).subtract(BigInteger.ONE), scale);
    }

    static List<BigDecimal> decimals(int precision, int scale) {
        BigDecimal most = nines(precision, scale);
        return List.of(new BigDecimal(BigInteger.valueOf(150), scale), BigDecimal.ZERO.setScale(scale),
                new BigDecimal(BigInteger.valueOf(-1), scale), new BigDecimal(BigInteger.valueOf(-128), scale),
                new BigDecimal(BigInteger.valueOf(128), scale), most, most.negate());
    }

    static Kind<BigDecimal> connectDecimal(int precision, int scale) {
        return new Kind<>("decimal-" + precision + "-" + scale, () -> Decimal.builder(scale), value -> value,
                Meanings::decimal, random -> anyDecimal(random, precision, scale), decimals(precision, scale));
    }

    /** A column DECIMAL(12, 2) in one of the three modes of `decimal.handling.mode`. */
    static Kind<SpecialValueDecimal> handled(DecimalMode mode) {
        List<SpecialValueDecimal> values = new ArrayList<>();
        decimals(12, 2).forEach(each -> values.add(new SpecialValueDecimal(each)));
        if (mode != DecimalMode.PRECISE) {
            values.add(SpecialValueDecimal.NOT_A_NUMBER);
            values.add(SpecialValueDecimal.POSITIVE_INF);
            values.add(SpecialValueDecimal.NEGATIVE_INF);
        }
        // Twelve digits are exact in a double's shortest decimal notation.
        return new Kind<>("debezium-decimal-" + mode.name().toLowerCase(),
                () -> SpecialValueDecimal.builder(mode, 12, 2),
                value -> SpecialValueDecimal.fromLogical(value, mode, "v"), Meanings::special,
                random -> new SpecialValueDecimal(anyDecimal(random, 12, 2)), values);
    }

    static List<Kind<?>> numbers() {
        List<SpecialValueDecimal> variable = new ArrayList<>();
        for (String each : List.of("1.50", "0", "-0.001", "12345678901234567890.123456789", "1E+3", "-99")) {
            variable.add(new SpecialValueDecimal(new BigDecimal(each)));
        }
        return List.of(connectDecimal(12, 2), connectDecimal(9, 0), connectDecimal(38, 10), connectDecimal(38, 38),
                connectDecimal(5, -2), handled(DecimalMode.PRECISE), handled(DecimalMode.DOUBLE),
                handled(DecimalMode.STRING),
                new Kind<>("variable-scale-decimal", VariableScaleDecimal::builder,
                        value -> VariableScaleDecimal.fromLogical(VariableScaleDecimal.schema(), value),
                        Meanings::special,
                        random -> new SpecialValueDecimal(anyDecimal(random, 30, random.nextInt(12))), variable));
    }

    static long anyLong(Random random) {
        return random.nextLong() >> random.nextInt(64);
    }

    static String anyText(Random random) {
        return random.ints(random.nextInt(8), 1, 0x3000).collect(StringBuilder::new, StringBuilder::appendCodePoint,
                StringBuilder::append).toString();
    }

    static byte[] anyBytes(Random random) {
        byte[] drawn = new byte[random.nextInt(10)];
        random.nextBytes(drawn);
        return drawn;
    }
}

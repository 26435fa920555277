package connect_events;

import static connect_events.Meanings.*;

import io.debezium.connector.postgresql.PostgresValueConverter;
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
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.time.OffsetTime;
import java.time.ZoneOffset;
import java.util.List;
import java.util.Random;

/** Columns of dates, times, timestamps and durations, in all precision modes. */
final class Times {
    static final BigInteger THOUSAND = BigInteger.valueOf(1000);

    record Months(int years, int months, int days, int hours, int minutes, BigDecimal seconds) {}

    private Times() {}

    static final LocalDate EPOCH = LocalDate.EPOCH;
    static final List<LocalDate> DATES = List.of(LocalDate.of(2024, 1, 31), EPOCH, LocalDate.of(1969, 12, 31),
            LocalDate.of(1582, 10, 4), LocalDate.of(1, 1, 1), LocalDate.of(9999, 12, 31), LocalDate.of(0, 12, 31),
            LocalDate.of(10000, 1, 1));
    static final List<LocalDateTime> EARLY = List.of(LocalDateTime.of(2024, 1, 31, 13, 14, 15, 123_000_000),
            LocalDateTime.of(2024, 1, 31, 0, 0), EPOCH.atStartOfDay(),
            LocalDateTime.of(1969, 12, 31, 23, 59, 59, 1_000_000),
            LocalDateTime.of(1700, 2, 28, 1, 2, 3));
    static final List<LocalDateTime> FAR = List.of(LocalDateTime.of(1, 1, 1, 0, 0),
            LocalDateTime.of(9999, 12, 31, 23, 59, 59, 999_000_000), LocalDateTime.of(0, 12, 31, 23, 59, 59),
            LocalDateTime.of(10000, 1, 1, 0, 0));
    static final List<LocalDateTime> ENDLESS = List.of(PostgresValueConverter.POSITIVE_INFINITY_LOCAL_DATE_TIME,
            PostgresValueConverter.NEGATIVE_INFINITY_LOCAL_DATE_TIME);
    static final List<LocalTime> TIMES = List.of(LocalTime.of(13, 14, 15, 123_000_000), LocalTime.MIDNIGHT,
            LocalTime.of(0, 0, 0, 1_000_000), LocalTime.of(23, 59, 59, 999_000_000));

    static LocalDate anyDate(Random random) {
        return LocalDate.ofEpochDay(random.nextInt(3_652_059) - 719_162);
    }

    /** A time of day that is whole in units of so many nanoseconds; often at midnight. */
    static LocalTime anyTime(Random random, long unit) {
        long units = 86_400_000_000_000L / unit;
        return LocalTime.ofNanoOfDay(random.nextInt(4) == 0 ? 0 : Math.floorMod(random.nextLong(), units) * unit);
    }

    static LocalDateTime anyLocal(Random random, long unit) {
        return anyDate(random).atTime(anyTime(random, unit));
    }

    static LocalDateTime ofNanos(long nanos) {
        return LocalDateTime.ofEpochSecond(Math.floorDiv(nanos, 1_000_000_000L),
                (int) Math.floorMod(nanos, 1_000_000_000L), ZoneOffset.UTC);
    }

    static LocalDateTime ofMicros(long micros) {
        return LocalDateTime.ofEpochSecond(Math.floorDiv(micros, 1_000_000L),
                (int) Math.floorMod(micros, 1_000_000L) * 1000, ZoneOffset.UTC);
    }

    /** Nanoseconds since 1970 as a number of any size: Debezium's own conversion wraps near the ends. */
    static long nanos(LocalDateTime value) {
        return BigInteger.valueOf(value.toEpochSecond(ZoneOffset.UTC)).multiply(THOUSAND.pow(3))
                .add(BigInteger.valueOf(value.getNano())).longValueExact();
    }

    static java.util.Date javaDate(LocalDateTime value) {
        return java.util.Date.from(value.toInstant(ZoneOffset.UTC));
    }

    static List<Kind<?>> connectTimes() {
        return List.of(
                new Kind<LocalDate>("connect-date", org.apache.kafka.connect.data.Date::builder,
                        value -> javaDate(value.atStartOfDay()), Meanings::date, Times::anyDate, DATES),
                new Kind<LocalTime>("connect-time", org.apache.kafka.connect.data.Time::builder,
                        value -> javaDate(value.atDate(EPOCH)), Meanings::time, random -> anyTime(random, 1_000_000),
                        TIMES),
                new Kind<LocalDateTime>("connect-timestamp", org.apache.kafka.connect.data.Timestamp::builder,
                        Times::javaDate, Meanings::local, random -> anyLocal(random, 1_000_000),
                        Kinds.joined(EARLY, FAR)));
    }

    static List<Kind<?>> debeziumTimes() {
        List<LocalDateTime> micros = Kinds.joined(EARLY, FAR, ENDLESS,
                List.of(LocalDateTime.of(1969, 12, 31, 23, 59, 59, 999_999_000), ofMicros(Long.MIN_VALUE),
                        ofMicros(Long.MAX_VALUE)));
        List<LocalDateTime> nanos = Kinds.joined(EARLY, List.of(LocalDateTime.of(1969, 12, 31, 23, 59, 59, 999_999_999),
                LocalDateTime.of(2024, 1, 31, 13, 14, 15, 123_456_789), ofNanos(Long.MIN_VALUE),
                ofNanos(Long.MAX_VALUE)));
        List<LocalTime> fine = Kinds.joined(TIMES, List.of(LocalTime.of(1, 2, 3, 4_000)));
        return List.of(
                new Kind<LocalDate>("date", io.debezium.time.Date::builder,
                        value -> io.debezium.time.Date.toEpochDay(value, null), Meanings::date, Times::anyDate,
                        Kinds.joined(DATES, List.of(PostgresValueConverter.POSITIVE_INFINITY_LOCAL_DATE,
                                PostgresValueConverter.NEGATIVE_INFINITY_LOCAL_DATE))),
                new Kind<LocalTime>("time", io.debezium.time.Time::builder,
                        value -> io.debezium.time.Time.toMilliOfDay(value, true), Meanings::time,
                        random -> anyTime(random, 1_000_000), TIMES),
                new Kind<LocalTime>("micro-time", MicroTime::builder, value -> MicroTime.toMicroOfDay(value, true),
                        Meanings::time, random -> anyTime(random, 1000), fine),
                new Kind<LocalTime>("nano-time", NanoTime::builder, value -> NanoTime.toNanoOfDay(value, true),
                        Meanings::time, random -> anyTime(random, 1),
                        Kinds.joined(fine, List.of(LocalTime.of(23, 59, 59, 999_999_999)))),
                new Kind<LocalDateTime>("timestamp", io.debezium.time.Timestamp::builder,
                        value -> io.debezium.time.Timestamp.toEpochMillis(value, null), Meanings::local,
                        random -> anyLocal(random, 1_000_000), Kinds.joined(EARLY, FAR, ENDLESS)),
                new Kind<LocalDateTime>("micro-timestamp", MicroTimestamp::builder,
                        value -> MicroTimestamp.toEpochMicros(value, null), Meanings::local,
                        random -> anyLocal(random, 1000), micros),
                new Kind<LocalDateTime>("nano-timestamp", NanoTimestamp::builder, Times::nanos, Meanings::local,
                        random -> ofNanos(random.nextLong()), nanos),
                new Kind<Integer>("year", Year::builder, value -> value, value -> meaning("year", value),
                        random -> random.nextInt(10000), List.of(2024, 1970, 0, 1901, 2155)));
    }

    static List<Kind<?>> isoTimes() {
        return List.of(
                new Kind<LocalDate>("iso-date", IsoDate::builder, value -> IsoDate.toIsoString(value, null),
                        Meanings::date, Times::anyDate, DATES),
                new Kind<LocalTime>("iso-time", IsoTime::builder, value -> IsoTime.toIsoString(value, false),
                        Meanings::time, random -> anyTime(random, 1000), TIMES),
                new Kind<LocalDateTime>("iso-timestamp", IsoTimestamp::builder,
                        value -> IsoTimestamp.toIsoString(value, null), Meanings::local,
                        random -> anyLocal(random, 1000), Kinds.joined(EARLY, FAR)),
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

    static ZoneOffset anyOffset(Random random) {
        return ZoneOffset.ofTotalSeconds((random.nextInt(73) - 36) * 900);
    }

    static List<Kind<?>> durations() {
        return List.of(
                new Kind<Long>("micro-duration", MicroDuration::builder, value -> value,
                        value -> meaning("duration", BigInteger.valueOf(value).multiply(THOUSAND).toString()),
                        Numbers::anyLong, List.of(1_500_000L, 0L, -1L,
                                MicroDuration.durationMicros(1, 2, 3, 4, 5, 6.5, MicroDuration.DAYS_PER_MONTH_AVG),
                                Long.MIN_VALUE, Long.MAX_VALUE)),
                new Kind<Long>("nano-duration", NanoDuration::builder, value -> value,
                        value -> meaning("duration", value.toString()), Numbers::anyLong,
                        List.of(1_500_000_000L, 0L, -1L, NanoDuration.durationNanos(0, 0, 3, 4, 5, 6L),
                                Long.MIN_VALUE, Long.MAX_VALUE)),
                new Kind<Months>("interval", Interval::builder,
                        value -> Interval.toIsoString(value.years, value.months, value.days, value.hours,
                                value.minutes, value.seconds),
                        value -> members("years", whole(value.years), "months", whole(value.months),
                                "days", whole(value.days), "hours", whole(value.hours),
                                "minutes", whole(value.minutes), "seconds", decimal(value.seconds)),
                        random -> new Months(random.nextInt(100), random.nextInt(12), random.nextInt(31),
                                random.nextInt(24), random.nextInt(60), Numbers.anyDecimal(random, 8, 6)),
                        List.of(new Months(1, 2, 3, 4, 5, new BigDecimal("6.78")),
                                new Months(0, 0, 0, 0, 0, BigDecimal.ZERO),
                                new Months(-1, -2, -3, -4, -5, new BigDecimal("-6.000001")))));
    }
}

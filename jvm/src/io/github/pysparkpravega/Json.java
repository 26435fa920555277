package io.github.pysparkpravega;

import com.fasterxml.jackson.annotation.JsonValue;
import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.DeserializationContext;
import com.fasterxml.jackson.databind.JavaType;
import com.fasterxml.jackson.databind.JsonDeserializer;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.PropertyNamingStrategies;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.annotation.JsonDeserialize;
import com.fasterxml.jackson.databind.annotation.JsonSerialize;
import com.fasterxml.jackson.databind.module.SimpleModule;
import com.fasterxml.jackson.databind.ser.std.StdDelegatingSerializer;
import com.fasterxml.jackson.databind.util.StdConverter;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/**
 * The JSON of the pipe, as catalog/protocol/message_codec.py has it: a record is an object, its components spelled in snake
 * case are the keys. Schemas are Spark's JSON texts. Texts by texts are lists of pairs, because users' texts make no
 * good keys: Jackson takes short ones only.
 */
final class Json {
  /** ASCII, because Java's strings may be no Unicode; replies are Python's own, and as long as what they say. */
  private static final ObjectMapper MAPPER = new ObjectMapper(JsonFactory.builder()
      .enable(JsonWriteFeature.ESCAPE_NON_ASCII)
      .streamReadConstraints(StreamReadConstraints.builder().maxStringLength(Integer.MAX_VALUE).build())
      .build());

  static {
    SimpleModule texts = new SimpleModule();
    texts.addSerializer(Map.class, new StdDelegatingSerializer(new Pairs()));
    texts.addDeserializer(DataType.class, reader((in, context) -> DataType.fromJson(in.getText())));
    texts.addDeserializer(StructType.class, reader((in, context) -> (StructType) DataType.fromJson(in.getText())));
    texts.addDeserializer(Map.class, reader((in, context) -> map(context.readValue(in, String[][].class))));
    MAPPER.registerModule(texts).addMixIn(DataType.class, OurTexts.class)
        .setPropertyNamingStrategy(PropertyNamingStrategies.SNAKE_CASE)
        .disable(SerializationFeature.FAIL_ON_EMPTY_BEANS); // a request without arguments
  }

  /** Takes the place of Spark's own annotations, by which a schema is an object. */
  @JsonSerialize
  @JsonDeserialize
  private interface OurTexts {
    @JsonValue
    String json();
  }

  private record Call(String operation, Map<String, String> conf, Request<?> arguments) {}

  private record Answer<R>(@OrNull R result, @OrNull Failure error) {}

  private record Failure(String condition, String sqlState, String message) {}

  /** A call of the service, as it goes through the pipe. */
  static String write(Map<String, String> conf, Request<?> request) {
    try {
      return MAPPER.writeValueAsString(new Call(request.operation(), conf, request));
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e);
    }
  }

  /** The reply to a request, or the error that came in its place. */
  static <R> R read(Request<R> request, String line) {
    Answer<R> answer;
    try {
      JavaType reply = MAPPER.constructType(request.getClass()).findTypeParameters(Request.class)[0];
      answer = MAPPER.readValue(line, MAPPER.getTypeFactory().constructParametricType(Answer.class, reply));
    } catch (IOException e) {
      throw PravegaException.unchecked(new PravegaException("PRAVEGA_INTERNAL_ERROR", "XX000",
          "The catalog service's reply to '" + request.operation() + "' cannot be read: " + e.getMessage(), e));
    }
    Failure error = answer.error();
    if (error != null) {
      throw PravegaException.unchecked(
          new PravegaException(error.condition(), error.sqlState(), error.message(), null));
    }
    return answer.result();
  }

  /** Reads a reply that may be one of several, once its kind is known. */
  static <T> T as(Class<T> kind, JsonNode reply) {
    return MAPPER.convertValue(reply, kind);
  }

  private static final class Pairs extends StdConverter<Map<String, String>, String[][]> {
    @Override
    public String[][] convert(Map<String, String> texts) {
      return texts.entrySet().stream().map(text -> new String[] {text.getKey(), text.getValue()})
          .toArray(String[][]::new);
    }
  }

  private static Map<String, String> map(String[][] pairs) {
    Map<String, String> texts = new HashMap<>();
    for (String[] pair : pairs) {
      texts.put(pair[0], pair[1]);
    }
    return texts;
  }

  private interface Read<T> {
    T read(JsonParser in, DeserializationContext context) throws IOException;
  }

  private static <T> JsonDeserializer<T> reader(Read<T> read) {
    return new JsonDeserializer<>() {
      @Override
      public T deserialize(JsonParser in, DeserializationContext context) throws IOException {
        return read.read(in, context);
      }
    };
  }
}

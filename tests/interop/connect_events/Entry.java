package connect_events;

/** An entry of a map before it is encoded. */
record Entry(Object key, Object value) {}

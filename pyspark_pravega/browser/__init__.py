"""The catalog as web pages, for people who operate a Pravega: read only, without Spark and without JavaScript."""

"""Classes of the adapter, called as Spark does it only in rare moments: between threads, or in other versions."""

from __future__ import annotations

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

PACKAGE = "io.github.pysparkpravega"


def load(spark: SparkSession, name: str) -> Any:
    jvm: Any = spark.sparkContext._jvm
    return jvm.Thread.currentThread().getContextClassLoader().loadClass(f"{PACKAGE}.{name}")


def array(spark: SparkSession, kind: Any, *items: Any) -> Any:
    made = spark.sparkContext._gateway.new_array(kind, len(items))  # type: ignore[union-attr]
    for index, item in enumerate(items):
        made[index] = item
    return made


def test_operations_of_both_managers_of_a_thrift_server(spark: SparkSession) -> None:
    """The server's port is open before its sessions get the other manager."""
    jvm: Any = spark.sparkContext._jvm
    hive = jvm.org.apache.hive.service
    protocol = hive.rpc.thrift.TProtocolVersion.HIVE_CLI_SERVICE_PROTOCOL_V10
    conf = jvm.org.apache.hadoop.hive.conf.HiveConf()
    connection = hive.cli.session.HiveSessionImpl(protocol, "user", "", conf, "127.0.0.1")
    former = jvm.org.apache.spark.sql.hive.thriftserver.server.SparkSQLOperationManager()
    former.sessionToContexts().put(connection.getSessionHandle(), spark._jsparkSession)  # type: ignore[attr-defined]
    first = former.newGetTypeInfoOperation(connection)
    [constructor] = load(spark, "thriftserver.CatalogOperations").getDeclaredConstructors()
    constructor.setAccessible(True)
    later = constructor.newInstance(array(spark, jvm.Object, former))
    second = former.newGetTypeInfoOperation(connection)
    third = later.newGetTypeInfoOperation(connection)
    fourth = later.newGetCatalogsOperation(connection)
    handles = jvm.Class.forName("org.apache.hive.service.cli.OperationHandle")
    hives = former.getClass().getSuperclass()
    remove = hives.getDeclaredMethod("removeOperation", array(spark, jvm.Class, handles))
    remove.setAccessible(True)
    for operation in (first, second, third, fourth):
        handle = operation.getHandle()
        assert former.getOperation(handle).equals(operation) and later.getOperation(handle).equals(operation)
        remove.invoke(later, array(spark, jvm.Object, handle))
        for manager in (former, later):
            with pytest.raises(Py4JJavaError, match="Invalid OperationHandle"):
                manager.getOperation(handle)
    assert former.handleToOperation().isEmpty() and later.handleToOperation().isEmpty()


def test_a_row_written_without_an_operation_is_inserted(spark: SparkSession) -> None:
    jvm: Any = spark.sparkContext._jvm
    row = jvm.Class.forName("java.lang.Object")
    write = load(spark, "KeyedWriters$Writer").getMethod("write", array(spark, jvm.Class, row))
    assert write.getDeclaringClass().getSimpleName() == "DeltaWriter"  # whose method calls `insert`
    rows = jvm.Class.forName("java.util.Iterator")
    write_all = load(spark, "KeyedWriters$Writer").getMethod("writeAll", array(spark, jvm.Class, rows))
    assert write_all.getDeclaringClass().getSimpleName() == "DataWriter"  # whose method calls `write`


def test_a_view_leaves_no_active_session(spark: SparkSession, fresh_name: str) -> None:
    if spark.version < "4.2":
        pytest.skip("Spark 4.1 has no views in catalogs")
    jvm: Any = spark.sparkContext._jvm
    namespace = f"pravega.{fresh_name}"
    spark.sql(f"CREATE NAMESPACE {namespace}")
    spark.sql(f"CREATE TABLE {namespace}.t (id INT) USING pravega")
    spark.sql(f"CREATE VIEW {namespace}.v AS SELECT id FROM {namespace}.t")
    catalog = spark._jsparkSession.sessionState().catalogManager().catalog("pravega")  # type: ignore[attr-defined]
    ident = jvm.org.apache.spark.sql.connector.catalog.Identifier.of(array(spark, jvm.String, fresh_name), "v")
    kinds = [jvm.Class.forName(f"org.apache.spark.sql.connector.catalog.{kind}") for kind in ("Identifier", "View")]
    methods = jvm.Class.forName("org.apache.spark.sql.connector.catalog.ViewCatalog")
    load_view = methods.getMethod("loadView", array(spark, jvm.Class, kinds[0]))
    replace_view = methods.getMethod("replaceView", array(spark, jvm.Class, *kinds))
    view = load_view.invoke(catalog, array(spark, jvm.Object, ident))
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    former = sessions.getActiveSession()
    sessions.clearActiveSession()
    try:
        replace_view.invoke(catalog, array(spark, jvm.Object, ident, view))
        assert sessions.getActiveSession().isEmpty()
    finally:
        if former.isDefined():
            sessions.setActiveSession(former.get())
        spark.sql(f"DROP NAMESPACE {namespace} CASCADE")

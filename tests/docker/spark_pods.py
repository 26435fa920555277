"""Prints the pod that Spark would make, as YAML: `spark_pods.py executor`, `spark_pods.py driver PROGRAM`.

Reads the confs, a JSON object. Spark's own classes build the pod, in a JVM without a driver; nothing asks a Kubernetes.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from pyspark.java_gateway import launch_gateway

APPLICATION = "spark-of-a-test"
DRIVER = {"name": "stream-0", "uid": "f4b1ab7b-38b1-4d5e-9f5c-1d1b41c5b3a8"}
"""The pod that an executor belongs to."""


def main(kind: str, *program: str) -> None:
    """Build the pod of a driver in cluster mode, or that of the first executor."""
    jvm: Any = launch_gateway().jvm
    conf = jvm.org.apache.spark.SparkConf(False)
    for key, text in json.load(sys.stdin).items():
        conf.set(key, text)
    # What Spark's scheduler sets when it starts.
    conf.set("spark.app.id", APPLICATION)
    fabric8 = jvm.io.fabric8.kubernetes
    client = fabric8.client.KubernetesClientBuilder().withConfig(fabric8.client.Config.empty()).build()
    pod = executor(jvm, conf, client) if kind == "executor" else driver(jvm, conf, client, *program)
    whole = fabric8.api.model.PodBuilder(pod.pod()).editSpec().addToContainers(0, pod.container()).endSpec().build()
    print(fabric8.client.utils.Serialization.asYaml(whole), flush=True)
    os._exit(0)


def executor(jvm: Any, conf: Any, client: Any) -> Any:
    """Return what a driver in a pod asks for."""
    spark, model = jvm.org.apache.spark, jvm.io.fabric8.kubernetes.api.model
    metadata = model.ObjectMetaBuilder().withName(DRIVER["name"]).withUid(DRIVER["uid"]).build()
    owner = jvm.scala.Option.apply(model.PodBuilder().withMetadata(metadata).build())
    given = spark.deploy.k8s.KubernetesConf.createExecutorConf(conf, "1", APPLICATION, owner, 0)
    secret_file = _object(spark.internal.config, "package").AUTH_SECRET_FILE()
    security = spark.SecurityManager(conf, jvm.scala.Option.empty(), secret_file)
    profile = _object(spark.resource, "ResourceProfile").getOrCreateDefaultProfile(conf)
    builder = spark.scheduler.cluster.k8s.KubernetesExecutorBuilder()
    return builder.buildFromFeatures(given, security, client, profile).pod()


def driver(jvm: Any, conf: Any, client: Any, program: str) -> Any:
    """Return what `spark-submit --deploy-mode cluster` asks for."""
    k8s = jvm.org.apache.spark.deploy.k8s
    resource = k8s.submit.PythonMainAppResource(program)
    main_class = "org.apache.spark.deploy.PythonRunner"
    none = jvm.scala.Option.empty()
    no_arguments = jvm.java.lang.reflect.Array.newInstance(jvm.java.lang.Class.forName("java.lang.String"), 0)
    given = k8s.KubernetesConf.createDriverConf(conf, APPLICATION, resource, main_class, no_arguments, none)
    return k8s.submit.KubernetesDriverBuilder().buildFromFeatures(given, client).pod()


def _object(package: Any, name: str) -> Any:
    """Return an object of Scala's."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


if __name__ == "__main__":
    main(*sys.argv[1:])

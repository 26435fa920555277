"""Descriptors with the structure of two published models that contain themselves, built here field by field.

OpenTelemetry's logs (open-telemetry/opentelemetry-proto, `opentelemetry.proto.logs.v1`), whose AnyValue holds lists of
itself, and Sparkplug B (eclipse-tahu/tahu, `org.eclipse.tahu.protobuf.Payload`), proto2 with extension ranges, whose
metrics hold property sets and templates that hold metrics.
"""

from __future__ import annotations

from google.protobuf import descriptor_pb2 as d

_F = d.FieldDescriptorProto
Fields = str
"""`name type number` each, divided by commas; `name? type` is a member of the oneof, `type*` is repeated."""


def _add(message: d.DescriptorProto, fields: Fields, scope: str, oneof: str = "value") -> None:
    for number, text in enumerate(fields.split(","), 1):
        name, kind, *given = text.split()
        field = message.field.add(name=name.rstrip("?"), number=int(given[0]) if given else number)
        field.label = _F.LABEL_REPEATED if kind.endswith("*") else _F.LABEL_OPTIONAL
        kind = kind.rstrip("*")
        if kind.rpartition(".")[2][0].isupper():
            field.type = _F.TYPE_ENUM if kind.endswith("Number") else _F.TYPE_MESSAGE
            field.type_name = f".{scope}.{kind}"
        else:
            field.type = _F.Type.Value(f"TYPE_{kind.upper()}")
        if name.endswith("?"):
            if not message.oneof_decl:
                message.oneof_decl.add(name=oneof)
            field.oneof_index = 0


def logs() -> tuple[str, bytes]:
    """OpenTelemetry's ExportLogsServiceRequest: the message's name and the file descriptor set, of two files."""
    common = d.FileDescriptorProto(name="common.proto", package="otel.common.v1", syntax="proto3")
    here = "otel.common.v1"
    _add(
        common.message_type.add(name="AnyValue"),
        "string_value? string,bool_value? bool,int_value? int64,double_value? double,array_value? ArrayValue,"
        "kvlist_value? KeyValueList,bytes_value? bytes",
        here,
    )
    _add(common.message_type.add(name="ArrayValue"), "values AnyValue*", here)
    _add(common.message_type.add(name="KeyValueList"), "values KeyValue*", here)
    _add(common.message_type.add(name="KeyValue"), "key string,value AnyValue", here)
    _add(common.message_type.add(name="Scope"), "name string,version string,attributes KeyValue*", here)
    _add(common.message_type.add(name="Resource"), "attributes KeyValue*,dropped_attributes_count uint32", here)
    file = d.FileDescriptorProto(name="logs.proto", package="otel", syntax="proto3", dependency=["common.proto"])
    severity = file.enum_type.add(name="SeverityNumber")
    for name, number in (("SEVERITY_NUMBER_UNSPECIFIED", 0), ("SEVERITY_NUMBER_INFO", 9)):
        severity.value.add(name=name, number=number)
    _add(file.message_type.add(name="Request"), "resource_logs ResourceLogs*", "otel")
    _add(file.message_type.add(name="ResourceLogs"), "resource common.v1.Resource,scope_logs ScopeLogs*", "otel")
    _add(file.message_type.add(name="ScopeLogs"), "scope common.v1.Scope,log_records LogRecord*", "otel")
    _add(
        file.message_type.add(name="LogRecord"),
        "time_unix_nano fixed64 1,severity_number SeverityNumber 2,severity_text string 3,body common.v1.AnyValue 5,"
        "attributes common.v1.KeyValue* 6,flags fixed32 8,trace_id bytes 9",
        "otel",
    )
    return "otel.Request", d.FileDescriptorSet(file=[common, file]).SerializeToString()


def sparkplug() -> tuple[str, bytes]:
    """Sparkplug B's Payload: the message's name and the file descriptor set."""
    file = d.FileDescriptorProto(name="sparkplug.proto", package="tahu")
    payload = file.message_type.add(name="Payload")

    def inner(name: str, fields: Fields, within: d.DescriptorProto = payload) -> d.DescriptorProto:
        message = within.nested_type.add(name=name)
        _add(message, fields, "tahu.Payload")
        # As in the model, the numbers behind the last one are for others to extend it.
        message.extension_range.add(start=len(message.field) + 1, end=2**29)
        return message

    template = inner("Template", "version string,metrics Metric*,parameters Template.Parameter*,is_definition bool 5")
    template.extension_range[0].start = 6
    parameter = "name string,type uint32,int_value? uint32,double_value? double 6,string_value? string 8"
    inner("Parameter", parameter, template)
    template.nested_type[0].extension_range[0].start = 10
    inner("DataSet", "num_of_columns uint64,columns string*,types uint32*,rows DataSet.Row*")
    inner("Value", "int_value? uint32,long_value? uint64,string_value? string", payload.nested_type[1])
    inner("Row", "elements DataSet.Value*", payload.nested_type[1])
    inner(
        "PropertyValue",
        "type uint32,is_null bool,int_value? uint32,long_value? uint64,string_value? string,"
        "propertyset_value? PropertySet,propertysets_value? PropertySetList",
    )
    inner("PropertySet", "keys string*,values PropertyValue*")
    inner("PropertySetList", "propertyset PropertySet*")
    inner(
        "Metric",
        "name string,alias uint64,timestamp uint64,datatype uint32,is_null bool,properties PropertySet,"
        "int_value? uint32,long_value? uint64,double_value? double,boolean_value? bool,string_value? string,"
        "dataset_value? DataSet,"
        "template_value? Template",
    )
    _add(payload, "timestamp uint64,metrics Metric*,seq uint64,uuid string,body bytes", "tahu.Payload")
    payload.extension_range.add(start=6, end=2**29)
    return "tahu.Payload", d.FileDescriptorSet(file=[file]).SerializeToString()

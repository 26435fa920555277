from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ExtendedExpression(_message.Message):
    __slots__ = ("extensions", "referred_expr")
    EXTENSIONS_FIELD_NUMBER: _ClassVar[int]
    REFERRED_EXPR_FIELD_NUMBER: _ClassVar[int]
    extensions: _containers.RepeatedCompositeFieldContainer[Declaration]
    referred_expr: _containers.RepeatedCompositeFieldContainer[ExpressionReference]
    def __init__(self, extensions: _Optional[_Iterable[_Union[Declaration, _Mapping]]] = ..., referred_expr: _Optional[_Iterable[_Union[ExpressionReference, _Mapping]]] = ...) -> None: ...

class Declaration(_message.Message):
    __slots__ = ("extension_function",)
    class Function(_message.Message):
        __slots__ = ("function_anchor", "name")
        FUNCTION_ANCHOR_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        function_anchor: int
        name: str
        def __init__(self, function_anchor: _Optional[int] = ..., name: _Optional[str] = ...) -> None: ...
    EXTENSION_FUNCTION_FIELD_NUMBER: _ClassVar[int]
    extension_function: Declaration.Function
    def __init__(self, extension_function: _Optional[_Union[Declaration.Function, _Mapping]] = ...) -> None: ...

class ExpressionReference(_message.Message):
    __slots__ = ("expression",)
    EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    expression: Expression
    def __init__(self, expression: _Optional[_Union[Expression, _Mapping]] = ...) -> None: ...

class Expression(_message.Message):
    __slots__ = ("literal", "selection", "scalar_function", "singular_or_list")
    LITERAL_FIELD_NUMBER: _ClassVar[int]
    SELECTION_FIELD_NUMBER: _ClassVar[int]
    SCALAR_FUNCTION_FIELD_NUMBER: _ClassVar[int]
    SINGULAR_OR_LIST_FIELD_NUMBER: _ClassVar[int]
    literal: Literal
    selection: FieldReference
    scalar_function: ScalarFunction
    singular_or_list: SingularOrList
    def __init__(self, literal: _Optional[_Union[Literal, _Mapping]] = ..., selection: _Optional[_Union[FieldReference, _Mapping]] = ..., scalar_function: _Optional[_Union[ScalarFunction, _Mapping]] = ..., singular_or_list: _Optional[_Union[SingularOrList, _Mapping]] = ...) -> None: ...

class Literal(_message.Message):
    __slots__ = ("i8", "i16", "i32", "i64", "string", "date")
    I8_FIELD_NUMBER: _ClassVar[int]
    I16_FIELD_NUMBER: _ClassVar[int]
    I32_FIELD_NUMBER: _ClassVar[int]
    I64_FIELD_NUMBER: _ClassVar[int]
    STRING_FIELD_NUMBER: _ClassVar[int]
    DATE_FIELD_NUMBER: _ClassVar[int]
    i8: int
    i16: int
    i32: int
    i64: int
    string: str
    date: int
    def __init__(self, i8: _Optional[int] = ..., i16: _Optional[int] = ..., i32: _Optional[int] = ..., i64: _Optional[int] = ..., string: _Optional[str] = ..., date: _Optional[int] = ...) -> None: ...

class FieldReference(_message.Message):
    __slots__ = ("direct_reference",)
    DIRECT_REFERENCE_FIELD_NUMBER: _ClassVar[int]
    direct_reference: ReferenceSegment
    def __init__(self, direct_reference: _Optional[_Union[ReferenceSegment, _Mapping]] = ...) -> None: ...

class ReferenceSegment(_message.Message):
    __slots__ = ("struct_field",)
    STRUCT_FIELD_FIELD_NUMBER: _ClassVar[int]
    struct_field: StructField
    def __init__(self, struct_field: _Optional[_Union[StructField, _Mapping]] = ...) -> None: ...

class StructField(_message.Message):
    __slots__ = ("field", "child")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    CHILD_FIELD_NUMBER: _ClassVar[int]
    field: int
    child: ReferenceSegment
    def __init__(self, field: _Optional[int] = ..., child: _Optional[_Union[ReferenceSegment, _Mapping]] = ...) -> None: ...

class ScalarFunction(_message.Message):
    __slots__ = ("function_reference", "arguments")
    FUNCTION_REFERENCE_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    function_reference: int
    arguments: _containers.RepeatedCompositeFieldContainer[Argument]
    def __init__(self, function_reference: _Optional[int] = ..., arguments: _Optional[_Iterable[_Union[Argument, _Mapping]]] = ...) -> None: ...

class Argument(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: bytes
    def __init__(self, value: _Optional[bytes] = ...) -> None: ...

class SingularOrList(_message.Message):
    __slots__ = ("value", "options")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    value: Expression
    options: _containers.RepeatedCompositeFieldContainer[Expression]
    def __init__(self, value: _Optional[_Union[Expression, _Mapping]] = ..., options: _Optional[_Iterable[_Union[Expression, _Mapping]]] = ...) -> None: ...

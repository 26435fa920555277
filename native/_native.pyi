from typing import Any

INTERFACE: int
__version__: str
__file__: str

class Batch:
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[Any, Any]: ...

class Decoder:
    @staticmethod
    def json(columns: tuple[Any, ...], value: bool) -> Decoder: ...
    @staticmethod
    def avro(columns: tuple[Any, ...], plan: tuple[Any, ...]) -> Decoder: ...
    def decode(self, data: Any, starts: Any, lengths: Any, padded: bool) -> tuple[Batch, bytes | None]: ...

def common_encoding_id(data: Any, starts: Any, lengths: Any) -> int | None: ...

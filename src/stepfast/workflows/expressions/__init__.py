"""The expressions of templates: CEL, compiled once to Python code."""

from stepfast.kernel.errors import EvaluationFailed
from stepfast.workflows.expressions.binding import Binding, BindingProblem, InvalidBinding, compile_value
from stepfast.workflows.expressions.expression import Expression, compile_expression, is_name
from stepfast.workflows.expressions.kinds import UInt
from stepfast.workflows.expressions.problems import ExpressionProblem
from stepfast.workflows.expressions.references import Reference
from stepfast.workflows.expressions.schemas import type_of_schema, type_of_value
from stepfast.workflows.expressions.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    TYPE,
    UINT,
    ListType,
    MapType,
    RecordType,
    Type,
    UnionType,
    accepts,
    join,
)

__all__ = [
    "BOOL",
    "BYTES",
    "DOUBLE",
    "DURATION",
    "DYN",
    "INT",
    "NULL",
    "STRING",
    "TIMESTAMP",
    "TYPE",
    "UINT",
    "Binding",
    "BindingProblem",
    "EvaluationFailed",
    "Expression",
    "ExpressionProblem",
    "InvalidBinding",
    "ListType",
    "MapType",
    "RecordType",
    "Reference",
    "Type",
    "UInt",
    "UnionType",
    "accepts",
    "compile_expression",
    "compile_value",
    "is_name",
    "join",
    "type_of_schema",
    "type_of_value",
]

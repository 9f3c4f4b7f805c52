"""What OpenLineage 2.0.2 asks of a run event and of the facets that we send, as JSON Schema."""

from __future__ import annotations

from typing import Any

TEXT = {"type": "string"}
URI = {"type": "string", "format": "uri", "pattern": "^https://"}
MOMENT = {"type": "string", "format": "date-time", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"}
UUID = {"type": "string", "format": "uuid", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}


def thing(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {"type": "object", "properties": required | optional, "required": list(required)}


def facet(number: str, schema: str, required: dict[str, Any], /, **optional: Any) -> dict[str, Any]:
    """A facet of which we send no field that its schema lacks."""
    url = {"const": f"https://openlineage.io/spec/facets/{number}/{schema}.json#/$defs/{schema}"}
    return thing({"_producer": URI, "_schemaURL": url, **required}, **optional) | {"additionalProperties": False}


def facets(**known: Any) -> dict[str, Any]:
    return {"type": "object", "properties": known, "additionalProperties": False}


TAG = thing({"key": TEXT, "value": TEXT}, source=TEXT) | {"additionalProperties": False}
TAGS: dict[str, Any] = {"type": "array", "items": TAG}
JOB_NAME = thing({"namespace": TEXT, "name": TEXT})

RUN_FACETS = facets(
    parent=facet("1-2-0", "ParentRunFacet", {"run": thing({"runId": UUID}), "job": JOB_NAME}, root={"type": "object"}),
    processing_engine=facet("1-1-1", "ProcessingEngineRunFacet", {"version": TEXT}, name=TEXT),
    nominalTime=facet("1-0-1", "NominalTimeRunFacet", {"nominalStartTime": MOMENT}, nominalEndTime=MOMENT),
    errorMessage=facet(
        "1-0-1", "ErrorMessageRunFacet", {"message": TEXT, "programmingLanguage": TEXT}, stackTrace=TEXT
    ),
    tags=facet("1-0-0", "TagsRunFacet", {}, tags=TAGS),
)
JOB_FACETS = facets(
    jobType=facet("2-0-4", "JobTypeJobFacet", {"processingType": TEXT, "integration": TEXT}, jobType=TEXT)
)
DATASET_FACETS = facets(
    version=facet("1-0-1", "DatasetVersionDatasetFacet", {"datasetVersion": TEXT}),
    datasetType=facet("1-0-1", "DatasetTypeDatasetFacet", {"datasetType": TEXT}, subType=TEXT),
    tags=facet("1-0-0", "TagsDatasetFacet", {}, tags=TAGS),
)
DATASETS = {"type": "array", "items": thing({"namespace": TEXT, "name": TEXT}, facets=DATASET_FACETS)}

RUN_EVENT = thing(
    {
        "eventTime": MOMENT,
        "producer": URI,
        "schemaURL": {"const": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"},
        "run": thing({"runId": UUID}, facets=RUN_FACETS),
        "job": thing({"namespace": TEXT, "name": TEXT}, facets=JOB_FACETS),
    },
    eventType={"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
    inputs=DATASETS,
    outputs=DATASETS,
)

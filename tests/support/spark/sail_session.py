"""Reads, writes and streams of kafwire in Sail, in the interpreter that has it; prints JSON.

    python -m tests.support.spark.sail_session BOOTSTRAP FOLDER

The topic `flights` has records, the topic `copy` has none; `FOLDER` is for a checkpoint.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession

from kafwire.spark import KafwireDataSource


def main(bootstrap: str, folder: str) -> None:
    """Run all, and print the outcomes: a value, or the text of an error."""
    server = SparkConnectServer(ip="127.0.0.1", port=0)
    server.start(background=True)
    spark: Any = SparkSession.builder.remote(f"sc://127.0.0.1:{server.listening_address[1]}").getOrCreate()
    at = {"kafka.bootstrap.servers": bootstrap}
    found: dict[str, Any] = {}

    def attempt(name: str, call: Callable[[], Any]) -> None:
        try:
            found[name] = call()
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"[:3000]

    def load(schema: str | None = None, **options: str) -> Any:
        reader = spark.read.format("kafwire").options(**at, subscribe="flights").options(**options)
        return (reader if schema is None else reader.schema(schema)).load()

    def write(**options: str) -> None:
        rows = load().selectExpr("key", "concat('copy of ', string(value)) value")
        rows.write.format("kafwire").options(**at, topic="copy").options(**options).mode("append").save()

    def stream(sink: str) -> Any:
        rows = spark.readStream.format("kafwire").options(**at, subscribe="flights").load()
        query = rows.writeStream.format(sink).option("checkpointLocation", folder).start()
        query.awaitTermination(10)
        return query.lastProgress

    def sink() -> Any:
        rows = spark.readStream.format("rate").load().selectExpr("string(value) value")
        writer = rows.writeStream.format("kafwire").options(**at, topic="copy")
        return writer.option("checkpointLocation", folder).start().awaitTermination(5)

    attempt("discovered", lambda: load().count())
    spark.dataSource.register(KafwireDataSource)
    attempt("schema", lambda: str(load(includeHeaders="true").schema.simpleString()))
    attempt("rows", lambda: [list(map(str, row)) for row in load().orderBy("offset").limit(1).collect()])
    attempt("headers", lambda: load(includeHeaders="true").where("headers[0].key = 'h'").count())
    attempt("count", lambda: load().where("partition = 1 and offset < 10").count())
    attempt("value", lambda: load("value binary").selectExpr("sum(length(value))").collect()[0][0])
    attempt("write", write)
    attempt("atomic", lambda: write(delivery="atomic", sink="sail"))
    attempt("wrong option", lambda: load(nonsense="1").count())
    attempt("stream source", lambda: stream("console"))
    attempt("stream sink", sink)
    print(json.dumps(found), flush=True)
    os._exit(0)  # the server's threads go on otherwise


if __name__ == "__main__":
    main(*sys.argv[1:])

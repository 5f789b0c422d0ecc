"""Runs the shop in a Spark session that is built here, with settings that an app would not choose:
python run_given_session.py BOOTSTRAP DATA. For each line of stdin it runs until all is read; the line says from how
many records on tasks write.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from runnel.app.loading import load_app
from runnel.app.runner import Runner, Running
from tests.pipeline.stage import APP

CAUGHT_UP = "caught up"
SETTINGS = {
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.shuffle.partitions": "3",
    "spark.ui.enabled": "false",
}

if __name__ == "__main__":
    bootstrap, data = sys.argv[1:]
    spark = SparkSession.builder.master("local[2]").config(map=SETTINGS).getOrCreate()
    for line in sys.stdin:
        running = Running(bootstrap, Path(data), spark=spark, until_caught_up=True, parallel_from=int(line))
        Runner(load_app(APP), running).run()
        assert spark.range(3).count() == 3, "it still works"
        assert {name: spark.conf.get(name) for name in SETTINGS} == SETTINGS, "it stays as it is"
        print(CAUGHT_UP, flush=True)
    spark.stop()

"""Reads the change events of the tables of the database `test` from the start of a binary log to
its end, keeps the rows that they leave, and compares these with the rows of the tables.

The one argument is the port of the server. The last line says how many events there were.
"""

import sys

import pymysql
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

KEY = "id"


def apply(rows, event):
    """Applies an event to the rows of its table. What it says was there has to be there."""
    for change in event.rows:
        if isinstance(event, WriteRowsEvent):
            old, new = None, change["values"]
        elif isinstance(event, DeleteRowsEvent):
            old, new = change["values"], None
        else:
            old, new = change["before_values"], change["after_values"]
        if old is not None:
            found = rows.pop(old[KEY], None)
            assert found == old, f"{event.table}: the event says {old}, earlier ones {found}"
        if new is not None:
            assert new[KEY] not in rows, f"{event.table}: {new[KEY]} comes twice"
            rows[new[KEY]] = new


def main():
    settings = {"host": "127.0.0.1", "port": int(sys.argv[1]), "user": "replica", "password": ""}
    connection = pymysql.connect(cursorclass=pymysql.cursors.DictCursor, charset="utf8mb4", **settings)
    cursor = connection.cursor()
    # Events have times in UTC.
    cursor.execute("SET time_zone = '+00:00'")
    cursor.execute("SHOW BINARY LOGS")
    first = cursor.fetchone()["Log_name"]
    stream = BinLogStreamReader(
        connection_settings=settings,
        server_id=77,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
        only_schemas=["test"],
        log_file=first,
        log_pos=4,
        resume_stream=True,
        blocking=False,
    )
    tables, events = {}, 0
    for event in stream:
        apply(tables.setdefault(event.table, {}), event)
        events += 1
    stream.close()
    for table, rows in tables.items():
        cursor.execute(f"SELECT * FROM test.{table}")
        wanted = {row[KEY]: row for row in cursor.fetchall()}
        assert wanted, f"{table} has no rows"
        for key in rows.keys() | wanted.keys():
            read, stored = rows.get(key), wanted.get(key)
            assert read == stored, f"{table} {key}: read {read}, stored {stored}"
    print(f"{events} events, {len(tables)} tables, {sum(map(len, tables.values()))} rows")


main()

"""Prints the first four columns of a table, ordered by the first."""
import sys

import clickhouse_connect

client = clickhouse_connect.get_client(host="127.0.0.1", port=int(sys.argv[1]))
rows = client.query(f"SELECT * FROM {sys.argv[2]} ORDER BY 1").result_rows


def text(value):
    if value is None:
        return "null"
    if hasattr(value, "strftime"):
        return value.strftime("%Y-%m-%d %H:%M:%S.") + f"{value.microsecond // 1000:03}"
    return str(value)


for row in rows:
    print(" ".join(text(value) for value in row[:4]))

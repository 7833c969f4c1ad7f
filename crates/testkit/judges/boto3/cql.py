"""What an AWS SDK expects of records of CQL tables, item by item, against an endpoint that serves a journal of them.

Usage: cql.py ENDPOINT

The journal holds what `crates/stream/tests/support/cql.rs` wrote: its comments say which CQL makes each record. On
stdout: `PASS item…`, or `FAIL item…` and why. The exit code is 1 when something failed.
"""

import json
import re
import sys
import traceback

import boto3
import botocore.auth
import http.client
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

ENDPOINT = sys.argv[1]
UUID = "123e4567-e89b-12d3-a456-426655440000"
DIGITS = re.compile(r"-?\d+")


def client(service):
    return boto3.client(service, endpoint_url=ENDPOINT, region_name="us-east-1", aws_access_key_id="A", aws_secret_access_key="s")


streams, tables = client("keyspacesstreams"), client("keyspaces")


def arn_of(table):
    return tables.get_table(keyspaceName="chat", tableName=table)["latestStreamArn"]


def shards(arn):
    pages = streams.get_paginator("get_stream").paginate(streamArn=arn)
    return [shard["shardId"] for page in pages for shard in page["shards"]]


def iterator(arn, shard):
    return streams.get_shard_iterator(streamArn=arn, shardId=shard, shardIteratorType="TRIM_HORIZON")["shardIterator"]


def records(table):
    """All records of a stream by sequence number, whichever shard holds them."""
    arn, found = arn_of(table), []
    for shard in shards(arn):
        at = iterator(arn, shard)
        while True:
            page = streams.get_records(shardIterator=at, maxResults=1000)
            found += page["changeRecords"]
            if page["iteratorDescription"]["iteratorPosition"] == "AT_TIP":
                break
            at = page["nextShardIterator"]
    return sorted(found, key=lambda record: int(record["sequenceNumber"]))


def raw_page(table):
    """The same of a stream with one shard, as the bytes on the wire."""
    host, arn = ENDPOINT.split("//")[1], arn_of(table)
    body = json.dumps({"shardIterator": iterator(arn, shards(arn)[0]), "maxResults": 1000})
    sent = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "KeyspacesStreams.GetRecords", "Host": host}
    request = AWSRequest("POST", ENDPOINT + "/", data=body, headers=sent)
    botocore.auth.SigV4Auth(Credentials("A", "s"), "cassandra", "us-east-1").add_auth(request)
    connection = http.client.HTTPConnection(host, timeout=30)
    connection.request("POST", "/", body=body, headers=dict(request.prepare().headers.items()))
    answer = connection.getresponse()
    text = answer.read()
    assert answer.status == 200, text
    return json.loads(text)


def images(record):
    return [name for name in ("newImage", "oldImage") if name in record]


def values(row, cells="valueCells"):
    return {name: cell["value"] for name, cell in row.get(cells, {}).items()}


CHECKS = []


def check(*items):
    def keep(run):
        CHECKS.append((items, run))
        return run

    return keep


LINES = records("lines")


@check(54, 57, 58)
def keys_and_whole_images():
    first = LINES[0]
    keys = {"room": {"textT": "a"}, "n": {"intT": "1"}}
    assert first["partitionKeys"] == keys and list(first["partitionKeys"]) == ["room", "n"], first
    assert first["clusteringKeys"] == {"at": {"timestampT": "2026-11-29T00:00:00.000Z"}}, first
    assert values(first["newImage"]) == {**keys, **first["clusteringKeys"], "v": {"intT": "10"}, "w": {"textT": "x"}}, first
    assert first["eventVersion"] == "1.0" and images(first) == ["newImage"]


@check(59)
def a_static_column_alone():
    record = LINES[1]
    assert record["clusteringKeys"] == {} and record["partitionKeys"] == {"room": {"textT": "a"}, "n": {"intT": "1"}}, record
    assert images(record) == ["newImage"]
    assert values(record["newImage"]) == record["partitionKeys"], "nothing beyond keys"
    assert values(record["newImage"], "staticCells") == {"topic": {"textT": "cats"}}, record


@check(60)
def a_static_column_and_the_row():
    static, row = LINES[2:4]
    assert static["clusteringKeys"] == {} and row["clusteringKeys"], (static, row)
    assert values(static["oldImage"], "staticCells") == {"topic": {"textT": "cats"}}
    assert values(static["newImage"], "staticCells") == {"topic": {"textT": "dogs"}}
    assert values(row["oldImage"])["v"] == {"intT": "10"} and values(row["newImage"])["v"] == {"intT": "11"}
    for name in ("oldImage", "newImage"):
        assert not row[name].get("staticCells") and "topic" not in row[name]["valueCells"], row
    assert [bool(record["clusteringKeys"]) for record in LINES].count(False) == 3, "no other is static"


@check(67)
def times():
    expiring = {"expirationTime": "1795914000", "writeTime": "1795910400000000"}
    first = LINES[0]["newImage"]
    assert first["rowMetadata"] == expiring, first
    assert first["valueCells"]["v"]["metadata"] == first["valueCells"]["w"]["metadata"] == expiring, first
    assert "metadata" not in first["valueCells"]["room"], "a key has none of its own"
    second = LINES[3]["newImage"]
    assert second["rowMetadata"] == expiring and LINES[3]["oldImage"]["rowMetadata"] == expiring
    assert second["valueCells"]["v"]["metadata"] == {"writeTime": "1795910402000000"}, second
    assert LINES[2]["newImage"]["staticCells"]["topic"]["metadata"] == {"writeTime": "1795910402000000"}
    assert "rowMetadata" not in LINES[2]["newImage"]
    found = []
    walk([record.get(name, {}) for record in LINES for name in ("newImage", "oldImage")], "metadata", found)
    walk([record.get(name, {}) for record in LINES for name in ("newImage", "oldImage")], "rowMetadata", found)
    assert found and all(DIGITS.fullmatch(text) for one in found for text in one.values()), found


def walk(at, member, found):
    if isinstance(at, dict):
        if isinstance(at.get(member), dict):
            found.append(at[member])
        for inner in at.values():
            walk(inner, member, found)
    elif isinstance(at, list):
        for inner in at:
            walk(inner, member, found)


@check(68)
def origins():
    told = [record["origin"] for record in LINES]
    assert told == ["USER"] * 4 + ["TTL"] + ["USER"] * 13 + ["TTL", "USER", "REPLICATION"], told
    cell, row = LINES[4], LINES[18]
    assert images(cell) == ["newImage", "oldImage"], cell
    assert values(cell["oldImage"])["w"] == {"textT": "x"} and "w" not in values(cell["newImage"]), "a cell's time ended"
    assert images(row) == ["oldImage"] and values(row["oldImage"])["w"] == {"textT": "gone"}, "a row's time ended"
    assert row["oldImage"]["rowMetadata"]["expirationTime"] == "1795914000", row


@check(70)
def batches():
    second = lambda record: (record["partitionKeys"]["room"]["textT"], record["clusteringKeys"]["at"]["timestampT"][17:19])
    logged = [(second(record), values(record["newImage"])["v"]["intT"]) for record in LINES[5:9]]
    assert logged == [(("a", "03"), "30"), (("a", "02"), "20"), (("a", "01"), "1"), (("b", "01"), "1")], logged
    unlogged = [(second(record), values(record["newImage"])["v"]["intT"]) for record in LINES[9:12]]
    assert unlogged == [(("a", "02"), "21"), (("a", "03"), "31"), (("a", "02"), "22")], unlogged
    assert values(LINES[11]["oldImage"])["v"] == {"intT": "21"}, "each key's images follow each other"


@check(69)
def deletes_of_ranges():
    at = lambda record: record["clusteringKeys"].get("at", {}).get("timestampT", "")[17:19]
    ranged, partition = LINES[12:14], LINES[14:17]
    assert [images(record) for record in ranged + partition] == [["oldImage"]] * 5
    assert [at(record) for record in ranged] == ["03", "02"], "in clustering order, which descends"
    assert [at(record) for record in partition] == ["", "01", "00"], "the static row first"
    assert values(partition[0]["oldImage"], "staticCells") == {"topic": {"textT": "dogs"}}


@check(55, 71)
def what_each_mutation_leaves():
    shown = ["".join("N" if name == "newImage" else "O" for name in images(record)) for record in LINES]
    assert shown == ["N", "N", "NO", "NO", "NO"] + ["N"] * 4 + ["NO"] * 3 + ["O"] * 5 + ["N", "O", "N", "N"], shown
    rooms = [record["partitionKeys"]["room"]["textT"] for record in LINES]
    assert rooms.count("d") == 1, "of two conditions one held"


@check(56)
def keys_only():
    found = records("lines_keys")
    assert len(found) == len(LINES)
    for seen, whole in zip(found, LINES):
        assert images(seen) == []
        for member in ("partitionKeys", "clusteringKeys", "origin"):
            assert seen[member] == whole[member], (seen, whole)


KINDS = [values(record["newImage"]) for record in records("kinds")]
TYPES = {
    "ascii": ({"asciiT": "plain"}, {"asciiT": ""}),
    "bigint": ({"bigintT": "9223372036854775807"}, {"bigintT": "-9223372036854775808"}),
    "blob": ({"blobT": b"\0\0\0\1"}, {"blobT": b""}),
    "boolean": ({"boolT": True}, {"boolT": False}),
    "date": ({"dateT": "2026-11-29"}, {"dateT": "-5877641-06-23"}),
    "decimal": ({"decimalT": "123.4560"}, {"decimalT": "-0.00000000000000000000000000001"}),
    "double": ({"doubleT": "1.7976"}, {"doubleT": "-Infinity"}),
    "duration": ({"durationT": "1y2mo3d4h5m6s7ms8us9ns"}, {"durationT": "-1d"}),
    "float": ({"floatT": "3.4028235E38"}, {"floatT": "NaN"}),
    "inet": ({"inetT": "127.0.0.1"}, {"inetT": "2001:db8::1"}),
    "int": ({"intT": "-5"}, {"intT": "-2147483648"}),
    "smallint": ({"smallintT": "-6"}, {"smallintT": "-32768"}),
    "text": ({"textT": "ž\"\\\1🐎"}, {"textT": ""}),
    "time": ({"timeT": "12:34:56.789"}, {"timeT": "23:59:59.999999999"}),
    "timestamp": ({"timestampT": "2025-03-07T21:44:53.783Z"}, {"timestampT": "1969-12-31T23:59:59.999Z"}),
    "timeuuid": ({"timeuuidT": UUID}, None),
    "tinyint": ({"tinyintT": "-7"}, {"tinyintT": "-128"}),
    "uuid": ({"uuidT": UUID}, None),
    "varchar": ({"varcharT": "v"}, {"varcharT": ""}),
    "varint": ({"varintT": "123456789012345678901234567890"}, {"varintT": "-1"}),
    "tuple": (
        {"tupleT": [{"value": {"intT": "1"}}, {}, {"value": {"boolT": True}}]},
        {"tupleT": [{"value": {"intT": "2"}}, {}, {}]},
    ),
    "udt": (
        {"udtT": {"street": {"value": {"textT": "High Street"}}, "zip": {"value": {"intT": "12"}}, "late": {}}},
        {"udtT": {"street": {}, "zip": {"value": {"intT": "13"}}, "late": {"value": {"textT": "now"}}}},
    ),
    "vector": ({"listT": [{"value": {"floatT": "1.5"}}, {"value": {"floatT": "-2.0"}}]}, None),
}


@check(61)
def each_type_has_its_member_and_text():
    for name, expected in TYPES.items():
        for cells, value in zip(KINDS, expected):
            assert cells.get("c_" + name) == value, (name, cells.get("c_" + name), value)
    (hit,) = records("hits")
    assert values(hit["oldImage"])["hits"] == {"counterT": "5"} and values(hit["newImage"])["hits"] == {"counterT": "7"}, hit
    first = {"writeTime": "1795910401000000"}
    second = {"expirationTime": "1795914000", "writeTime": "1795910402000000"}
    assert KINDS[0]["c_list"] == {
        "listT": [{"value": {"textT": "a"}, "metadata": first}, {"value": {"textT": "b"}, "metadata": second}]
    }, KINDS[0]["c_list"]
    assert KINDS[0]["c_set"] == {"setT": [{"value": {"uuidT": UUID}, "metadata": first}]}, KINDS[0]["c_set"]
    members = set()
    collect([KINDS, [values(hit["newImage"])]], members)
    assert len(members) == 26, sorted(members)


def collect(at, members):
    if isinstance(at, dict):
        members.update(name for name in at if re.fullmatch(r"[a-z]+T", name))
        for inner in at.values():
            collect(inner, members)
    elif isinstance(at, list):
        for inner in at:
            collect(inner, members)


@check(62)
def empty_containers_are_there():
    expected = {
        "c_deep_map": {"mapT": []},
        "c_e_list": {"listT": []},
        "c_e_set": {"setT": []},
        "c_tuple": {"tupleT": []},
        "c_udt": {"udtT": {}},
    }
    assert {name: value for name, value in KINDS[2].items() if name != "p"} == expected, KINDS[2]


@check(63)
def maps_are_lists():
    assert KINDS[0]["c_map"] == {
        "mapT": [
            {"key": {"intT": "1"}, "value": {"textT": "one"}, "metadata": {"writeTime": "1795910401000000"}},
            {
                "key": {"intT": "2"},
                "value": {"textT": "two"},
                "metadata": {"expirationTime": "1795914000", "writeTime": "1795910402000000"},
            },
        ]
    }, KINDS[0]["c_map"]
    key = {"tupleT": [{"value": {"intT": "1"}}, {"value": {"dateT": "1970-01-01"}}]}
    value = {"setT": [{"value": {"intT": "7"}}, {"value": {"intT": "9"}}]}
    assert KINDS[0]["c_deep_map"] == {"mapT": [{"key": key, "value": value}]}, KINDS[0]["c_deep_map"]


@check(64)
def no_value_has_no_member_or_two():
    def scan(at):
        count = 0
        if isinstance(at, dict):
            for name, inner in at.items():
                if name in ("value", "key") and isinstance(inner, dict):
                    assert len(inner) == 1 and re.fullmatch(r"[a-z]+T", next(iter(inner))), at
                    count += 1
                count += scan(inner)
        elif isinstance(at, list):
            count += sum(scan(inner) for inner in at)
        return count

    assert scan(raw_page("kinds")) > 60
    assert scan(raw_page("hits")) == 4


@check(65)
def nulls_are_left_out():
    assert "w" not in LINES[5]["newImage"]["valueCells"] and "seats" not in LINES[1]["newImage"]["staticCells"]
    assert "c_uuid" not in KINDS[1] and "c_ascii" not in KINDS[2]


@check(66)
def eight_deep():
    at = KINDS[0]["c_deep"]
    for _ in range(8):
        (element,) = at["listT"]
        at = element["value"]
    assert at == {"intT": "8"}, at


@check(72)
def made_in_utc():
    assert all(record["createdAt"].utcoffset().total_seconds() == 0 for record in LINES)


@check(74)
def the_table_says_what_its_columns_are():
    schema = tables.get_table(keyspaceName="chat", tableName="lines")["schemaDefinition"]
    assert schema["partitionKeys"] == [{"name": "room"}, {"name": "n"}], schema
    assert schema["clusteringKeys"] == [{"name": "at", "orderBy": "DESC"}], schema
    assert schema["staticColumns"] == [{"name": "seats"}, {"name": "topic"}], schema
    kinds = tables.get_table(keyspaceName="chat", tableName="kinds")["schemaDefinition"]["allColumns"]
    kinds = {column["name"]: column["type"] for column in kinds}
    assert kinds["c_deep_map"] == "frozen<map<frozen<tuple<int, date>>, frozen<set<int>>>>", kinds
    assert kinds["c_udt"] == "frozen<address>" and kinds["c_vector"] == "vector<float, 2>", kinds
    adopted = tables.create_table(keyspaceName="chat", tableName="lines", schemaDefinition=schema)
    assert adopted["resourceArn"].endswith("/keyspace/chat/table/lines")
    for change in ({"staticColumns": [{"name": "seats"}]}, {"clusteringKeys": [{"name": "at", "orderBy": "ASC"}]}):
        try:
            tables.create_table(keyspaceName="chat", tableName="lines", schemaDefinition={**schema, **change})
        except tables.exceptions.ValidationException:
            continue
        raise AssertionError(f"adopted with {change}")


def main():
    failed = False
    for items, run in CHECKS:
        name = " ".join(str(item) for item in items)
        try:
            run()
            print(f"PASS {name}: {run.__name__}", flush=True)
        except Exception:
            failed = True
            print(f"FAIL {name}: {run.__name__}\n{traceback.format_exc()}", flush=True)
    sys.exit(failed)


main()

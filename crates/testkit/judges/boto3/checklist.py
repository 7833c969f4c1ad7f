"""What an AWS SDK expects of a Keyspaces streams endpoint, item by item, against a running pipeline on a real MySQL.

Usage: checklist.py ENDPOINT SECOND_ENDPOINT [ITEM…]

What only the test that started it can do, it asks for in lines on stdout and reads the answer from stdin, as JSON:
    ! sql STATEMENT      runs it on the source, and waits until it is in the journal
    ! cli ARGUMENTS      runs a command of the binary; CONFIG stands for the config file
    ! clock SECONDS      shifts the pipeline's time to so much after the machine's
    ! journal away       takes the journal's files away; `journal back` puts them back
Everything else on stdout: `PASS item…`, or `FAIL item…` and why. The exit code is 1 when something failed.
"""

import concurrent.futures
import datetime
import http.client
import json
import re
import socket
import sys
import time
import traceback

import boto3
import botocore.auth
import botocore.exceptions
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials

ENDPOINT, SECOND = sys.argv[1], sys.argv[2]
ONLY = set(sys.argv[3:])
REGION = "us-east-1"
HOST = ENDPOINT.split("//")[1]
ARN = re.compile(r"arn:aws(-cn)?:cassandra:[-a-z0-9]+:[0-9]{12}:/keyspace/[^/]+/table/[^/]+/stream/.+")
LABEL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}")
FAULTS = {"InvalidFormat", "TrimmedDataAccess", "ExpiredIterator", "ExpiredNextToken"}
OFFSET = 0


def ask(line):
    print("! " + line, flush=True)
    answer = json.loads(sys.stdin.readline())
    if not answer["ok"]:
        raise RuntimeError(f"{line}: {answer['text']}")
    return answer["text"]


FENCE = {"number": 0, "arn": None, "shard": None, "last": None, "at": None}


def sql(text):
    """Runs statements on the source, and waits until what they did is in the journal: a row after them has come out."""
    FENCE["number"] += 1
    ask(f"sql {text}; INSERT INTO shop.fence VALUES ({FENCE['number']})")
    if not FENCE["arn"]:
        return
    for _ in range(4000):
        if not FENCE["at"]:
            started = {"shardIteratorType": "AFTER_SEQUENCE_NUMBER", "sequenceNumber": FENCE["last"]}
            started = started if FENCE["last"] else {"shardIteratorType": "TRIM_HORIZON"}
            asked = {"streamArn": FENCE["arn"], "shardId": FENCE["shard"], **started}
            status, _, text = raw(json.dumps(asked), "KeyspacesStreams.GetShardIterator")
            if status == 400 and json.loads(text).get("errorCode") == "TrimmedDataAccess":
                FENCE["last"] = None
                continue
            assert status == 200, text
            FENCE["at"] = json.loads(text)["shardIterator"]
        status, _, text = raw(json.dumps({"shardIterator": FENCE["at"]}), "KeyspacesStreams.GetRecords")
        page = json.loads(text)
        if status == 400 and page.get("errorCode") in ("ExpiredIterator", "TrimmedDataAccess"):
            # The time was shifted.
            FENCE["at"], FENCE["last"] = None, FENCE["last"] if page["errorCode"] == "ExpiredIterator" else None
            continue
        assert status == 200, text
        FENCE["at"] = page["nextShardIterator"]
        for record in page["changeRecords"]:
            FENCE["last"] = record["sequenceNumber"]
            if record["partitionKeys"]["id"]["bigintT"] == str(FENCE["number"]):
                return
        time.sleep(0.005)
    raise AssertionError("the source's changes do not come out")


def cli(*arguments):
    return ask("cli " + json.dumps(arguments))


def clock(seconds):
    """Shifts the pipeline's time; clients sign with it too."""
    global OFFSET
    OFFSET = seconds
    ask(f"clock {seconds}")


def shifted():
    return datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=OFFSET)


def client(service="keyspacesstreams", key="admin", valid=True, attempts=None, endpoint=ENDPOINT, **more):
    settings = {"parameter_validation": valid}
    if attempts:
        settings["retries"] = {"total_max_attempts": attempts}
    made = boto3.client(
        service,
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=key,
        aws_secret_access_key=key + "-secret",
        config=Config(**settings),
        **more,
    )
    made.sent = []
    made.meta.events.register("before-send.*", lambda **about: made.sent.append(about["request"].url))
    return made


def raw(body, target="KeyspacesStreams.ListStreams", key="admin", service="cassandra", region=REGION, at=None, change=None,
        path="/", headers=None, endpoint=None):
    """One request as bytes; `change` alters it after it was signed."""
    host = (endpoint or ENDPOINT).split("//")[1]
    if isinstance(body, str):
        body = body.encode()
    sent = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": target, "Host": host}
    sent.update(headers or {})
    sent = {name: value for name, value in sent.items() if value is not None}
    request = AWSRequest("POST", f"http://{host}{path}", data=body, headers=sent)
    if key:
        auth = botocore.auth.SigV4Auth(Credentials(key, key + "-secret"), service, region)
        kept = botocore.auth.get_current_datetime
        botocore.auth.get_current_datetime = lambda *a, **k: (at or shifted()).replace(tzinfo=None)
        try:
            auth.add_auth(request)
        finally:
            botocore.auth.get_current_datetime = kept
    prepared = request.prepare()
    sent = {name: value for name, value in prepared.headers.items()}
    if change:
        body, sent = change(body, sent)
    connection = http.client.HTTPConnection(host, timeout=30)
    connection.request("POST", path, body=body, headers=sent)
    response = connection.getresponse()
    text = response.read()
    answered = {name.lower(): value for name, value in response.getheaders()}
    return response.status, answered, text


def refused(call, code, fault=None):
    try:
        call()
    except botocore.exceptions.ClientError as error:
        found = error.response["Error"]["Code"]
        assert found == code, f"{found} instead of {code}: {error}"
        if fault:
            assert error.response.get("errorCode") == fault, error.response
        assert error.response["ResponseMetadata"].get("RequestId"), error.response
        assert error.response["Error"]["Message"], error.response
        return error.response
    raise AssertionError(f"{code} was expected, and it was done")


def invalid(call):
    return refused(call, "ValidationException", "InvalidFormat")


# ---- the pipeline's tables ----------------------------------------------------------------------------------------

streams = client()
tables = client("keyspaces")
CHECKS = []


def check(*items):
    def add(function):
        CHECKS.append((items, function))
        return function

    return add


def enable(table, view="NEW_AND_OLD_IMAGES", **more):
    tables.update_table(keyspaceName="shop", tableName=table, cdcSpecification={"status": "ENABLED", "viewType": view, **more})
    return arn_of(table)


def arn_of(table):
    return tables.get_table(keyspaceName="shop", tableName=table)["latestStreamArn"]


def fresh(name, columns="id BIGINT PRIMARY KEY, v INT, s VARCHAR(100)", view="NEW_AND_OLD_IMAGES"):
    sql(f"CREATE TABLE shop.{name} ({columns})")
    for _ in range(200):
        try:
            return enable(name, view)
        except tables.exceptions.ResourceNotFoundException:
            # A table is captured from its first row on, or its definition.
            sql(f"ALTER TABLE shop.{name} COMMENT = 'seen'")
            time.sleep(0.05)
    raise AssertionError("the table was never captured")


def shards(arn):
    pages = streams.get_paginator("get_stream").paginate(streamArn=arn)
    return [shard for page in pages for shard in page.get("shards", [])]


def iterator(arn, shard, kind="TRIM_HORIZON", number=None, reader=None):
    more = {"sequenceNumber": number} if number else {}
    return (reader or streams).get_shard_iterator(
        streamArn=arn, shardId=shard, shardIteratorType=kind, **more
    )["shardIterator"]


def drain(arn, shard, kind="TRIM_HORIZON", number=None, limit=1000, reader=None):
    """Records up to the tip, or to the end of a closed shard; and whether it ended."""
    reader = reader or streams
    at = iterator(arn, shard, kind, number, reader)
    found = []
    for _ in range(10_000):
        page = reader.get_records(shardIterator=at, maxResults=limit)
        found += page["changeRecords"]
        at = page.get("nextShardIterator")
        assert at != ""
        if at is None:
            return found, True
        if page["iteratorDescription"]["iteratorPosition"] == "AT_TIP":
            return found, False
    raise AssertionError("no end")


def walk(arn, limit=1000):
    """All records of a stream, parents before children."""
    done, found = set(), []
    while True:
        listed = shards(arn)
        ids = {shard["shardId"] for shard in listed}
        ready = [
            shard
            for shard in listed
            if shard["shardId"] not in done
            and all(parent in done or parent not in ids for parent in shard.get("parentShardIds", []))
        ]
        if not ready:
            return found
        for shard in ready:
            records, _ = drain(arn, shard["shardId"], limit=limit)
            found += records
            done.add(shard["shardId"])


def only(arn):
    listed = shards(arn)
    assert len(listed) == 1, listed
    return listed[0]["shardId"]


# ---- envelope and errors ------------------------------------------------------------------------------------------


@check(1)
def each_target_answers():
    arn = enable("plain")
    shard = only(arn)
    at = iterator(arn, shard)
    for name, body in [
        ("ListStreams", {}),
        ("GetStream", {"streamArn": arn}),
        ("GetShardIterator", {"streamArn": arn, "shardId": shard, "shardIteratorType": "LATEST"}),
        ("GetRecords", {"shardIterator": at}),
    ]:
        status, headers, text = raw(json.dumps(body), "KeyspacesStreams." + name)
        assert status == 200, (name, status, text)
        assert headers["content-type"] == "application/x-amz-json-1.0", headers
        json.loads(text)


@check(2)
def every_reply_has_a_request_id():
    assert streams.list_streams()["ResponseMetadata"]["RequestId"]
    seen = {streams.list_streams()["ResponseMetadata"]["RequestId"] for _ in range(20)}
    assert len(seen) == 20
    refused(lambda: streams.get_stream(streamArn=enable("plain")[:-1] + "9"), "ResourceNotFoundException")


@check(3, 4, 5, 6, 12, 13)
def envelope():
    def code(answer):
        status, headers, text = answer
        body = json.loads(text)
        assert headers["x-amzn-requestid"] and "message" in body and "code" not in body, body
        return status, body["__type"]

    assert code(raw("{}", "KeyspacesStreams.Nonsense")) == (400, "UnknownOperationException")
    assert code(raw("{}", "Nonsense")) == (400, "UnknownOperationException")
    assert code(raw("[")) == (400, "SerializationException")
    assert code(raw("{}", service="cassandra-streams")) == (400, "InvalidSignatureException")
    assert raw("{}")[0] == 200
    # The Rust SDK signs these too.
    agent = {"X-Amz-User-Agent": "aws-sdk-rust/1.0", "Content-Length": "2"}
    assert raw("{}", headers=agent)[0] == 200
    assert raw('{"newMember": {"deep": [1, {}]}, "maxResults": 1}')[0] == 200
    assert code(raw('{"maxResults": "5"}')) == (400, "SerializationException")
    assert raw("{}", headers={"Host": "cassandra-streams.us-east-1.api.aws"})[0] == 200, "any Host"


@check(7, 8)
def refusals_have_their_members():
    arn = enable("plain")
    for target, body in [
        ("GetStream", {}),
        ("GetStream", {"streamArn": "x" * 40}),
        ("GetStream", {"streamArn": arn, "maxResults": 0}),
        ("GetRecords", {"shardIterator": "x"}),
        ("GetShardIterator", {"streamArn": arn, "shardId": "x" * 30, "shardIteratorType": "NOPE"}),
    ]:
        status, _, text = raw(json.dumps(body), "KeyspacesStreams." + target)
        body = json.loads(text)
        assert status == 400 and body["__type"] == "ValidationException", body
        assert body["message"] and body["errorCode"] in FAULTS and "code" not in body, body


@check(9)
def an_unknown_stream_is_not_found_at_once():
    one = client()
    missing = enable("plain")[:-4] + ".001"
    try:
        one.get_stream(streamArn=missing)
        raise AssertionError("it was found")
    except one.exceptions.ResourceNotFoundException as error:
        assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert len(one.sent) == 1, one.sent


@check(10)
def what_the_server_cannot_do_is_its_fault_and_is_tried_again():
    arn = fresh("faulty", "id BIGINT PRIMARY KEY, s LONGTEXT")
    # More than the journal keeps in memory: what is read first is on disk alone.
    for number in range(12):
        sql(f"INSERT INTO shop.faulty VALUES ({number}, REPEAT('x', 1000000))")
    shard = only(arn)
    reader = client()
    at = iterator(arn, shard, reader=reader)
    ask("journal away")
    try:
        reader.sent.clear()
        response = refused(lambda: reader.get_records(shardIterator=at), "InternalServerException")
    finally:
        ask("journal back")
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 500
    assert len(reader.sent) == 3, reader.sent
    assert len(drain(arn, shard)[0]) == 12, "nothing is lost"


@check(11, 52)
def a_third_reader_is_throttled_and_tries_again():
    arn = fresh("crowd")
    shard = only(arn)
    readers = [client() for _ in range(2)]
    sql("INSERT INTO shop.crowd VALUES (1, 1, 'a'), (2, 1, 'a')")
    for reader in readers:
        assert len(drain(arn, shard, reader=reader)[0]) == 2, "two readers work"
    at = [iterator(arn, shard, reader=reader) for reader in readers]
    for _ in range(3):
        for index, reader in enumerate(readers):
            at[index] = reader.get_records(shardIterator=at[index])["nextShardIterator"]
    third = client()
    place = iterator(arn, shard, reader=third)
    stop = []

    def come_in():
        """The first call may pass: the server has yet to see that the others are at work."""
        at = place
        for _ in range(50):
            third.sent.clear()
            at = third.get_records(shardIterator=at)["nextShardIterator"]
            time.sleep(0.1)

    def go_on():
        while not stop:
            for index, reader in enumerate(readers):
                at[index] = reader.get_records(shardIterator=at[index])["nextShardIterator"]
            time.sleep(0.05)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        going = pool.submit(go_on)
        try:
            response = refused(come_in, "ThrottlingException")
        finally:
            stop.append(True)
        going.result()
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert len(third.sent) == 3, third.sent


# ---- ListStreams --------------------------------------------------------------------------------------------------


@check(14, 15, 16, 17, 18, 19)
def listing():
    for table in ("list_a", "list_b", "list_c"):
        fresh(table)
    everything = streams.list_streams()["streams"]
    assert len(everything) >= 3
    for item in everything:
        assert sorted(item) == ["keyspaceName", "streamArn", "streamLabel", "tableName"], item
    assert streams.list_streams(keyspaceName="elsewhere")["streams"] == []
    assert {item["keyspaceName"] for item in streams.list_streams(keyspaceName="shop")["streams"]} == {"shop"}
    one = streams.list_streams(keyspaceName="shop", tableName="list_a")["streams"]
    assert [item["tableName"] for item in one] == ["list_a"]
    loose = client(valid=False, attempts=1)
    invalid(lambda: loose.list_streams(tableName="list_a"))
    for wrong in (0, 101, -1):
        invalid(lambda: loose.list_streams(maxResults=wrong))
    for right in (1, 100):
        streams.list_streams(maxResults=right)
    found, tokens = [], []
    for page in streams.get_paginator("list_streams").paginate(PaginationConfig={"PageSize": 1}):
        found += [item["streamArn"] for item in page["streams"]]
        tokens.append(page.get("nextToken"))
    assert found == [item["streamArn"] for item in everything], (found, everything)
    assert tokens[-1] is None and all(80 <= len(token) <= 3000 for token in tokens[:-1])


@check(20)
def tokens_that_are_none():
    loose = client(valid=False, attempts=1)
    invalid(lambda: loose.list_streams(nextToken="x" * 100))
    token = streams.list_streams(maxResults=1)["nextToken"]
    invalid(lambda: loose.list_streams(nextToken=token, keyspaceName="shop"))
    invalid(lambda: loose.get_stream(streamArn=enable("plain"), nextToken=token))
    streams.list_streams(maxResults=1, nextToken=token)


# ---- GetStream ----------------------------------------------------------------------------------------------------


@check(22, 23, 24, 25, 26, 27, 28)
def a_stream():
    arn = fresh("described")
    page = streams.get_stream(streamArn=arn)
    needed = "streamArn streamLabel streamStatus streamViewType creationRequestDateTime keyspaceName tableName".split()
    assert all(name in page for name in needed), page
    assert page["streamLabel"] == arn.rsplit("/", 1)[1] and LABEL.fullmatch(page["streamLabel"])
    made = datetime.datetime.fromisoformat(page["streamLabel"]).replace(tzinfo=datetime.timezone.utc)
    assert abs((page["creationRequestDateTime"] - made).total_seconds()) < 1
    assert ARN.fullmatch(arn) and 37 <= len(arn) <= 1024
    for shard in page["shards"]:
        name = shard["shardId"]
        assert 28 <= len(name) <= 65 and name.startswith("shardId-")
        assert abs(int(name.split("-")[1]) / 1000 - shifted().timestamp()) < 3600
        span = shard["sequenceNumberRange"]
        assert re.fullmatch(r"\d{21,48}", span["startingSequenceNumber"])
        assert "endingSequenceNumber" not in span
    cli("streams", "split", "CONFIG", arn)
    closed = [shard for shard in shards(arn) if "endingSequenceNumber" in shard["sequenceNumberRange"]]
    assert len(closed) == 1
    span = closed[0]["sequenceNumberRange"]
    assert int(span["endingSequenceNumber"]) >= int(span["startingSequenceNumber"])
    pages = list(streams.get_paginator("get_stream").paginate(streamArn=arn, PaginationConfig={"PageSize": 1}))
    assert len(pages) == 3
    for other in pages:
        assert {name: other[name] for name in needed} == {name: page[name] for name in needed}, other


@check(29)
def many_shards_page():
    sql("CREATE TABLE shop.wide (id BIGINT PRIMARY KEY, v INT)")
    for _ in range(100):
        try:
            cli("streams", "enable", "CONFIG", "shop.wide", "--shards", "60")
            break
        except RuntimeError:
            sql("ALTER TABLE shop.wide COMMENT = 'seen'")
            time.sleep(0.05)
    arn = arn_of("wide")
    for shard in streams.get_stream(streamArn=arn)["shards"][:30]:
        cli("streams", "split", "CONFIG", arn, shard["shardId"])
    listed = shards(arn)
    assert len(listed) == 120 and len({shard["shardId"] for shard in listed}) == 120
    first = streams.get_stream(streamArn=arn)
    assert len(first["shards"]) == 100 and 80 <= len(first["nextToken"]) <= 3000
    pages = list(streams.get_paginator("get_stream").paginate(streamArn=arn, PaginationConfig={"PageSize": 7}))
    assert all(len(page["shards"]) <= 7 for page in pages)
    assert [s["shardId"] for page in pages for s in page["shards"]] == [s["shardId"] for s in listed]
    assert all(page["streamStatus"] == "ENABLED" for page in pages)


@check(30, 31, 32, 33, 73)
def a_split():
    arn = fresh("splitting")
    for number in range(40):
        sql(f"INSERT INTO shop.splitting VALUES ({number}, 0, 'a')")
    parent = only(arn)
    cli("streams", "split", "CONFIG", arn, parent, "--pieces", "3")
    for turn in range(3):
        for number in range(40):
            sql(f"UPDATE shop.splitting SET v = {turn + 1} WHERE id = {number}")
    children = streams.get_stream(streamArn=arn, shardFilter={"type": "CHILD_SHARDS", "shardId": parent})["shards"]
    listed = shards(arn)
    assert len(children) == 3 and all(child["parentShardIds"] == [parent] for child in children)
    leaf = {"type": "CHILD_SHARDS", "shardId": children[0]["shardId"]}
    assert streams.get_stream(streamArn=arn, shardFilter=leaf).get("shards", []) == []
    loose = client(valid=False, attempts=1)
    invalid(lambda: loose.get_stream(streamArn=arn, shardFilter={"type": "NOPE", "shardId": parent}))
    invalid(lambda: loose.get_stream(streamArn=arn, shardFilter={"type": "CHILD_SHARDS"}))
    by_id = {shard["shardId"]: shard["sequenceNumberRange"] for shard in listed}
    assert "endingSequenceNumber" in by_id[parent]
    for child in children:
        assert child["shardId"] in by_id
        assert int(child["sequenceNumberRange"]["startingSequenceNumber"]) > int(by_id[parent]["endingSequenceNumber"])
    for shard in listed:
        for of in shard.get("parentShardIds", []):
            assert of not in by_id or "endingSequenceNumber" in by_id[of]
    order = {}
    for record in walk(arn, limit=7):
        order.setdefault(record["partitionKeys"]["id"]["bigintT"], []).append(
            record["newImage"]["valueCells"]["v"]["value"]["intT"]
        )
    assert len(order) == 40 and all(values == ["0", "1", "2", "3"] for values in order.values()), order


@check(34)
def arns_that_are_none():
    loose = client(valid=False, attempts=1)
    arn = enable("plain")
    for wrong in ("", "x" * 50, "arn:aws:s3:::bucket/" + "x" * 30, arn.rsplit("/", 2)[0], arn + "/x"):
        invalid(lambda: loose.get_stream(streamArn=wrong))
    refused(lambda: loose.get_stream(streamArn=arn.replace("/plain/", "/plaid/")), "ResourceNotFoundException")


# ---- GetShardIterator and GetRecords ------------------------------------------------------------------------------


@check(35, 36, 37, 38, 39, 40, 42)
def iterators():
    arn = fresh("iterated")
    shard = only(arn)
    start = streams.get_stream(streamArn=arn)["shards"][0]["sequenceNumberRange"]["startingSequenceNumber"]
    assert streams.get_records(shardIterator=iterator(arn, shard, "AT_SEQUENCE_NUMBER", start))["changeRecords"] == []
    early = iterator(arn, shard, "LATEST")
    for number in range(5):
        sql(f"INSERT INTO shop.iterated VALUES ({number}, 1, 'a')")
    found, ended = drain(arn, shard)
    numbers = [record["sequenceNumber"] for record in found]
    assert len(numbers) == 5 and not ended
    assert len(streams.get_records(shardIterator=early)["changeRecords"]) == 5
    for kind in ("TRIM_HORIZON", "LATEST", "AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER"):
        assert 1 <= len(iterator(arn, shard, kind, numbers[2])) <= 4096

    def at(kind, number=None):
        page = streams.get_records(shardIterator=iterator(arn, shard, kind, number))
        return [record["sequenceNumber"] for record in page["changeRecords"]]

    assert at("AT_SEQUENCE_NUMBER", numbers[2]) == numbers[2:]
    assert at("AFTER_SEQUENCE_NUMBER", numbers[2]) == numbers[3:]
    assert at("TRIM_HORIZON", numbers[2]) == numbers and at("LATEST", numbers[2]) == []
    assert at("AFTER_SEQUENCE_NUMBER", "9" * 21) == []
    loose = client(valid=False, attempts=1)

    def get(**more):
        asked = {"streamArn": arn, "shardId": shard, "shardIteratorType": "LATEST", **more}
        return lambda: loose.get_shard_iterator(**asked)

    invalid(get(shardIteratorType="AT_SEQUENCE_NUMBER"))
    invalid(get(shardIteratorType="AFTER_SEQUENCE_NUMBER"))
    invalid(get(shardIteratorType="AT_SEQUENCE_NUMBER", sequenceNumber="x" * 21))
    invalid(get(shardIteratorType="AT_SEQUENCE_NUMBER", sequenceNumber="1"))
    invalid(get(shardIteratorType="AT_TIMESTAMP"))
    refused(get(shardId="shardId-00000000000000000001-00000001"), "ResourceNotFoundException")
    refused(get(shardId="x" * 40), "ResourceNotFoundException")


@check(43, 44, 45, 47, 48, 50, 72)
def reading():
    arn = fresh("reading")
    shard = only(arn)
    before = shifted()
    values = ", ".join(f"({number}, {number}, 'row {number}')" for number in range(2500))
    sql(f"INSERT INTO shop.reading VALUES {values}")
    first = streams.get_records(shardIterator=iterator(arn, shard))
    assert len(first["changeRecords"]) == 100, "the default page"
    loose = client(valid=False, attempts=1)
    for wrong in (0, 1001):
        invalid(lambda: loose.get_records(shardIterator=iterator(arn, shard), maxResults=wrong))
    at, found, positions = iterator(arn, shard), [], []
    for _ in range(2500):
        page = streams.get_records(shardIterator=at, maxResults=1000)
        assert len(page["changeRecords"]) <= 1000
        found += page["changeRecords"]
        positions.append(page["iteratorDescription"]["iteratorPosition"])
        assert page["nextShardIterator"] and page["nextShardIterator"] != ""
        again = streams.get_records(shardIterator=at, maxResults=1000)["changeRecords"]
        assert again == page["changeRecords"], "the same place gives the same records"
        at = page["nextShardIterator"]
        if positions[-1] == "AT_TIP":
            break
    assert set(positions[:-1]) == {"BEHIND_TIP"}, positions
    numbers = [int(record["sequenceNumber"]) for record in found]
    assert len(numbers) == 2500 and all(a < b for a, b in zip(numbers, numbers[1:]))
    assert sorted(int(record["partitionKeys"]["id"]["bigintT"]) for record in found) == list(range(2500))
    slack = datetime.timedelta(seconds=1)
    for record in found:
        assert before - slack <= record["createdAt"] <= shifted() + slack
    good = iterator(arn, shard)
    for place in (0, len(good) // 2, len(good) - 1):
        bad = good[:place] + ("A" if good[place] != "A" else "B") + good[place + 1 :]
        invalid(lambda: loose.get_records(shardIterator=bad))
    for bad in ("", "x", "a" * 4096, "a" * 5000, good + good):
        invalid(lambda: loose.get_records(shardIterator=bad))


@check(51)
def big_rows_are_capped_by_size():
    arn = fresh("big", "id BIGINT PRIMARY KEY, s LONGTEXT")
    for number in range(4):
        sql(f"INSERT INTO shop.big VALUES ({number}, REPEAT('x', 1000000))")
    shard = only(arn)
    at, sizes = iterator(arn, shard), []
    while sum(sizes) < 4:
        page = streams.get_records(shardIterator=at, maxResults=1000)
        sizes.append(len(page["changeRecords"]))
        at = page["nextShardIterator"]
        assert len(sizes) < 50
    assert max(sizes) == 1, sizes


# ---- records ------------------------------------------------------------------------------------------------------


def changes(arn):
    return [(record, sorted(name for name in ("newImage", "oldImage") if name in record)) for record in walk(arn)]


@check(54, 55, 57, 58, 69, 70)
def records():
    arn = fresh("rows")
    sql("INSERT INTO shop.rows VALUES (1, 10, 'a')")
    sql("UPDATE shop.rows SET v = 11 WHERE id = 1")
    sql("DELETE FROM shop.rows WHERE id = 1")
    seen = changes(arn)
    assert [images for _, images in seen] == [["newImage"], ["newImage", "oldImage"], ["oldImage"]], seen
    for record, images in seen:
        assert record["partitionKeys"] == {"id": {"bigintT": "1"}} and record["clusteringKeys"] == {}
        assert record["eventVersion"] == "1.0" and record["origin"] == "USER"
        for image in images:
            assert sorted(record[image]["valueCells"]) == ["id", "s", "v"], record
            assert record[image]["valueCells"]["id"]["value"] == {"bigintT": "1"}
    update = seen[1][0]
    assert update["oldImage"]["valueCells"]["v"]["value"] == {"intT": "10"}
    assert update["newImage"]["valueCells"]["v"]["value"] == {"intT": "11"}
    sql("INSERT INTO shop.rows VALUES " + ", ".join(f"({number}, 1, 'x')" for number in range(10, 30)))
    assert len(changes(arn)) == 23
    sql("DELETE FROM shop.rows WHERE id >= 10")
    assert [images for _, images in changes(arn)[23:]] == [["oldImage"]] * 20
    sql("BEGIN; INSERT INTO shop.rows VALUES (50, 1, 'a'); UPDATE shop.rows SET v = 2 WHERE id = 50; UPDATE shop.rows SET v "
        "= 3 WHERE id = 50; INSERT INTO shop.rows VALUES (51, 1, 'a'); COMMIT")
    batch = [record for record, _ in changes(arn)[43:]]
    of_fifty = [r["newImage"]["valueCells"]["v"]["value"]["intT"] for r in batch if r["partitionKeys"]["id"]["bigintT"] == "50"]
    assert len(batch) == 4 and of_fifty == ["1", "2", "3"], batch
    sql("INSERT IGNORE INTO shop.rows VALUES (51, 9, 'z')")
    sql("DELETE FROM shop.rows WHERE id = 777")
    assert len(changes(arn)) == 47, "what changes nothing is no record"


@check(71)
def conditional_writes():
    arn = fresh("conditional")
    sql("INSERT INTO shop.conditional VALUES (1, 1, 'a')")
    sql("UPDATE shop.conditional SET v = 9 WHERE id = 1 AND v = 777")
    sql("INSERT IGNORE INTO shop.conditional VALUES (1, 9, 'z')")
    assert len(walk(arn)) == 1, "a condition that does not hold makes no record"
    sql("UPDATE shop.conditional SET v = 2 WHERE id = 1 AND v = 1")
    applied = walk(arn)[1:]
    assert [record["newImage"]["valueCells"]["v"]["value"] for record in applied] == [{"intT": "2"}], applied


@check("54c", 69, 74, 75)
def a_table_that_is_adopted_with_clustering_columns():
    sql("CREATE TABLE shop.clustered (a INT, b INT, v INT, PRIMARY KEY (a, b))")
    for _ in range(100):
        try:
            tables.create_table(
                keyspaceName="shop",
                tableName="clustered",
                schemaDefinition={
                    "allColumns": [{"name": name, "type": "int"} for name in "abv"],
                    "partitionKeys": [{"name": "a"}],
                    "clusteringKeys": [{"name": "b", "orderBy": "ASC"}],
                },
                cdcSpecification={"status": "ENABLED"},
            )
            break
        except tables.exceptions.ValidationException:
            sql("ALTER TABLE shop.clustered COMMENT = 'seen'")
            time.sleep(0.05)
    table = tables.get_table(keyspaceName="shop", tableName="clustered")
    arn = table["latestStreamArn"]
    assert table["cdcSpecification"] == {"status": "ENABLED", "viewType": "NEW_AND_OLD_IMAGES"}, table
    stream = streams.get_stream(streamArn=arn)
    assert (stream["streamStatus"], stream["streamViewType"]) == ("ENABLED", "NEW_AND_OLD_IMAGES"), stream
    sql("INSERT INTO shop.clustered VALUES (1, 2, 3)")
    record = walk(arn)[0]
    assert record["partitionKeys"] == {"a": {"intT": "1"}} and record["clusteringKeys"] == {"b": {"intT": "2"}}, record
    sql("INSERT INTO shop.clustered VALUES (1, 1, 3), (1, 3, 3), (1, 4, 3), (2, 1, 3)")

    def deleted(statement):
        before = len(walk(arn))
        sql(statement)
        gone = changes(arn)[before:]
        assert all(images == ["oldImage"] for _, images in gone), gone
        key = lambda record: (record["partitionKeys"]["a"]["intT"], record["clusteringKeys"]["b"]["intT"])
        return sorted(key(record) for record, _ in gone)

    assert deleted("DELETE FROM shop.clustered WHERE a = 1 AND b >= 3") == [("1", "3"), ("1", "4")]
    assert deleted("DELETE FROM shop.clustered WHERE a = 1") == [("1", "1"), ("1", "2")], "a whole partition"
    off, on = {"status": "DISABLED"}, {"status": "ENABLED"}
    for one in (off, on):
        tables.update_table(keyspaceName="shop", tableName="clustered", cdcSpecification=one)
    again = arn_of("clustered")
    assert again != arn and streams.get_stream(streamArn=again)["streamViewType"] == "NEW_AND_OLD_IMAGES"


@check(56)
def views():
    shown = {}
    for view in ("NEW_IMAGE", "OLD_IMAGE", "KEYS_ONLY"):
        table = "view_" + view.lower()
        arn = fresh(table, view=view)
        sql(f"INSERT INTO shop.{table} VALUES (1, 10, 'a')")
        sql(f"UPDATE shop.{table} SET v = 11 WHERE id = 1")
        sql(f"DELETE FROM shop.{table} WHERE id = 1")
        shown[view] = [images for _, images in changes(arn)]
    assert shown == {
        "NEW_IMAGE": [["newImage"], ["newImage"], []],
        "OLD_IMAGE": [[], ["oldImage"], ["oldImage"]],
        "KEYS_ONLY": [[], [], []],
    }, shown


def values_of(text, found):
    """Every value object of an answer: an object with a member that ends in T."""
    if isinstance(text, dict):
        if "valueCells" not in text and any(re.fullmatch(r"[a-z]+T", name) for name in text):
            found.append(text)
        for name, member in text.items():
            if name == "value" and isinstance(member, dict):
                found.append(member)
            values_of(member, found)
    elif isinstance(text, list):
        for member in text:
            values_of(member, found)


@check(61, 62, 64, 65)
def types():
    columns = (
        "id BIGINT PRIMARY KEY, ti TINYINT, si SMALLINT, i INT, bi BIGINT, ubi BIGINT UNSIGNED, de DECIMAL(20,4), fl FLOAT, "
        "dbl DOUBLE, da DATE, tm TIME(3), dt DATETIME(3), ts TIMESTAMP(6) NULL, c VARCHAR(50), a VARCHAR(50) CHARACTER SET "
        "ascii, bl BLOB, bo BIT(1), js JSON, en ENUM('x','y'), se SET('a','b','c'), ve VECTOR(2) NULL, nu INT NULL"
    )
    arn = fresh("types", columns)
    sql(
        "INSERT INTO shop.types VALUES (1, -128, -32768, -5, 9223372036854775807, 18446744073709551615, 123.4560, 1.5, "
        "1.7976e300, '2026-11-29', '12:34:56.789', '2026-11-29 10:00:00.123', '2026-11-29 10:00:00.123456', 'ž\"\\\\', "
        "'plain', x'00000001', b'1', '{\"k\": 1}', 'y', 'a,c', TO_VECTOR('[1.5, -2]'), NULL), (2"
        + ", NULL" * 14
        + ", '', NULL, NULL, NULL, '', NULL, NULL)"
    )
    status, _, text = raw(json.dumps({"shardIterator": iterator(arn, only(arn))}), "KeyspacesStreams.GetRecords")
    assert status == 200
    objects = []
    values_of(json.loads(text), objects)
    assert objects and all(len(one) == 1 for one in objects), [one for one in objects if len(one) != 1]
    first, second = walk(arn)
    cells = {name: cell["value"] for name, cell in first["newImage"]["valueCells"].items()}
    expected = {
        "id": {"bigintT": "1"},
        "ti": {"tinyintT": "-128"},
        "si": {"smallintT": "-32768"},
        "i": {"intT": "-5"},
        "bi": {"bigintT": "9223372036854775807"},
        "ubi": {"varintT": "18446744073709551615"},
        "de": {"decimalT": "123.4560"},
        "fl": {"floatT": "1.5"},
        "da": {"dateT": "2026-11-29"},
        "tm": {"timeT": "12:34:56.789"},
        "dt": {"timestampT": "2026-11-29T10:00:00.123Z"},
        "c": {"textT": 'ž"\\'},
        "a": {"asciiT": "plain"},
        "bl": {"blobT": b"\0\0\0\1"},
        "bo": {"boolT": True},
        "en": {"textT": "y"},
        "se": {"setT": [{"value": {"textT": "a"}}, {"value": {"textT": "c"}}]},
        "js": {"textT": '{"k": 1}'},
        "ve": {"listT": [{"value": {"floatT": "1.5"}}, {"value": {"floatT": "-2.0"}}]},
    }
    for name, value in expected.items():
        assert cells[name] == value, (name, cells[name])
    assert float(cells["dbl"]["doubleT"]) == 1.7976e300 and "nu" not in cells
    empty = {name: cell["value"] for name, cell in second["newImage"]["valueCells"].items()}
    assert empty["bl"] == {"blobT": b""} and empty["se"] == {"setT": []}, empty
    assert sorted(empty) == ["bl", "id", "se"], empty


@check("61 of MariaDB")
def types_of_mariadb():
    arn = fresh("types", "id BIGINT PRIMARY KEY, u UUID, four INET4, six INET6")
    uuid = "123e4567-e89b-12d3-a456-426655440000"
    sql(f"INSERT INTO shop.types VALUES (1, '{uuid}', '127.0.0.1', '2001:db8::1')")
    cells = {name: cell["value"] for name, cell in walk(arn)[0]["newImage"]["valueCells"].items()}
    assert cells == {
        "id": {"bigintT": "1"},
        "u": {"uuidT": uuid},
        "four": {"inetT": "127.0.0.1"},
        "six": {"inetT": "2001:db8::1"},
    }, cells


@check(67)
def write_times_are_digits():
    arn = fresh("written")
    before = time.time_ns() // 1000
    sql("INSERT INTO shop.written VALUES (1, 1, 'a')")
    between = time.time_ns() // 1000
    sql("UPDATE shop.written SET v = 2")
    sql("DELETE FROM shop.written")
    after = time.time_ns() // 1000
    made, changed, gone = walk(arn)
    spans = [(made, before, between), (changed, between, after)]
    for record, first, last in spans:
        metadata = record["newImage"]["rowMetadata"]
        assert list(metadata) == ["writeTime"] and re.fullmatch(r"\d{16}", metadata["writeTime"]), metadata
        assert first <= int(metadata["writeTime"]) <= last, (first, metadata, last)
    for record in (changed, gone):
        assert "rowMetadata" not in record["oldImage"], "when the old row was written, the log does not tell"


# ---- life of a stream, tags, the other doors ----------------------------------------------------------------------


@check(74, 75, 78)
def enabling():
    arn = fresh("enabling")
    table = tables.get_table(keyspaceName="shop", tableName="enabling")
    assert table["latestStreamArn"] == arn
    assert table["cdcSpecification"] == {"status": "ENABLED", "viewType": "NEW_AND_OLD_IMAGES"}
    assert table["resourceArn"].endswith(":/keyspace/shop/table/enabling") and table["status"] == "ACTIVE"
    kinds = {column["name"]: column["type"] for column in table["schemaDefinition"]["allColumns"]}
    assert kinds == {"id": "bigint", "v": "int", "s": "text"}
    assert streams.get_stream(streamArn=arn)["streamStatus"] == "ENABLED"
    assert enable("enabling") == arn, "once more changes nothing"
    refused(lambda: enable("enabling", "KEYS_ONLY"), "ConflictException")
    refused(lambda: tables.get_table(keyspaceName="shop", tableName="nope"), "ResourceNotFoundException")
    schema = {"allColumns": [{"name": "id", "type": "int"}], "partitionKeys": [{"name": "id"}]}
    why = refused(
        lambda: tables.create_table(keyspaceName="shop", tableName="nope", schemaDefinition=schema), "ValidationException"
    )
    assert "made in the source" in why["Error"]["Message"]
    why = refused(
        lambda: tables.create_table(keyspaceName="shop", tableName="enabling", schemaDefinition=schema), "ValidationException"
    )
    assert "is bigint" in why["Error"]["Message"]
    both = {"cdcSpecification": {"status": "ENABLED"}, "ttl": {"status": "ENABLED"}}
    refused(lambda: tables.update_table(keyspaceName="shop", tableName="enabling", **both), "ValidationException")
    listed = tables.list_tables(keyspaceName="shop")["tables"]
    assert "enabling" in [item["tableName"] for item in listed]
    assert tables.get_keyspace(keyspaceName="shop")["replicationStrategy"] == "SINGLE_REGION"
    assert "shop" in [item["keyspaceName"] for item in tables.list_keyspaces()["keyspaces"]]


@check(21, 46, 76, 77)
def disabling():
    arn = fresh("ending", view="KEYS_ONLY")
    for number in range(5):
        sql(f"INSERT INTO shop.ending VALUES ({number}, 1, 'a')")
    off = {"status": "DISABLED"}
    tables.update_table(keyspaceName="shop", tableName="ending", cdcSpecification=off)
    tables.update_table(keyspaceName="shop", tableName="ending", cdcSpecification=off)
    sql("INSERT INTO shop.ending VALUES (99, 1, 'a')")
    page = streams.get_stream(streamArn=arn)
    assert page["streamStatus"] == "DISABLED"
    assert all("endingSequenceNumber" in shard["sequenceNumberRange"] for shard in page["shards"])
    found, ended = drain(arn, only(arn), limit=2)
    assert ended and len(found) == 5
    last = streams.get_records(shardIterator=iterator(arn, only(arn), "LATEST"))
    assert last["changeRecords"] == [] and "nextShardIterator" not in last
    assert arn in [item["streamArn"] for item in streams.list_streams()["streams"]]
    again = enable("ending", "NEW_IMAGE")
    assert again != arn and arn_of("ending") == again
    assert streams.get_stream(streamArn=again)["streamViewType"] == "NEW_IMAGE"
    assert len(drain(arn, only(arn))[0]) == 5, "the old one stays readable"
    sql("INSERT INTO shop.ending VALUES (100, 1, 'a')")
    assert len(walk(again)) == 1


@check(79)
def tags():
    table = "tagged"
    first = fresh(table)
    tables.update_table(keyspaceName="shop", tableName=table, cdcSpecification={"status": "DISABLED"})
    of_table = tables.get_table(keyspaceName="shop", tableName=table)["resourceArn"]
    tables.tag_resource(resourceArn=of_table, tags=[{"key": "team", "value": "blue"}])
    arn = enable(table, propagateTags="TABLE", tags=[{"key": "a", "value": "1"}])

    def shown(of):
        return {tag["key"]: tag["value"] for tag in tables.list_tags_for_resource(resourceArn=of)["tags"]}

    assert shown(arn) == {"team": "blue", "a": "1"}
    tables.tag_resource(resourceArn=arn, tags=[{"key": "b", "value": "2"}, {"key": "a", "value": "3"}])
    assert shown(arn) == {"team": "blue", "a": "3", "b": "2"}
    tables.untag_resource(resourceArn=arn, tags=[{"key": "b", "value": "2"}, {"key": "a", "value": "other"}])
    assert shown(arn) == {"team": "blue", "a": "3"}
    pages = tables.list_tags_for_resource(resourceArn=arn, maxResults=1)
    more = tables.list_tags_for_resource(resourceArn=arn, maxResults=1, nextToken=pages["nextToken"])
    assert len(pages["tags"]) == len(more["tags"]) == 1 and "nextToken" not in more
    refused(lambda: tables.tag_resource(resourceArn=first, tags=[{"key": "a", "value": "1"}]), "ConflictException")
    reserved = [{"key": "aws:x", "value": "1"}]
    refused(lambda: tables.tag_resource(resourceArn=arn, tags=reserved), "ValidationException")
    stranger = arn.replace(":000000000000:", ":111111111111:")
    refused(lambda: tables.list_tags_for_resource(resourceArn=stranger), "ResourceNotFoundException")
    many = [{"key": f"k{number}", "value": "v"} for number in range(60)]
    refused(lambda: tables.tag_resource(resourceArn=arn, tags=many), "ServiceQuotaExceededException")


def cbor(value):
    def head(major, count):
        if count < 24:
            return bytes([major << 5 | count])
        return bytes([major << 5 | 25]) + count.to_bytes(2, "big")

    if isinstance(value, dict):
        body = b"".join(cbor(name) + cbor(member) for name, member in value.items())
        return b"\xbf" + body + b"\xff"
    return head(3, len(value.encode())) + value.encode()


@check(80)
def rpc_v2_cbor():
    fresh("spoken")
    headers = {"Content-Type": "application/cbor", "Accept": "application/cbor", "smithy-protocol": "rpc-v2-cbor", "X-Amz-Target": None}

    def call(operation, body):
        return raw(cbor(body), path=f"/service/KeyspacesService/operation/{operation}", headers=headers)

    status, answered, text = call(
        "UpdateTable", {"keyspaceName": "shop", "tableName": "spoken", "cdcSpecification": {"status": "ENABLED"}}
    )
    assert status == 200 and answered["content-type"] == "application/cbor", (status, text)
    assert answered["smithy-protocol"] == "rpc-v2-cbor" and b"resourceArn" in text and text[0] >> 5 == 5
    status, answered, text = call("GetTable", {"keyspaceName": "shop", "tableName": "nope"})
    assert status == 404 and b"ResourceNotFoundException" in text and answered["content-type"] == "application/cbor"
    status, _, text = call("GetTable", {"keyspaceName": "shop", "tableName": "spoken"})
    assert status == 200 and b"\xc1" in text, "a time is tagged"
    assert raw(b"\xff", path="/service/KeyspacesService/operation/GetTable", headers=headers)[0] == 400


@check(81)
def cql():
    fresh("worded")
    statement = "SELECT cdc, custom_properties FROM system_schema_mcs.tables WHERE keyspace_name = 'shop' AND table_name = 'worded'"

    def row():
        return json.loads(cli("cql", "CONFIG", statement, "--json"))["rows"][0]

    arn = arn_of("worded")
    assert row() == [
        True,
        {"cdc_specification": {"latest_stream_arn": arn, "status": "ENABLED", "view_type": "NEW_AND_OLD_IMAGES"}},
    ]
    cli("cql", "CONFIG", "ALTER TABLE shop.worded WITH cdc = FALSE")
    assert row() == [False, {}]
    assert streams.get_stream(streamArn=arn)["streamStatus"] == "DISABLED"
    cli(
        "cql",
        "CONFIG",
        "ALTER TABLE shop.worded WITH cdc = TRUE AND CUSTOM_PROPERTIES = {'cdc_specification': {'view_type': 'KEYS_ONLY', "
        "'tags': {'a': 'b'}}}",
    )
    again = arn_of("worded")
    assert streams.get_stream(streamArn=again)["streamViewType"] == "KEYS_ONLY"
    cli("cql", "CONFIG", "ALTER TABLE shop.worded ADD TAGS_FOR_CDC {'c': 'd'}")
    cli("cql", "CONFIG", "ALTER TABLE shop.worded DROP TAGS_FOR_CDC {'a': 'b'}")
    assert tables.list_tags_for_resource(resourceArn=again)["tags"] == [{"key": "c", "value": "d"}]
    shown = "SELECT resource_type, tags FROM system_schema_mcs.tags WHERE resource_id = '%s'" % again
    assert json.loads(cli("cql", "CONFIG", shown, "--json"))["rows"] == [["stream", {"c": "d"}]]
    listed = json.loads(cli("cql", "CONFIG", "SELECT * FROM system_schema_mcs.streams", "--json"))["rows"]
    assert {again, arn} <= {item[3] for item in listed}
    try:
        cli("cql", "CONFIG", "DROP TABLE shop.worded")
        raise AssertionError("a table was dropped")
    except RuntimeError as error:
        assert "not understood" in str(error)


# ---- who may do what ----------------------------------------------------------------------------------------------


@check("iam")
def policies():
    arn, other = fresh("secret_a"), fresh("secret_b")
    reader = client(key="reader", attempts=1)
    sql("INSERT INTO shop.secret_a VALUES (1, 1, 'a')")
    assert len(drain(arn, only(arn), reader=reader)[0]) == 1
    refused(lambda: reader.get_stream(streamArn=other), "AccessDeniedException")
    refused(lambda: iterator(other, only(other), reader=reader), "AccessDeniedException")
    # An iterator that another gave away opens nothing.
    leaked = iterator(other, only(other))
    refused(lambda: reader.get_records(shardIterator=leaked), "AccessDeniedException")
    refused(lambda: reader.list_streams(), "AccessDeniedException")
    hand = client("keyspaces", key="reader", attempts=1)
    off = {"status": "DISABLED"}
    error = refused(
        lambda: hand.update_table(keyspaceName="shop", tableName="secret_a", cdcSpecification=off), "AccessDeniedException"
    )
    assert error["ResponseMetadata"]["HTTPStatusCode"] == 403
    nobody = client(key="nobody", attempts=1)
    refused(lambda: nobody.get_stream(streamArn=arn), "AccessDeniedException")
    stranger = client(key="stranger", attempts=1)
    refused(lambda: stranger.list_streams(), "UnrecognizedClientException")
    # The second listener lets only ListStreams through, whatever the key allows.
    private = client(endpoint=SECOND, attempts=1)
    assert private.list_streams()["streams"]
    refused(lambda: private.get_stream(streamArn=arn), "AccessDeniedException")
    # What is not there and what may not be seen look the same to whom nothing is allowed.
    refused(lambda: nobody.get_stream(streamArn=arn.replace("secret_a", "secret_z")), "AccessDeniedException")


@check("hostile")
def hostile():
    arn = fresh("calm")
    shard = only(arn)
    at = [iterator(arn, shard)]

    def normal():
        began = time.monotonic()
        at[0] = streams.get_records(shardIterator=at[0])["nextShardIterator"]
        took = time.monotonic() - began
        assert took < 2, f"a normal reader waited {took} s"

    def code(answer):
        return json.loads(answer[2])["__type"]

    normal()
    assert code(raw("{}", key=None)) == "MissingAuthenticationTokenException"
    assert code(raw("{}", at=shifted() - datetime.timedelta(seconds=901))) == "InvalidSignatureException"
    assert raw("{}", at=shifted() - datetime.timedelta(seconds=890))[0] == 200
    assert code(raw("{}", change=lambda body, sent: (b"{ }", {**sent, "Content-Length": "3"}))) == "InvalidSignatureException"
    cut = lambda body, sent: (body, {**sent, "Authorization": sent["Authorization"][:40]})
    assert code(raw("{}", change=cut)) == "IncompleteSignatureException"
    other = lambda body, sent: (body, {**sent, "X-Amz-Target": "KeyspacesStreams.GetRecords"})
    assert code(raw("{}", change=other)) == "InvalidSignatureException"
    status, _, text = raw("x" * 10_000_000)
    assert status == 413 and b"RequestEntityTooLarge" in text
    assert code(raw("[" * 100_000)) == "SerializationException"
    assert code(raw('{"a":' * 100_000)) == "SerializationException"
    normal()
    # Heads that never end, and bodies that never come.
    slow = []
    for head in (b"POST / HTTP/1.1\r\nHost: x\r\nX-A: ", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"):
        for _ in range(20):
            one = socket.create_connection(HOST.split(":"), timeout=30)
            one.sendall(head)
            slow.append(one)
    normal()
    began = time.monotonic()
    for one in slow:
        while one.recv(4096):
            pass
        one.close()
    assert time.monotonic() - began < 20, "slow clients are sent away"
    for junk in (b"\0" * 100, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n", b"A" * 200_000):
        one = socket.create_connection(HOST.split(":"), timeout=30)
        try:
            one.sendall(junk)
            one.recv(4096)
        except OSError:
            pass
        one.close()
    normal()


@check("metrics")
def metrics():
    arn = fresh("measured")
    sql("INSERT INTO shop.measured VALUES (1, 1, 'a'), (2, 1, 'a')")
    assert len(walk(arn)) == 2
    watch = client("cloudwatch")
    about = {"Keyspace": "shop", "TableName": "measured", "Operation": "GetRecords"}
    pairs = lambda given: [{"Name": name, "Value": value} for name, value in given.items()]
    listed = watch.list_metrics(Namespace="AWS/Cassandra", MetricName="ReturnedRecordsCount", Dimensions=pairs(about))
    labels = [{d["Name"]: d["Value"] for d in metric["Dimensions"]} for metric in listed["Metrics"]]
    assert about in labels and {**about, "StreamLabel": arn.rsplit("/", 1)[1]} in labels, labels
    stat = lambda name, kind: {
        "Id": name.lower(),
        "MetricStat": {
            "Metric": {"Namespace": "AWS/Cassandra", "MetricName": name, "Dimensions": pairs(about)},
            "Period": 60,
            "Stat": kind,
        },
    }
    names = [("ReturnedRecordsCount", "Sum"), ("SuccessfulRequestLatency", "SampleCount"), ("SystemErrors", "Sum")]
    now = shifted()
    found = watch.get_metric_data(
        MetricDataQueries=[stat(*one) for one in names],
        StartTime=now - datetime.timedelta(minutes=5),
        EndTime=now + datetime.timedelta(minutes=5),
    )["MetricDataResults"]
    sums = {one["Id"]: sum(one["Values"]) for one in found}
    assert sums["returnedrecordscount"] == 2 and sums["successfulrequestlatency"] >= 1 and sums["systemerrors"] == 0, sums
    old = watch.get_metric_statistics(
        Namespace="AWS/Cassandra",
        MetricName="ReturnedRecordsCount",
        Dimensions=pairs(about),
        StartTime=now - datetime.timedelta(minutes=5),
        EndTime=now + datetime.timedelta(minutes=5),
        Period=300,
        Statistics=["Sum", "Maximum"],
    )["Datapoints"]
    assert sum(point["Sum"] for point in old) == 2 and old[0]["Unit"] == "Count"


# ---- what takes time: last, because the clock does not go back ----------------------------------------------------


@check(49, "20 aged")
def what_grows_old():
    arn = fresh("aging")
    shard = only(arn)
    sql("INSERT INTO shop.aging VALUES (1, 1, 'a'), (2, 1, 'a')")
    page = streams.get_records(shardIterator=iterator(arn, shard), maxResults=1)
    token = streams.list_streams(maxResults=1)["nextToken"]
    clock(OFFSET + 901)
    old = json.dumps({"shardIterator": page["nextShardIterator"]})
    status, _, text = raw(old, "KeyspacesStreams.GetRecords")
    assert status == 400 and json.loads(text)["errorCode"] == "ExpiredIterator", text
    status, _, text = raw(json.dumps({"maxResults": 1, "nextToken": token}))
    assert status == 400 and json.loads(text)["errorCode"] == "ExpiredNextToken", text

    def get(target, **body):
        status, _, text = raw(json.dumps(body), "KeyspacesStreams." + target)
        assert status == 200, text
        return json.loads(text)

    last = page["changeRecords"][0]["sequenceNumber"]
    place = get("GetShardIterator", streamArn=arn, shardId=shard, shardIteratorType="AFTER_SEQUENCE_NUMBER", sequenceNumber=last)
    found = get("GetRecords", shardIterator=place["shardIterator"])["changeRecords"]
    assert len(found) == 1, "it goes on exactly where it was"


@check(41, 53, "21 gone")
def what_is_trimmed():
    def get(target, want=200, **body):
        status, _, text = raw(json.dumps(body), "KeyspacesStreams." + target)
        assert status == want, text
        return json.loads(text)

    def hand(target, **body):
        status, _, text = raw(json.dumps(body), "KeyspacesService." + target)
        assert status == 200, text
        return json.loads(text)

    arn = hand("GetTable", keyspaceName="shop", tableName="aging")["latestStreamArn"]
    ended = [item["streamArn"] for item in get("ListStreams")["streams"] if item["tableName"] == "ending"]
    assert len(ended) == 2, "a disabled stream is listed for its day"
    shard = get("GetStream", streamArn=arn)["shards"][0]["shardId"]
    floating = {"streamArn": arn, "shardId": shard, "shardIteratorType": "TRIM_HORIZON"}
    first = get("GetRecords", shardIterator=get("GetShardIterator", **floating)["shardIterator"])["changeRecords"][0]
    written = first["createdAt"]
    clock(OFFSET + 12 * 3600)
    sql("INSERT INTO shop.aging VALUES (3, 1, 'a'), (4, 1, 'a'), (5, 1, 'a'), (6, 1, 'a'), (7, 1, 'a')")
    # Readers at work when the first two are trimmed: at the horizon, among what goes, among what stays.
    clock(int(written + 24 * 3600 - 300 - time.time()))
    get_page = lambda at, **more: get("GetRecords", shardIterator=at, **more)
    ids = lambda page: [record["partitionKeys"]["id"]["bigintT"] for record in page["changeRecords"]]
    horizon = get("GetShardIterator", **floating)["shardIterator"]
    going = get_page(horizon, maxResults=1)
    staying = get_page(get_page(horizon, maxResults=2)["nextShardIterator"], maxResults=2)
    assert (ids(going), ids(staying)) == (["1"], ["3", "4"])
    clock(OFFSET + 600)
    assert ids(get_page(horizon)) == ["3", "4", "5", "6", "7"]
    assert ids(get_page(staying["nextShardIterator"])) == ["5", "6", "7"], "no retained record is skipped or repeated"
    assert get("GetRecords", 400, shardIterator=going["nextShardIterator"])["errorCode"] == "TrimmedDataAccess"
    old = {**floating, "shardIteratorType": "AT_SEQUENCE_NUMBER", "sequenceNumber": first["sequenceNumber"]}
    assert get("GetShardIterator", 400, **old)["errorCode"] == "TrimmedDataAccess"
    found = get("GetRecords", shardIterator=get("GetShardIterator", **floating)["shardIterator"])["changeRecords"]
    assert ids({"changeRecords": found}) == ["3", "4", "5", "6", "7"], found
    left = [item["streamArn"] for item in get("ListStreams")["streams"] if item["tableName"] == "ending"]
    assert left == ended[1:], (left, ended)


def main():
    sql("CREATE TABLE IF NOT EXISTS shop.plain (id BIGINT PRIMARY KEY, v INT)")
    for table in ("fence", "plain"):
        for _ in range(400):
            try:
                arn = enable(table)
                break
            except tables.exceptions.ResourceNotFoundException:
                time.sleep(0.05)
        if table == "fence":
            FENCE["shard"] = only(arn)
            FENCE["arn"] = arn
    failed = 0
    for items, function in CHECKS:
        names = [str(item) for item in items]
        if ONLY and not ONLY & set(names):
            continue
        if not ONLY and names[0].endswith("of MariaDB"):
            continue
        began = time.monotonic()
        try:
            function()
            print(f"PASS {', '.join(names)} ({time.monotonic() - began:.1f} s)", flush=True)
        except Exception:
            failed += 1
            lines = traceback.format_exc().splitlines()
            print(f"FAIL {', '.join(names)}", flush=True)
            print("\n".join("    " + line for line in lines[-12:]), flush=True)
    sys.exit(1 if failed else 0)


main()

#!/usr/bin/env python3
"""The ClickHouse engine (chdb) behind ClickHouse's own HTTP interface, for tests.

    [HTTPS=PORT:CERT.pem:KEY.pem] clickhouse_http.py PORT DATA_DIR [CONFIG.xml]

One process is one server: the engine opens DATA_DIR and locks it. It speaks what real clients use: queries
in the body or in `query`, settings in the URL, sessions, parameters, chunked bodies, LZ4 and zstd blocks both ways
(`compress`, `decompress`), gzip and LZ4 frames as Content-Encoding. Not there: users and passwords, the native
protocol, KILL QUERY, progress headers. An insert whose body breaks off is not committed.
"""
import email
import email.policy
import json
import os
import re
import socket
import ssl
import struct
import sys
import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import chdb
import lz4.block
import lz4.frame
import zstandard
from clickhouse_cityhash.cityhash import CityHash128

PORT = int(sys.argv[1])
ENGINE = sys.argv[2] + (f"?config-file={sys.argv[3]}" if len(sys.argv) > 3 else "")

# URL parameters that are no settings.
NOT_SETTINGS = {
    "query", "database", "default_format", "query_id", "session_id", "session_timeout", "session_check",
    "compress", "decompress", "user", "password", "quota_key", "wait_end_of_query", "buffer_size", "role",
    "enable_http_compression", "http_zlib_compression_level", "client_protocol_version",
}
BLOCK = 1 << 20
INSERT = re.compile(r"^\s*(?:/\*.*?\*/\s*)*INSERT\s+INTO\s", re.I | re.S)
FORMAT = re.compile(r"\bFORMAT\s+([A-Za-z0-9_]+)\s*;?\s*$", re.I)
SELECT = re.compile(r"\bSELECT\b", re.I)
CODE = re.compile(r"Code: (\d+)")
# Statuses as the real server gives them; all else is 500.
STATUSES = {"60": 404, "81": 404, "36": 404, "62": 400, "47": 400, "497": 403, "516": 403}

root = chdb.connect(ENGINE)  # keeps the engine alive
sessions = {}
sessions_lock = threading.Lock()


class BrokenOff(Exception):
    """The client went away inside a body."""


def from_blocks(data):
    """ClickHouse's own compressed blocks: 16 bytes of hash, method, two sizes, payload."""
    out, at = [], 0
    while at < len(data):
        method, packed, plain = struct.unpack_from("<BII", data, at + 16)
        payload = data[at + 25 : at + 16 + packed]
        if method == 0x82:
            out.append(lz4.block.decompress(payload, uncompressed_size=plain))
        elif method == 0x90:
            out.append(zstandard.ZstdDecompressor().decompress(payload, max_output_size=plain))
        elif method == 0x02:
            out.append(payload)
        else:
            raise ValueError(f"compression method {method:#x}")
        at += 16 + packed
    return b"".join(out)


def to_blocks(data):
    out = []
    for at in range(0, len(data), BLOCK):
        plain = data[at : at + BLOCK]
        packed = lz4.block.compress(plain, store_size=False)
        body = struct.pack("<BII", 0x82, len(packed) + 9, len(plain)) + packed
        digest = CityHash128(body)
        low, high = digest if isinstance(digest, tuple) else (digest & (2**64 - 1), digest >> 64)
        out.append(struct.pack("<QQ", high, low) + body)
    return b"".join(out)


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 20

    def log_message(self, *_):
        pass

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            length = int(self.headers.get("Content-Length") or 0)
            data = self.rfile.read(length)
            if len(data) < length:
                raise BrokenOff
            return data
        out = []
        while True:
            line = self.rfile.readline()
            if not line:
                raise BrokenOff
            size = int(line.split(b";")[0], 16)
            if size == 0:
                self.rfile.readline()
                return b"".join(out)
            data = self.rfile.read(size)
            if len(data) < size:
                raise BrokenOff
            out.append(data)
            self.rfile.readline()

    def answer(self, status, data, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        address = urlsplit(self.path)
        if address.path == "/ping" or (address.path == "/" and not address.query):
            return self.answer(200, b"Ok.\n")
        self.run(b"")

    def do_POST(self):
        try:
            body = self.body()
        except (BrokenOff, ValueError, OSError):
            self.close_connection = True
            return
        self.run(body)

    def engine(self, session):
        """A connection and its lock; a session keeps its connection."""
        if not session:
            return chdb.connect(ENGINE), threading.Lock(), True
        with sessions_lock:
            if session not in sessions:
                sessions[session] = (chdb.connect(ENGINE), threading.Lock())
            return *sessions[session], False

    def parts(self, body, parameters):
        """Takes a multipart body apart: the query, and its parameters."""
        head = b"Content-Type: " + self.headers["Content-Type"].encode() + b"\r\n\r\n"
        message = email.message_from_bytes(head + body, policy=email.policy.HTTP)
        query = b""
        for part in message.iter_parts():
            name = part.get_param("name", header="content-disposition")
            value = part.get_payload(decode=True)
            if name == "query":
                query = value
            elif name.startswith("param_"):
                parameters[name[6:]] = value.decode()
        return query

    def run(self, body):
        pairs = parse_qsl(urlsplit(self.path).query, keep_blank_values=True)
        words = dict(pairs)
        parameters = {name[6:]: value for name, value in pairs if name.startswith("param_")}
        connection = None
        passing = False
        try:
            if words.get("decompress") == "1" and body:
                body = from_blocks(body)
            encoding = (self.headers.get("Content-Encoding") or "").lower()
            if encoding == "lz4":
                body = lz4.frame.decompress(body)
            elif encoding == "gzip":
                body = zlib.decompress(body, 31)
            elif encoding == "zstd":
                body = zstandard.ZstdDecompressor().decompressobj().decompress(body)
            if self.headers.get("Content-Type", "").startswith("multipart/form-data"):
                body = self.parts(body, parameters)
            if "query" in words:
                sql, data = words["query"], body
            else:
                sql, data = body.decode("utf-8", "surrogateescape"), b""
                # Clients may send an insert's statement and its rows in one body.
                if INSERT.match(sql) and "\n" in sql and not SELECT.search(sql.split("\n", 1)[0]):
                    first, rest = body.split(b"\n", 1)
                    if FORMAT.search(first.decode("utf-8", "surrogateescape")):
                        sql, data = first.decode("utf-8", "surrogateescape"), rest
            connection, lock, passing = self.engine(words.get("session_id"))
            with lock:
                if words.get("database"):
                    connection.query("USE `%s`" % words["database"].replace("`", "``"))
                for name, value in pairs:
                    if name not in NOT_SETTINGS and not name.startswith("param_"):
                        connection.query(f"SET {name}={quoted(value)}")
                if INSERT.match(sql) and not SELECT.search(sql) and (data or "query" in words):
                    return self.insert(connection, sql, data)
                headers, out = self.select(connection, sql + data.decode(), words, parameters)
            if words.get("compress") == "1":
                out = to_blocks(out)
            elif words.get("enable_http_compression", "1") == "1":
                accepted = self.headers.get("Accept-Encoding") or ""
                if "lz4" in accepted:
                    out = lz4.frame.compress(out, block_linked=False)
                    headers.append(("Content-Encoding", "lz4"))
                elif "zstd" in accepted:
                    out = zstandard.ZstdCompressor(level=1).compress(out)
                    headers.append(("Content-Encoding", "zstd"))
            self.answer(200, out, headers)
        except (BrokenPipeError, ConnectionError):
            self.close_connection = True
        except Exception as error:  # noqa: BLE001, every trouble of the engine is the client's answer
            text = str(error)
            found = CODE.search(text)
            code = found.group(1) if found else "1"
            text = text[found.start() :] if found else text
            self.answer(STATUSES.get(code, 500), text.encode(), [("X-ClickHouse-Exception-Code", code)])
        finally:
            if passing:
                connection.close()

    def insert(self, connection, sql, data):
        found = FORMAT.search(sql)
        if found:
            head, shape = sql[: found.start()], found.group(1)
        else:
            head, shape = re.sub(r"\bVALUES\s*$", "", sql, flags=re.I), "Values"
        insert = connection.send_insert(head, shape)
        try:
            insert.append(data)
            rows = insert.finish().rows_written
        except BaseException:
            try:
                insert.cancel()
            except Exception:  # noqa: BLE001, the first trouble is the one to tell
                pass
            raise
        summary = json.dumps({"written_rows": str(rows), "read_rows": str(rows)})
        self.answer(200, b"", [("X-ClickHouse-Summary", summary)])

    def select(self, connection, sql, words, parameters):
        found = None if INSERT.match(sql) else FORMAT.search(sql)
        shape = found.group(1) if found else None
        shape = shape or words.get("default_format") or self.headers.get("X-ClickHouse-Format") or "TabSeparated"
        result = connection.query(sql, shape, params=parameters) if parameters else connection.query(sql, shape)
        out = bytes(result.bytes() or b"") if hasattr(result, "bytes") else b""
        headers = [
            ("X-ClickHouse-Format", shape),
            ("X-ClickHouse-Query-Id", words.get("query_id", "none")),
            ("X-ClickHouse-Timezone", "UTC"),
        ]
        return headers, out


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def process_request(self, request, client_address):
        request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().process_request(request, client_address)


class SecureServer(Server):
    """As the real server's second port; a client is greeted in its own thread, so that a bad one holds up nobody."""

    def __init__(self, address, certificate, key):
        super().__init__(address, Handler)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)

    def finish_request(self, request, client_address):
        try:
            secure = self.context.wrap_socket(request, server_side=True)
        except OSError:
            return
        super().finish_request(secure, client_address)
        secure.close()


if __name__ == "__main__":
    if "HTTPS" in os.environ:
        port, certificate, key = os.environ["HTTPS"].split(":", 2)
        secure = SecureServer(("127.0.0.1", int(port)), certificate, key)
        threading.Thread(target=secure.serve_forever, daemon=True).start()
    server = Server(("127.0.0.1", PORT), Handler)
    print("ready", flush=True)
    server.serve_forever()

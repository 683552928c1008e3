#!/usr/bin/env python3
"""Answers Weir's [auth.http] from a table of SQL: sqlite here, others as the comments say.

    python3 sql.py --make users.db                    # an empty table
    python3 sql.py --add users.db ann < password      # a user
    python3 sql.py users.db --port 8080

    users(name TEXT PRIMARY KEY, salt BLOB, hash BLOB, superuser INTEGER)
    rules(id INTEGER PRIMARY KEY, name TEXT, permission TEXT, action TEXT, topic TEXT)

Whatever goes wrong here is status 500, with which the broker lets nobody in.
"""

import argparse
import hashlib
import hmac
import json
import os
import sqlite3
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BODY_BYTES_MAX = 256 * 1024

TABLES = """
CREATE TABLE users(name TEXT PRIMARY KEY, salt BLOB NOT NULL, hash BLOB NOT NULL,
    superuser INTEGER NOT NULL DEFAULT 0);
CREATE TABLE rules(id INTEGER PRIMARY KEY, name TEXT NOT NULL, permission TEXT NOT NULL,
    action TEXT NOT NULL, topic TEXT NOT NULL);
"""


def connect(path):
    # PostgreSQL: import psycopg; return psycopg.connect(path), and %s for each ? below. A pool
    # (psycopg_pool.ConnectionPool) spares a connection for each question.
    return sqlite3.connect(path)


def hash_of(password, salt):
    return hashlib.scrypt(password.encode(), salt=salt, n=2**14, r=8, p=1)


def answer(database, asked):
    """What the broker is told of a client."""
    name, password = asked.get("username"), asked.get("password")
    if not isinstance(name, str) or not isinstance(password, str):
        return {"result": "ignore"}
    found = database.execute("SELECT salt, hash, superuser FROM users WHERE name = ?", (name,))
    row = found.fetchone()
    # A user that is not there takes as long.
    salt, right, superuser = row or (b"\0" * 16, b"", 0)
    if not hmac.compare_digest(hash_of(password, salt), right):
        return {"result": "deny"}
    rules = database.execute(
        "SELECT permission, action, topic FROM rules WHERE name = ? ORDER BY id", (name,)
    )
    acl = [dict(zip(("permission", "action", "topic"), rule)) for rule in rules]
    return {"result": "allow", "is_superuser": bool(superuser), "acl": acl}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections stay open for the next question
    timeout = 60
    path_of_database = None

    def do_POST(self):
        try:
            length = int(self.headers["Content-Length"])
            if length > BODY_BYTES_MAX:
                raise ValueError("the body is too long")
            asked = json.loads(self.rfile.read(length))
            database = connect(self.path_of_database)
            try:
                status, said = 200, answer(database, asked)
            finally:
                database.close()
        except Exception as error:
            self.log_error("%s", error)
            self.close_connection = True
            status, said = 500, {"error": "see the log of the service"}
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, *_):
        pass


class Server(ThreadingHTTPServer):
    # The broker opens up to 64 connections at once.
    request_queue_size = 64


def add(path, name, superuser):
    salt = os.urandom(16)
    row = (name, salt, hash_of(sys.stdin.readline().rstrip("\r\n"), salt), superuser)
    with connect(path) as database:
        database.execute("INSERT OR REPLACE INTO users VALUES (?, ?, ?, ?)", row)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("database")
    parser.add_argument("user", nargs="?", help="with --add: the user, its password on standard input")
    parser.add_argument("--make", action="store_true", help="make the tables")
    parser.add_argument("--add", action="store_true", help="add a user, or change its password")
    parser.add_argument("--superuser", action="store_true", help="with --add: it may do everything")
    parser.add_argument("--port", type=int, default=8080, help="on 127.0.0.1; 0 takes a free one")
    options = parser.parse_args()
    if options.make:
        connect(options.database).executescript(TABLES)
    elif options.add:
        add(options.database, options.user, options.superuser)
    else:
        Handler.path_of_database = options.database
        server = Server(("127.0.0.1", options.port), Handler)
        print(f"listening on 127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()

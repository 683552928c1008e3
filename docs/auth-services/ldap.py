#!/usr/bin/env python3
"""Answers Weir's [auth.http] from a directory (LDAP): a client is let in if its user can bind with
its password, and has the rights of its groups. Needs ldap3 (pip install ldap3). Users have to be
allowed to read their own entries, and which groups they are members of.

    LDAP_URL=ldaps://ldap.example.org \\
    LDAP_USER='uid={},ou=people,dc=example,dc=org' \\
    LDAP_GROUPS='ou=groups,dc=example,dc=org' \\
    LDAP_RIGHTS=rights.json python3 ldap.py --port 8080

rights.json has a list of rules for each group, as EMQX has them:

    {"sensors": [{"permission": "allow", "action": "publish", "topic": "up/${username}/#"}],
     "operators": [{"permission": "allow", "action": "all", "topic": "#"}]}

Whatever goes wrong here is status 500, with which the broker lets nobody in.
"""

import argparse
import json
import os
import ssl
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import ldap3
from ldap3.core.exceptions import LDAPInvalidCredentialsResult
from ldap3.utils.conv import escape_filter_chars
from ldap3.utils.dn import escape_rdn

BODY_BYTES_MAX = 256 * 1024
# Shorter than auth.http.timeout_ms: who gives up first here says why. ldap3 takes whole seconds.
WAIT_S = 1


class Directory:
    def __init__(self, environment):
        self.tls = ldap3.Tls(validate=ssl.CERT_REQUIRED)
        self.url = environment["LDAP_URL"]
        self.user, self.groups = environment["LDAP_USER"], environment["LDAP_GROUPS"]
        with open(environment["LDAP_RIGHTS"], encoding="utf-8") as file:
            self.rights = json.load(file)

    def answer(self, asked):
        """What the broker is told of a client."""
        name, password = asked.get("username"), asked.get("password")
        # A bind without a password is one of nobody, and succeeds at most servers.
        if not isinstance(name, str) or not isinstance(password, str) or not name or not password:
            return {"result": "ignore"}
        user = self.user.format(escape_rdn(name))
        # One that could not be reached once is passed over by ldap3 for five minutes: so each
        # question has its own.
        server = ldap3.Server(self.url, tls=self.tls, connect_timeout=WAIT_S, get_info=ldap3.NONE)
        bound = ldap3.Connection(
            server, user, password, receive_timeout=WAIT_S, raise_exceptions=True
        )
        try:
            bound.bind()
        except LDAPInvalidCredentialsResult:
            return {"result": "deny"}
        try:
            # A directory takes " ANN" for ann, which to the broker would be another user.
            attribute = self.user.partition("=")[0]
            own = "(objectClass=*)"
            bound.search(user, own, search_scope=ldap3.BASE, attributes=[attribute])
            if not any(name in entry[attribute].values for entry in bound.entries):
                return {"result": "deny"}
            member = f"(member={escape_filter_chars(user)})"
            bound.search(self.groups, member, attributes=["cn"])
            groups = [name for entry in bound.entries for name in entry.cn.values]
        finally:
            bound.unbind()
        acl = [rule for group in groups for rule in self.rights.get(group, [])]
        return {"result": "allow", "acl": acl}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections stay open for the next question
    timeout = 60
    directory = None

    def do_POST(self):
        try:
            length = int(self.headers["Content-Length"])
            if length > BODY_BYTES_MAX:
                raise ValueError("the body is too long")
            status, said = 200, self.directory.answer(json.loads(self.rfile.read(length)))
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


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=8080, help="on 127.0.0.1; 0 takes a free one")
    options = parser.parse_args()
    Handler.directory = Directory(os.environ)
    server = Server(("127.0.0.1", options.port), Handler)
    print(f"listening on 127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()

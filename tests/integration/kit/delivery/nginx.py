# SPDX-License-Identifier: Apache-2.0
"""nginx with WebDAV's PUT: what it was sent are files in its folder."""
import os
import socket

from kit.transact import until


class Nginx:
    """On a free port of 127.0.0.1."""

    def __init__(self, bench):
        self.root, self.log = bench.path("dav"), bench.path("nginx.access")
        os.makedirs(self.root)
        os.chmod(self.root, 0o777)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        path = bench.path("nginx.conf")
        with open(path, "w") as file:
            file.write(
                "daemon off; master_process off; pid nginx.pid;\n"
                "error_log stderr; events {}\nhttp {\n"
                "log_format sizes '$status $request_length $uri';\n"
                "access_log %s sizes;\n"
                "client_body_temp_path tmp; client_max_body_size 64m;\n"
                "server { listen 127.0.0.1:%d; root %s; location / {\n"
                "dav_methods PUT; create_full_put_path on; } } }\n"
                % (self.log, self.port, self.root))
        self.child = bench.start(
            ["nginx", "-p", bench.scratch, "-c", path, "-e", "stderr"],
            stderr=open(bench.path("nginx.log"), "w"))
        until(self.answers)

    def answers(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def requests(self):
        """[(status, bytes of the request with its head, path)]"""
        with open(self.log) as file:
            rows = [line.split(" ", 2) for line in file]
        return [(int(status), int(size), path.rstrip("\n"))
                for status, size, path in rows]

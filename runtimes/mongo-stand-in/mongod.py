#!/usr/bin/env python3
"""The stand-in for MongoDB: a server that speaks its protocol (SecantusDB), started from a mongod.conf.

Keys that it obeys: net.port, net.bindIp, net.maxIncomingConnections, net.unixDomainSocket.{enabled, pathPrefix, filePermissions},
net.tls.{mode, certificateKeyFile, CAFile, allowConnectionsWithoutCertificates}, security.authorization, storage.dbPath,
storage.wiredTiger.engineConfig.cacheSizeGB, replication.replSetName, and setParameter.berthMember, `host:port` of the only member
of the replica set, which `replSetInitiate` decides in MongoDB. All others are ignored.

As in MongoDB, connections of the unix socket may do everything until the first user exists, and rotateCertificates replaces the certificate for
new connections. Dropping a user ends the user's other connections, and those that have not logged in.
"""

import argparse
import contextlib
import logging
import os
import signal
import socket
import ssl
import threading

import yaml
from mongod_writes import sync_writes, write_commits
from secantus import __version__, commands
from secantus.server import SecantusDBServer, _tune_client_socket

HANDSHAKE_SECONDS = 10
IDLE_SECONDS = 7 * 24 * 3600

log = logging.getLogger("mongod")


class StandIn(SecantusDBServer):
    """Serves TCP, with TLS if configured, and a unix socket without it."""

    _thread_of = threading.local()
    _authorization = False

    def __init__(self, config):
        self._config = config
        net = config.get("net", {})
        storage = config.get("storage", {})
        replication = config.get("replication", {})
        cache = storage.get("wiredTiger", {}).get("engineConfig", {}).get("cacheSizeGB", 0.25)
        super().__init__(
            host=str(net.get("bindIp", "127.0.0.1")).split(",")[0],
            port=int(net.get("port", 27017)),
            storage_path=str(storage.get("dbPath", "/data/db")),
            replica_set_name=replication.get("replSetName"),
            require_auth=config.get("security", {}).get("authorization") == "enabled",
            enable_test_commands=False,
            client_idle_timeout_s=IDLE_SECONDS,
            max_connections=int(net.get("maxIncomingConnections", 400)),
            cache_size=f"{max(1, int(float(cache) * 1024))}M",
        )
        host, _, port = str(config.get("setParameter", {}).get("berthMember", "")).rpartition(":")
        self._member = (host, int(port)) if host else None
        self._unix = None
        self.load_certificate()

    @property
    def require_auth(self):
        first_user = getattr(self._thread_of, "unix", False) and not self.storage.list_users(limit=1)
        return self._authorization and not first_user

    @require_auth.setter
    def require_auth(self, value):
        self._authorization = value

    @property
    def address(self):
        """Drivers connect to what `hello` calls the members of the replica set."""
        return self._member or super().address

    def load_certificate(self):
        tls = self._config.get("net", {}).get("tls", {})
        if tls.get("mode", "disabled") == "disabled":
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls["certificateKeyFile"])
        if "CAFile" in tls:
            context.load_verify_locations(cafile=tls["CAFile"])
            optional = tls.get("allowConnectionsWithoutCertificates") is True
            context.verify_mode = ssl.CERT_OPTIONAL if optional else ssl.CERT_REQUIRED
        self._ssl_context = context

    def start(self):
        super().start()
        options = self._config.get("net", {}).get("unixDomainSocket", {})
        if options.get("enabled", True) is False:
            return
        path = f"{options.get('pathPrefix', '/tmp')}/mongodb-{self.port}.sock"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        self._unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._unix.bind(path)
        os.chmod(path, int(options.get("filePermissions", 0o700)))
        self._unix.listen()
        threading.Thread(target=self._accept, args=(self._unix, self._serve_unix), daemon=True).start()
        log.info("Waiting for connections at %s and port %d", path, self.port)

    def stop(self):
        # Only this ends a waiting accept(); closing does not.
        for listener in (self._socket, self._unix):
            if listener is not None:
                with contextlib.suppress(OSError):
                    listener.shutdown(socket.SHUT_RDWR)
        super().stop()

    def _serve_forever(self):
        self._accept(self._socket, self._serve_tcp)

    def _accept(self, listener, serve):
        """Each connection has its own thread from the start: a slow handshake must not keep the others waiting."""
        while not self._stop_event.is_set():
            try:
                connection, address = listener.accept()
            except OSError:
                return
            with self._active_conns_lock:
                # Clients on the network must not keep the host from its database.
                refused = listener is not self._unix and self._active_conns >= self.max_connections
                if not refused:
                    self._active_conns += 1
            if refused:
                connection.close()
                continue
            threading.Thread(target=serve, args=(connection, address), name="secantus-conn-client", daemon=True).start()

    def _serve_tcp(self, connection, address):
        _tune_client_socket(connection)
        if self._ssl_context is not None:
            try:
                connection.settimeout(HANDSHAKE_SECONDS)
                connection = self._ssl_context.wrap_socket(connection, server_side=True)
            except (ssl.SSLError, OSError) as error:
                log.info("The TLS handshake of %s failed: %s", address[0], error)
                connection.close()
                with self._active_conns_lock:
                    self._active_conns -= 1
                return
        connection.settimeout(self.client_idle_timeout_s)
        self._handle_client(connection, address)

    def _serve_unix(self, connection, _address):
        self._thread_of.unix = True
        connection.settimeout(self.client_idle_timeout_s)
        self._handle_client(connection, ("unix", 0))


def add_commands(server):
    """What MongoDB has and this version of the server lacks; its internals are pinned together with it."""

    def rotate_certificates(_doc, _ctx):
        try:
            server.load_certificate()
        except (OSError, ssl.SSLError) as error:
            return {"ok": 0.0, "errmsg": f"The certificate cannot be loaded: {error}", "code": 1, "codeName": "InternalError"}
        return {"ok": 1.0}

    drop_user = commands._HANDLERS["dropUser"]

    def drop_user_and_connections(doc, ctx):
        reply = drop_user(doc, ctx)
        if reply.get("ok"):
            for connection in server.connections.snapshot():
                # Those without a user may be about to log in, with a password that was valid when they began.
                theirs = connection.user in (None, f"{doc['dropUser']}@{ctx.db_name}")
                if theirs and connection.conn_id != ctx.connection_id:
                    server.connections.kill(connection.conn_id)
        return reply

    commands._HANDLERS["rotateCertificates"] = rotate_certificates
    commands._HANDLERS["dropUser"] = drop_user_and_connections
    # Of administrators of the cluster only, as in MongoDB.
    for name in ("rotateCertificates", "replSetStepDown", "killAllSessions", "killAllSessionsByPattern"):
        commands._COMMAND_ACTIONS[name] = commands._COMMAND_ACTIONS["fsync"]
    # They contain passwords, and who may read a profile is not who may read these.
    commands._PROFILE_SKIP_COMMANDS |= {"createUser", "updateUser"}


def main():
    parser = argparse.ArgumentParser(prog="mongod", description="The stand-in for MongoDB.")
    parser.add_argument("--config", "-f", default="/etc/mongod.conf", help="a mongod.conf")
    parser.add_argument("--version", action="version", version=f"stand-in for MongoDB: SecantusDB {__version__}")
    with open(parser.parse_args().config, encoding="utf-8") as file:
        config = yaml.safe_load(file) or {}
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(message)s")
    log.warning("This is not MongoDB. It is the stand-in for it, SecantusDB %s, which is beta software.", __version__)
    write_commits()
    server = StandIn(config)
    add_commands(server)
    sync_writes(server)
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    server.start()
    stopped.wait()
    log.info("Stopping")
    server.stop()
    log.info("Stopped")


if __name__ == "__main__":
    main()

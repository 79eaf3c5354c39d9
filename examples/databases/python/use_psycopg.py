import base64, os, tempfile
from psycopg_pool import ConnectionPool

# libpq reads the certificate from a file.
certificate = tempfile.NamedTemporaryFile(suffix=".pem")
certificate.write(base64.b64decode(os.environ["POSTGRES_CERTIFICATE"]))
certificate.flush()

pool = ConnectionPool(
    os.environ["POSTGRES_URL"],
    kwargs={"sslmode": "verify-full", "sslrootcert": certificate.name},
    # Replaces a connection that has ended before it is used.
    check=ConnectionPool.check_connection,
    timeout=10,
    open=True,
)


def count_visit():
    with pool.connection() as connection:
        connection.execute("create table if not exists visits (at timestamptz not null default now())")
        connection.execute("insert into visits default values")
        return connection.execute("select count(*) from visits").fetchone()[0]

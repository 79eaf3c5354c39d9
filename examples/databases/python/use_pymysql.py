import base64, os, ssl
from urllib.parse import urlsplit
import pymysql

url = urlsplit(os.environ["MYSQL_URL"])
certificate = base64.b64decode(os.environ["MYSQL_CERTIFICATE"]).decode()


def connect():
    return pymysql.connect(
        host=url.hostname,
        port=url.port,
        user=url.username,
        password=url.password,
        database="default",
        ssl=ssl.create_default_context(cadata=certificate),
        autocommit=True,
    )


def count_visit():
    with connect() as connection, connection.cursor() as cursor:
        cursor.execute("create table if not exists visits (id int auto_increment primary key)")
        cursor.execute("insert into visits values ()")
        cursor.execute("select count(*) from visits")
        return cursor.fetchone()[0]

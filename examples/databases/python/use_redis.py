import base64, os
import redis

client = redis.from_url(
    os.environ["REDIS_URL"],
    ssl_ca_data=base64.b64decode(os.environ["REDIS_CERTIFICATE"]).decode(),
)


def count_visit():
    return client.incr("visits")

# Connects with the URL alone, as a driver does by default: accepted, or refused with its reason.
import os, sys
from urllib.parse import urlsplit

driver, url = sys.argv[1], os.environ['URL']
address = urlsplit(url)
try:
    if driver == 'use_psycopg':
        import psycopg
        psycopg.connect(url).execute('select 1')
    elif driver == 'use_pymysql':
        import pymysql
        pymysql.connect(host=address.hostname, port=address.port, user=address.username, password=address.password)
    elif driver == 'use_redis':
        import redis
        redis.from_url(url).ping()
    elif driver == 'use_pymongo':
        import pymongo
        pymongo.MongoClient(url, serverSelectionTimeoutMS=10_000).admin.command('ping')
    print('accepted')
except Exception as error:
    print(f'refused: {error}')

import base64, os, tempfile
from pymongo import MongoClient

# PyMongo reads the certificate from a file.
certificate = tempfile.NamedTemporaryFile(suffix=".pem")
certificate.write(base64.b64decode(os.environ["MONGO_CERTIFICATE"]))
certificate.flush()

client = MongoClient(os.environ["MONGO_URL"], tlsCAFile=certificate.name)
visits = client["default"]["visits"]


def count_visit():
    visits.insert_one({})
    return visits.count_documents({})

"""Uses the gateway through boto3 with its defaults: python boto3-checks.py <bucket> <prefix>

Prints a line for each check, and ends with 1 when one failed. The gateway and its credentials are in the variables of the AWS CLI.
"""

import hashlib
import io
import os
import ssl
import sys
import threading
import traceback
import urllib.error
import urllib.parse
import urllib.request
import uuid

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

bucket, prefix = sys.argv[1:]
MIB = 1024 * 1024


def client(access_key_id=None, secret=None, **settings):
    config = Config(connect_timeout=10, read_timeout=60, retries={"total_max_attempts": 2}, **settings)
    pair = {
        "aws_access_key_id": access_key_id or os.environ["AWS_ACCESS_KEY_ID"],
        "aws_secret_access_key": secret or os.environ["AWS_SECRET_ACCESS_KEY"],
    }
    return boto3.client("s3", config=config, **pair)


s3 = client()


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def refused(code, status, call, **arguments):
    try:
        call(**arguments)
    except ClientError as error:
        equal((error.response["Error"]["Code"], error.response["ResponseMetadata"]["HTTPStatusCode"]), (code, status))
    else:
        raise AssertionError(f"{code} was expected, but it worked")


def md5(data):
    return hashlib.md5(data).hexdigest()


def body(key, **arguments):
    return s3.get_object(Bucket=bucket, Key=key, **arguments)["Body"].read()


def send(url, data=None, method="GET", headers={}):
    context = ssl.create_default_context(cafile=os.environ["AWS_CA_BUNDLE"]) if url.startswith("https:") else None
    request = urllib.request.Request(url, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def check_bytes():
    key = f"{prefix}bytes"
    data = os.urandom(100_000)
    put = s3.put_object(Bucket=bucket, Key=key, Body=data, ContentType="image/png", Metadata={"of": "boto3"})
    equal(put["ETag"], f'"{md5(data)}"')
    got = s3.get_object(Bucket=bucket, Key=key)
    equal(got["Body"].read(), data)
    equal((got["ContentType"], got["Metadata"], got["ETag"]), ("image/png", {"of": "boto3"}, put["ETag"]))
    equal(body(key, Range="bytes=10-19"), data[10:20])
    head = s3.head_object(Bucket=bucket, Key=key)
    equal((head["ContentLength"], head["ETag"], head["AcceptRanges"]), (100_000, put["ETag"], "bytes"))
    s3.put_object(Bucket=bucket, Key=key, Body=io.BytesIO(data[:5]))
    equal(body(key), data[:5])
    refused("404", 404, s3.head_object, Bucket=bucket, Key=f"{prefix}missing")


def check_files():
    path = os.path.join(os.environ["HOME"], "up.bin")
    with open(path, "wb") as file:
        file.write(os.urandom(20 * MIB))
    seen = []
    lock = threading.Lock()

    def count(number):
        with lock:
            seen.append(number)

    s3.upload_file(path, bucket, f"{prefix}file", ExtraArgs={"ContentType": "video/mp4"}, Callback=count)
    equal(sum(seen), 20 * MIB)
    head = s3.head_object(Bucket=bucket, Key=f"{prefix}file")
    equal((head["ContentLength"], head["ContentType"]), (20 * MIB, "video/mp4"))
    assert head["ETag"].endswith('-3"'), head["ETag"]
    s3.download_file(bucket, f"{prefix}file", f"{path}.back")
    with open(path, "rb") as one, open(f"{path}.back", "rb") as other:
        expected = md5(one.read())
        equal(md5(other.read()), expected)
    # More than the threshold is copied in parts.
    parts = TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=8 * MIB)
    s3.copy({"Bucket": bucket, "Key": f"{prefix}file"}, bucket, f"{prefix}file-copy", Config=parts)
    equal(md5(body(f"{prefix}file-copy")), expected)
    assert s3.head_object(Bucket=bucket, Key=f"{prefix}file-copy")["ETag"].endswith('-3"')
    s3.copy_object(Bucket=bucket, Key=f"{prefix}file-copy", CopySource=f"{bucket}/{prefix}file")
    equal(md5(body(f"{prefix}file-copy")), expected)


AWKWARD = ["with space", "a+b=c", "100%", "%41", "a//b", "d/../x", "d/./x", "folder/", "ünï/コード", "\U0001f600"]
AWKWARD += ["quote'\"<&>", "line\nbreak", "back\\slash", "?query#part", "[x]{y}^`|~", "~tilde", "trailing ", "/first"]


def check_awkward_keys():
    root = f"{prefix}awkward/"
    for name in AWKWARD:
        s3.put_object(Bucket=bucket, Key=root + name, Body=name.encode())
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=root, PaginationConfig={"PageSize": 5})
    listed = [item["Key"][len(root) :] for page in pages for item in page.get("Contents", [])]
    equal(listed, sorted(AWKWARD, key=str.encode))
    older = s3.get_paginator("list_objects").paginate(Bucket=bucket, Prefix=root, PaginationConfig={"PageSize": 5})
    equal([item["Key"][len(root) :] for page in older for item in page.get("Contents", [])], listed)
    for name in AWKWARD:
        equal(body(root + name), name.encode())
        s3.copy_object(Bucket=bucket, Key=f"{prefix}copies/{name}", CopySource={"Bucket": bucket, "Key": root + name})
        equal(body(f"{prefix}copies/{name}"), name.encode())
    folders = s3.list_objects_v2(Bucket=bucket, Prefix=root, Delimiter="/")
    equal({item["Prefix"][len(root) :] for item in folders["CommonPrefixes"]}, {"a/", "d/", "folder/", "ünï/", "/"})
    gone = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": root + name} for name in AWKWARD]})
    equal(sorted(item["Key"] for item in gone["Deleted"]), sorted(root + name for name in AWKWARD))
    equal(s3.list_objects_v2(Bucket=bucket, Prefix=root)["KeyCount"], 0)


def check_thousand_deletions():
    root = f"{prefix}many/"
    for number in range(40):
        s3.put_object(Bucket=bucket, Key=f"{root}{number:04}", Body=b"x")
    keys = [{"Key": f"{root}{number:04}"} for number in range(1000)]
    equal(len(s3.delete_objects(Bucket=bucket, Delete={"Objects": keys})["Deleted"]), 1000)
    equal(s3.list_objects_v2(Bucket=bucket, Prefix=root)["KeyCount"], 0)
    s3.put_object(Bucket=bucket, Key=f"{root}0001", Body=b"x")
    assert "Deleted" not in s3.delete_objects(Bucket=bucket, Delete={"Objects": keys, "Quiet": True})
    refused("MalformedXML", 400, s3.delete_objects, Bucket=bucket, Delete={"Objects": [*keys, {"Key": "one-more"}]})


def check_conditions():
    key = f"{prefix}conditions"
    etag = s3.put_object(Bucket=bucket, Key=key, Body=b"one", IfNoneMatch="*")["ETag"]
    refused("PreconditionFailed", 412, s3.put_object, Bucket=bucket, Key=key, Body=b"two", IfNoneMatch="*")
    refused("PreconditionFailed", 412, s3.put_object, Bucket=bucket, Key=key, Body=b"two", IfMatch=f'"{md5(b"x")}"')
    second = s3.put_object(Bucket=bucket, Key=key, Body=b"two", IfMatch=etag)["ETag"]
    refused("304", 304, s3.get_object, Bucket=bucket, Key=key, IfNoneMatch=second)
    refused("PreconditionFailed", 412, s3.get_object, Bucket=bucket, Key=key, IfMatch=etag)
    source = {"Bucket": bucket, "Key": key}
    copy = {"Bucket": bucket, "Key": f"{key}-copy", "CopySource": source}
    refused("PreconditionFailed", 412, s3.copy_object, **copy, CopySourceIfMatch=etag)
    s3.copy_object(**copy, CopySourceIfMatch=second)


def check_signed_addresses():
    # In regions of Amazon that it knows from before 2014, boto3 signs addresses and forms with version 2 unless told otherwise.
    signing = s3 if s3.meta.region_name == "auto" else client(signature_version="s3v4")
    key = f"{prefix}signed ü+%"
    put = signing.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": key}, ExpiresIn=60)
    equal(send(put, b"by another", "PUT"), (200, b""))
    get = signing.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": key}, ExpiresIn=60)
    equal(send(get), (200, b"by another"))
    status, text = send(get.replace("X-Amz-Expires=60", "X-Amz-Expires=61"))
    assert status == 403 and b"<Code>SignatureDoesNotMatch</Code>" in text, text
    conditions = [["content-length-range", 1, 20], {"success_action_status": "201"}]
    fields = {"success_action_status": "201"}
    form = signing.generate_presigned_post(bucket, f"{prefix}form/${{filename}}", fields, conditions, 60)
    status, text = send_form(form, "größe.txt", b"from a form")
    equal((status, body(f"{prefix}form/größe.txt")), (201, b"from a form"))
    assert b"<ETag>" in text and b"<Location>" in text, text
    status, text = send_form(form, "large.txt", b"x" * 21)
    assert status == 400 and b"<Code>EntityTooLarge</Code>" in text, text


def send_form(form, name, data):
    boundary = uuid.uuid4().hex
    parts = [f'Content-Disposition: form-data; name="{field}"\r\n\r\n{value}' for field, value in form["fields"].items()]
    parts.append(f'Content-Disposition: form-data; name="file"; filename="{name}"\r\nContent-Type: text/plain\r\n\r\n')
    head = "".join(f"--{boundary}\r\n{part}\r\n" for part in parts)[:-2].encode()
    content_type = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    return send(form["url"], head + data + f"\r\n--{boundary}--\r\n".encode(), "POST", content_type)


def check_errors():
    missing = {"Bucket": bucket, "Key": f"{prefix}missing"}
    refused("NoSuchKey", 404, s3.get_object, **missing)
    refused("NoSuchBucket", 404, s3.get_object, Bucket="no-such-bucket", Key="x")
    refused("NoSuchBucket", 404, s3.list_objects_v2, Bucket="no-such-bucket")
    refused("NoSuchUpload", 404, s3.list_parts, **missing, UploadId="unknown")
    refused("SignatureDoesNotMatch", 403, client(secret="x" * 40).get_object, **missing)
    unknown = client(access_key_id="BRTH0123456789ABCDEF")
    refused("InvalidAccessKeyId", 403, unknown.list_objects_v2, Bucket=bucket)
    refused("InvalidAccessKeyId", 403, unknown.put_object, **missing, Body=b"x")
    equal({"public", "private"} - {one["Name"] for one in s3.list_buckets()["Buckets"]}, set())
    s3.head_bucket(Bucket=bucket)
    refused("404", 404, s3.head_bucket, Bucket="no-such-bucket")


failed = False
for name, check in [(name, value) for name, value in globals().items() if name.startswith("check_")]:
    try:
        check()
        print(f"ok {name}")
    except Exception:
        failed = True
        print(f"FAILED {name}\n{traceback.format_exc()}")
sys.exit(failed)

"""When a write of the stand-in for MongoDB counts as stored."""

from secantus import commands, storage


def write_commits():
    """Every commit reaches the kernel before it is acknowledged, so that a killed server loses none: by itself it writes in the background.

    None waits for the disk here: its command does, once for all that it commits.
    """
    open_storage = storage.wt.wiredtiger_open
    commit_batch = storage._commit_batch_transaction

    def open_with_written_commits(home, config):
        written = config.replace("enabled=false,method=fsync", "enabled=true,method=none")
        if written == config:
            raise RuntimeError("The storage is not opened as this version of the server did.")
        return open_storage(home, written)

    storage.wt.wiredtiger_open = open_with_written_commits
    storage._commit_batch_transaction = lambda session, _sync: commit_batch(session, False)


WRITES = (
    *("insert", "update", "delete", "findAndModify", "findandmodify", "bulkWrite", "commitTransaction", "aggregate"),
    *("mapReduce", "mapreduce", "create", "createIndexes", "collMod", "drop", "dropIndexes", "dropDatabase"),
    *("renameCollection", "createUser", "updateUser", "dropUser", "dropAllUsersFromDatabase", "grantRolesToUser"),
    *("revokeRolesFromUser", "createRole", "updateRole", "dropRole", "dropAllRolesFromDatabase"),
    *("createSearchIndexes", "updateSearchIndex", "dropSearchIndex"),
    *("grantPrivilegesToRole", "revokePrivilegesFromRole", "grantRolesToRole", "revokeRolesFromRole"),
)


def waits_for_the_disk(name, doc):
    """By default the majority of a replica set has a write on its disks before it is acknowledged; here that is the only member."""
    if "autocommit" in doc and name != "commitTransaction":
        return False  # its transaction does
    if name == "aggregate" and not writes_a_collection(doc.get("pipeline")):
        return False
    concern = doc.get("writeConcern")
    concern = concern if isinstance(concern, dict) else {}
    journaled = concern.get("j")
    return concern.get("w") in (None, "majority") if journaled is None else bool(journaled)


def writes_a_collection(pipeline):
    last = pipeline[-1] if isinstance(pipeline, list) and pipeline else None
    return isinstance(last, dict) and ("$out" in last or "$merge" in last)


def sync_writes(server):
    """What a command has written is on the disk before its reply, unless the command says that it does not wait for that."""

    def synced(name, handler):
        def handle(doc, ctx):
            reply = handler(doc, ctx)
            if waits_for_the_disk(name, doc) and reply.get("ok"):
                server.storage._session().log_flush("sync=on")
            return reply

        return handle

    for name in WRITES:
        commands._HANDLERS[name] = synced(name, commands._HANDLERS[name])

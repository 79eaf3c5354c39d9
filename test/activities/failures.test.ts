import { ApplicationFailure } from '@temporalio/common'
import test from 'ava'
import { ArchiveRefused } from '../../activities/archives/port.ts'
import { HostUnreachable, ImageUnavailable } from '../../activities/containers/port.ts'
import { withCode } from '../../activities/failures.ts'
import { BodyNotFound } from '../../activities/objects/port.ts'
import { SnapshotCorrupt, SnapshotRefused } from '../../activities/snapshots/port.ts'
import { NoSpaceLeft } from '../../lib/folders/no-space-left.ts'

/** Errors of outside systems: the code of the operation, and whether a retry may help. */
const rows: [error: Error, code: string, again: boolean][] = [
  [new NoSpaceLeft('the disk is full'), 'CONTAINER_INSUFFICIENT_DISK_SPACE', false],
  [new HostUnreachable('no answer'), 'ACTION_FAILED', true],
  [new ImageUnavailable('no such image'), 'DEPLOY_FAILED', false],
  [new ArchiveRefused('INVALID_FILE', 'no archive'), 'INVALID_FILE', false],
  [new SnapshotRefused('too large'), 'ACTION_FAILED', false],
  [new SnapshotCorrupt('a byte differs'), 'SNAPSHOT_CORRUPT', false],
  [new BodyNotFound('b1'), 'DEPLOY_FAILED', false],
]

test('each error of an outside system ends an operation with its code, and is retried where that may help', t => {
  for (const [error, code, again] of rows) {
    const failure = withCode(error) as ApplicationFailure
    t.true(failure instanceof ApplicationFailure, code)
    t.deepEqual([failure.type, !failure.nonRetryable], [code, again], error.constructor.name)
  }
})

test('why an image cannot be had names no folder of the host', t => {
  const reasons =
    'The image berth/node:22 is missing, cannot be pulled and cannot be made: Get "https://registry.test/v2/": timeout; ' +
    "ENOENT: no such file, open '/srv/host/images/work/rootfs.tar'; mmdebstrap: cannot write /var/cache/x/y"
  const { message } = withCode(new ImageUnavailable(reasons)) as ApplicationFailure
  t.is(message, reasons.replace('/srv/host/images/work/', '').replace('/var/cache/x/', ''))
})

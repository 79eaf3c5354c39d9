import { ApplicationFailure } from '@temporalio/common'
import test from 'ava'
import { ArchiveRefused } from '../../activities/archives/port.ts'
import { HostUnreachable, ImageUnavailable, PortTaken } from '../../activities/containers/port.ts'
import { withCode, withEngineCode } from '../../activities/failures.ts'
import { BodyNotFound } from '../../activities/objects/port.ts'
import { SnapshotCorrupt, SnapshotRefused } from '../../activities/snapshots/port.ts'
import { VolumeLost } from '../../activities/volumes/port.ts'
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

test('resources that a host lacks for the start of an engine may return, so the start is repeated', t => {
  const lacking: [Error, string][] = [
    [new NoSpaceLeft('the disk is full'), 'CONTAINER_INSUFFICIENT_DISK_SPACE'],
    [new PortTaken('in use'), 'CONTAINER_NETWORK_CONFLICT'],
    [new VolumeLost('v1'), 'ACTION_FAILED'],
    [new ImageUnavailable('no such image'), 'DEPLOY_FAILED'],
  ]
  for (const [error, code] of lacking) {
    t.like(withEngineCode(error), { type: code, nonRetryable: false })
    t.like(withCode(error), { type: code, nonRetryable: true })
  }
  t.like(withEngineCode(new ArchiveRefused('INVALID_FILE', 'no archive')), { type: 'INVALID_FILE', nonRetryable: true })
})

test('why an image cannot be had names no folder of the host', t => {
  const reasons =
    'The image berth/node:22 is missing, cannot be pulled and cannot be made: Get "https://registry.test/v2/": timeout; ' +
    "ENOENT: no such file, open '/srv/host/images/work/rootfs.tar'; mmdebstrap: cannot write /var/cache/x/y"
  const { message } = withCode(new ImageUnavailable(reasons)) as ApplicationFailure
  t.is(message, reasons.replace('/srv/host/images/work/', '').replace('/var/cache/x/', ''))
})

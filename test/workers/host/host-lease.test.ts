import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { pino } from 'pino'
import { HostUnreachable } from '../../../activities/containers/port.ts'
import { appLocks } from '../../../activities/steps/app-locks.ts'
import { findHostLease } from '../../../db/hosts/host-leases.ts'
import { hostLeaseSeconds, renewEveryMs, sureForMs } from '../../../policy/hosts/host-lease.ts'
import { leased, takeHostLease } from '../../../workers/host/host-lease.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const folder = mkdtempSync(join(tmpdir(), 'berth-lease-'))
test.after.always('remove the folder', () => rmSync(folder, { recursive: true, force: true }))

let names = 0

/** A host name of its own, and processes that want it. */
async function host(t: ExecutionContext) {
  const { db, url } = await database
  const hostId = `h${++names}`
  const start = async (bootId = 'boot-1') => {
    const lease = await takeHostLease({ databaseUrl: url, hostId, folder, bootId, log: pino({ level: 'silent' }) })
    t.teardown(() => lease.release())
    return lease
  }
  const row = () => findHostLease(db, hostId)
  const change = (changes: object) => db('host_leases').where({ host_id: hostId }).update(changes)
  return { hostId, start, row, change, db }
}

/** Resolves once the process knows that another has taken over. */
const reported = (lost: AbortSignal) =>
  new Promise<void>(resolve => (lost.aborted ? resolve() : lost.addEventListener('abort', () => resolve())))

test('a second process of the same host name is refused while the first one renews its lease', async t => {
  const { hostId, start } = await host(t)
  const first = await start()
  const error = await t.throwsAsync(start('boot-of-another-machine'))
  t.regex(
    error?.message ?? '',
    new RegExp(`^The host name ${hostId} is in use by process ${process.pid} on the machine .+`),
  )
  await t.throwsAsync(start(), { message: /is in use/ }, 'nor one of the same machine')
  await first.confirm()
  t.false(first.lost.aborted)
})

test('a name that is no longer renewed is taken over, and its former holder does nothing more', async t => {
  const { start, change, db, hostId } = await host(t)
  const first = await start()
  const calls: string[] = []
  const engine = leased(first, { start: async () => void calls.push('start'), list: async () => ['c1'] }, ['start'])
  const locks = appLocks(first.held)
  await engine.start()
  await locks('app', async () => void calls.push('turn'))
  // While the first one is frozen its lease expires, and another process takes it.
  const holder = { machine: 'another', pid: 1, startTicks: '1', hostname: 'other' }
  await change({ token: 'of-another', holder: JSON.stringify(holder), held_until: db.raw(`now() + interval '1 hour'`) })
  await t.throwsAsync(first.confirm(), { instanceOf: HostUnreachable }, 'it asks, and does not rely on what it knows')
  await reported(first.lost)
  await t.throwsAsync(async () => engine.start(), { instanceOf: HostUnreachable })
  await t.throwsAsync(
    locks('app', async () => void calls.push('turn')),
    { instanceOf: HostUnreachable },
  )
  await t.throwsAsync(first.ended, { message: /does nothing more/ })
  t.deepEqual(await engine.list(), ['c1'], 'it may look')
  t.deepEqual(calls, ['start', 'turn'])
  await first.release()
  t.is((await findHostLease(db, hostId))?.token, 'of-another', 'the lease of the other one stays')
})

test('an expired lease is free for another machine', async t => {
  const { hostId, start, change, row, db } = await host(t)
  await (await start()).release()
  t.is(await row(), undefined)
  const holder = { machine: 'another', pid: 1, startTicks: '1', hostname: 'other' }
  await db.raw('insert into host_leases values (?, ?, ?, ?)', [hostId, 'old', JSON.stringify(holder), new Date(0)])
  const next = await start()
  t.not((await row())?.token, 'old')
  await change({ held_until: new Date(0) })
  await next.confirm()
  t.true(new Date((await row())!.held_until) > new Date(), 'it is renewed before anything relies on it')
  t.false(next.lost.aborted, 'and one that ran out while nobody wanted it goes on')
})

test('a killed process is replaced immediately on its own machine', async t => {
  const { hostId, start, row, change, db } = await host(t)
  const first = await start()
  const { holder } = (await row())!
  await first.release()
  const dead = { ...holder, pid: 2 ** 22 + 1 }
  await db.raw(`insert into host_leases values (?, 'dead', ?, now() + interval '1 hour')`, [
    hostId,
    JSON.stringify(dead),
  ])
  const second = await start()
  await second.confirm()
  // A process of another machine may live, whatever its number is here.
  await second.release()
  const elsewhere = { ...dead, machine: 'another' }
  await db.raw(`insert into host_leases values (?, 'far', ?, now() + interval '1 hour')`, [
    hostId,
    JSON.stringify(elsewhere),
  ])
  const renewing = setInterval(() => {
    change({ held_until: db.raw(`clock_timestamp() + interval '1 hour'`) }).catch(() => {})
  }, 200)
  t.teardown(() => clearInterval(renewing))
  await t.throwsAsync(start(), { message: /is in use/ })
})

test('a process relies on its lease for less time than it lasts, and renews it well before', t => {
  t.true(sureForMs < hostLeaseSeconds * 1000)
  t.true(renewEveryMs * 5 < sureForMs)
})

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'ava'
import { takeHostLease } from '../../workers/host-lease.ts'
import { type Entry, startEntry } from '../kit/entry.ts'
import { bareDocker } from '../kit/host-remains.ts'
import { log, testPlatform } from '../kit/platform.ts'
import { nodeProgram } from '../kit/programs.ts'

const started = testPlatform({ hosts: {} })

/** Whether the kernel has stopped the process. */
function standsStill({ child }: Entry): boolean {
  const stat = readFileSync(`/proc/${child.pid}/stat`, 'utf8')
  return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T')
}

test('a host that stands still is followed by another one, and does nothing more when it wakes', async t => {
  t.timeout(240_000)
  const platform = await started
  const { base } = platform
  const hostId = platform.hostId('a')
  platform.clearLater('a')
  const point = { CRASH_POINT: 'engine.start:before', CRASH_SIGNAL: 'SIGSTOP' }
  const first = startEntry('host', platform.hostSettings('a', point))
  t.teardown(() => first.kill('SIGKILL'))
  await first.ready
  const ana = await platform.api.makeUser()
  const app = await platform.upload(ana, nodeProgram('survived'))
  t.is(app.status, 200, app.text)
  await platform.until(async () => standsStill(first), 90, 'it stands still before it starts the container')

  const folder = join(base.folder, 'hosts', hostId)
  // Comes when the lease has run out, as nobody renews it.
  const other = await takeHostLease({ databaseUrl: base.url, hostId, folder, bootId: 'another', log })

  first.child.kill('SIGCONT')
  t.is(await first.ended, 1, 'it ends itself')
  t.regex(first.output(), /Another process is host \S+ now; this one does nothing more/)
  const { State } = await bareDocker.getContainer(`berth-${app.id}-1`).inspect()
  t.deepEqual([State.Running, State.StartedAt], [false, '0001-01-01T00:00:00Z'], 'it never started the container')
  await other.confirm()
  await other.release()

  await platform.startHost('a')
  t.like(await platform.ended(app.operationId), { state: 'success' }, 'the next one ends what it began')
  await platform.serves(app.domain, 'survived', 60)
})

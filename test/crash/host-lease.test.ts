import { join } from 'node:path'
import test from 'ava'
import { takeHostLease } from '../../workers/host/host-lease.ts'
import { bareDocker } from '../kit/hosts/host-remains.ts'
import { type Entry, isFrozen, startEntry } from '../kit/platform/entry.ts'
import { log, testPlatform } from '../kit/platform/platform.ts'
import { nodeProgram } from '../kit/programs.ts'

const started = testPlatform({ hosts: {} })

test.serial('a frozen host is replaced by another one, and does nothing more when it wakes', async t => {
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
  await platform.until(async () => isFrozen(first), 90, 'it stands still before it starts the container')

  const folder = join(base.folder, 'hosts', hostId)
  // Takes over when the lease has expired.
  const other = await takeHostLease({ databaseUrl: base.url, hostId, folder, bootId: 'another', log })

  first.child.kill('SIGCONT')
  t.is(await first.ended, 1, 'it ends itself')
  t.regex(first.output(), /Another process has taken over host \S+; this one does nothing more/)
  const { State } = await bareDocker.getContainer(`berth-${app.id}-1`).inspect()
  t.deepEqual([State.Running, State.StartedAt], [false, '0001-01-01T00:00:00Z'], 'it never started the container')
  await other.confirm()
  await other.release()

  await platform.startHost('a')
  t.like(await platform.ended(app.operationId), { state: 'success' }, 'the next one ends what it began')
  await platform.serves(app.domain, 'survived', 60)
})

test.serial(
  'of two host processes with one name only the one that renews its lease acts, whichever came first',
  async t => {
    t.timeout(240_000)
    const platform = await started
    platform.clearLater('b')
    const start = (own: Record<string, string> = {}) => {
      // With the most memory, so that what is uploaded comes here.
      const entry = startEntry('host', platform.hostSettings('b', { HOST_MEMORY_MB: '32768', ...own }))
      t.teardown(() => entry.kill('SIGKILL'))
      return entry
    }
    const refused = async (other: Entry) => {
      const late = start()
      const end = await Promise.race([
        late.ended,
        late.ready.then(
          () => 'it acts',
          () => late.ended,
        ),
      ])
      t.is(end, 1, late.output())
      t.regex(late.output(), new RegExp(`is in use by process ${other.child.pid}`))
    }
    /** It would go on between a check of its lease and the effect, if it were let. */
    const endedInItsSleep = async (entry: Entry) => t.is(await entry.ended, 'SIGKILL', 'it never wakes')

    const first = start({ CRASH_POINT: 'engine.start:before', CRASH_SIGNAL: 'SIGSTOP' })
    await first.ready
    await refused(first)
    const ana = await platform.api.makeUser()
    const app = await platform.upload(ana, nodeProgram('survived'))
    t.is(app.status, 200, app.text)
    await platform.until(async () => isFrozen(first), 90, 'it stands still in the middle of the deploy')

    const second = start()
    await second.ready
    t.like(await platform.ended(app.operationId, 120), { state: 'success' }, 'the second ends what the first began')
    await platform.serves(app.domain, 'survived', 60)
    const container = async () => (await bareDocker.getContainer(`berth-${app.id}-1`).inspect()).State
    const state = async () => ({ container: await container(), app: await platform.row(app.id) })
    // No round of automatic snapshots looks at it meanwhile.
    await platform
      .db('apps')
      .where({ id: app.id })
      .update({ snapshot_due_at: new Date(Date.now() + 86_400_000) })
    const before = await state()
    await endedInItsSleep(first)
    t.deepEqual(await state(), before, 'the first changes nothing any more')

    await refused(second)
    second.child.kill('SIGSTOP')
    const third = start()
    await third.ready
    await endedInItsSleep(second)
    t.deepEqual(await state(), before)
    await refused(third)
    await platform.serves(app.domain, 'survived')
    t.is((await platform.api.as(ana).delete(`/v2/apps/${app.id}`)).status, 200, 'the third one acts')
  },
)

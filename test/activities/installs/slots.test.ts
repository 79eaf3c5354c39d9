import { join } from 'node:path'
import test, { type ExecutionContext } from 'ava'
import { openInstallCache } from '../../../activities/installs/cache.ts'
import { installDigestOf } from '../../../activities/installs/earlier.ts'
import { enterReading } from '../../../activities/installs/slots.ts'
import { placement } from '../../../activities/placement/process.ts'
import type { SnapshotRequest } from '../../../activities/snapshots/port.ts'
import { snapshots } from '../../../activities/snapshots/process.ts'
import { MiB } from '../../../lib/bytes.ts'
import { give, lay, ownFolder } from '../../kit/folders.ts'

const made = snapshots()
const never = new AbortController().signal
const uid = process.getuid?.() === 0 ? 10_777 : null

/** A promise that is resolved by hand. */
function gate() {
  let open = () => {}
  const opened = new Promise<void>(resolve => {
    open = resolve
  })
  return { open, opened }
}

/** Places the second release of an application of the account. */
async function place(t: ExecutionContext, account: string) {
  const volume = ownFolder(t)
  const release = join(volume, 'releases/2')
  lay(join(volume, 'files'), { a: 'a' })
  lay(join(release, 'source'), { b: 'b' })
  if (uid !== null) for (const folder of [join(volume, 'files'), release]) give(folder, uid)
  const owner = uid === null ? null : { uid, gid: uid }
  const placing = placement()
  return placing.inSlot(account, never, () => placing.place({ volume, release: 2, path: '', owner, whole: false }))
}

test('an account whose results are being packed can place files, and packs one at a time', async t => {
  t.timeout(60_000)
  const [began, end] = [gate(), gate()]
  let packing = 0
  const held = (request: SnapshotRequest) => {
    packing++
    const { body, totals } = made.make(request)
    began.open()
    const after = async function* () {
      await end.opened
      yield* body
    }
    return { body: after(), totals }
  }
  const root = ownFolder(t)
  const options = { root: join(root, 'installs'), maxBytes: 64 * MiB, freeBytes: 0 }
  const cache = await openInstallCache({ ...options, snapshots: { make: held } as never })
  lay(join(root, 'source'), { a: 'a' })
  const result = { folder: join(root, 'source'), at: 1, ...(await made.digest(join(root, 'source'), never)) }
  for (const key of ['a', 'b', 'c']) cache.keep('ana', key.repeat(64), result)
  await began.opened
  t.deepEqual((await place(t, 'ana')).added, ['b'])
  t.is(packing, 1)
  end.open()
  await cache.settled()
  t.is(cache.size().entries, 3)
})

test('an account whose results are being read can place files, and leaves a slot for another account', async t => {
  t.timeout(60_000)
  const end = gate()
  const held = { digest: () => end.opened.then(() => ({ digest: 'd', bytes: 1, files: 1, pausedMs: 0 })) }
  const waiting = [1, 2, 3].map(() => installDigestOf(held, '/x', 'bob', never))
  t.deepEqual((await place(t, 'bob')).added, ['b'])
  t.is(
    (
      await installDigestOf(
        { digest: async () => ({ digest: 'e', bytes: 1, files: 1, pausedMs: 0 }) },
        '/y',
        'carl',
        never,
      )
    ).digest,
    'e',
  )
  const late = await enterReading('bob', never, 0.01).catch((error: Error) => error)
  t.is(late.name, 'TimeoutError', 'nobody waits for ever')
  end.open()
  t.is((await Promise.all(waiting)).length, 3)
})

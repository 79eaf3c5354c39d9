import type { SerialFn } from 'ava'
import { holdSnapshotSlot, releaseSnapshotSlot } from '../../db/snapshots/snapshot-slots.ts'
import { placeLost } from '../../policy/apps/claims.ts'
import { comesTrue } from '../kit/comes-true.ts'
import type { HostActivities, MakeScene } from './host-scene.ts'

/** The part of the contract about snapshots. */
export function hostSnapshotsContract(test: SerialFn, name: string, scene: MakeScene): void {
  test(`${name}: each snapshot has its own segment, and equal files have the same digest`, async t => {
    const { ask, failure, standing, suffer, release, operationId, db } = await scene('snapshot')
    const take = ({ takeSnapshot }: HostActivities) => takeSnapshot(release, operationId)
    await suffer('no archive holds the files')
    t.like(await failure(take), { type: 'ACTION_FAILED', final: true })
    await suffer(null)
    const [first, second] = [await ask(take), await ask(take, { attempt: 2 })]
    t.not(first.segmentId, second.segmentId)
    t.is(first.digest, second.digest)
    for (const { segmentId, size, sha256 } of [first, second]) {
      t.like(await db('segments').where({ id: segmentId }).first(), { state: 'drawn', refs: 0 }, 'the lane records it')
      t.true(size > 0)
      t.regex(sha256, /^[0-9a-f]{64}$/)
    }
    t.deepEqual(await standing(), { containers: { 1: true }, files: 1, disk: true, busy: 0 })
  })

  test(`${name}: a snapshot waits for a slot of its host, and without one nothing is copied`, async t => {
    const { ask, failure, standing, release, operationId, host, db } = await scene('snapshot')
    const wait = ({ awaitSnapshotPlace }: HostActivities) => awaitSnapshotPlace(release, operationId)
    for (const another of ['another', 'third']) t.true(await holdSnapshotSlot(db, host.id, another))
    const refused = await failure(({ takeSnapshot }) => takeSnapshot(release, operationId))
    t.like(refused, { type: placeLost, final: true })
    const lane = new AbortController()
    const waiting = failure(wait, { signal: lane.signal })
    lane.abort()
    t.like(await waiting, { type: 'cancelled' })
    const taken = ask(wait)
    await releaseSnapshotSlot(db, host.id, 'another')
    await taken
    t.false(await holdSnapshotSlot(db, host.id, 'another'), 'it is this operation’s now')
    await ask(wait, { attempt: 2 })
    t.is((await standing()).busy, 0)
  })

  test(`${name}: a copy that loses its slot, or is cancelled, has ended when it reports that`, async t => {
    const { failure, standing, suffer, release, operationId, host, db } = await scene('snapshot')
    await suffer('it never ends')
    const take = ({ takeSnapshot }: HostActivities) => takeSnapshot(release, operationId)
    const isCopying = () => comesTrue(async () => (await standing()).busy === 1)
    const lane = new AbortController()
    const cancelled = failure(take, { signal: lane.signal })
    await isCopying()
    lane.abort()
    t.like(await cancelled, { type: 'cancelled' })
    t.is((await standing()).busy, 0)

    const losing = failure(take)
    await isCopying()
    t.true(await holdSnapshotSlot(db, host.id, 'third'))
    await db('blob_leases')
      .where({ subject: `snapshot/${host.id}`, holder: operationId })
      .update({ holder: 'another', expires_at: new Date(Date.now() + 600_000) })
    t.like(await losing, { type: placeLost, final: true })
    t.is((await standing()).busy, 0)
  })
}

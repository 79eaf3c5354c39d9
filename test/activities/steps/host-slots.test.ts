import test from 'ava'
import { ImageUnavailable } from '../../../activities/containers/port.ts'
import { buildImages } from '../../../activities/steps/build-images.ts'
import { inSlots } from '../../../activities/steps/host-slots.ts'
import { claimNextOperationFor } from '../../../db/operations/operation-claims.ts'
import { recordStep } from '../../../db/operations/operations.ts'
import { FairSlots } from '../../../lib/async/fair-slots.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import { asActivity } from '../../kit/hosts/activity-context.ts'
import { rows } from '../../kit/rows/rows.ts'
import { testDatabase } from '../../kit/servers/database.ts'

const database = testDatabase()
const run = <T>(work: () => Promise<T>) => asActivity({ run: 'lane', step: 5 }, work)

test('a step holds no slot while it waits for its inputs, and takes none if that wait fails', async t => {
  const slots = new FairSlots({ atOnce: 1 })
  let arrive = () => {}
  const arrived = new Promise<void>(resolve => {
    arrive = resolve
  })
  const done: string[] = []
  const activities = inSlots(
    {
      install: async ({ ownerId }: { ownerId: string }) => void done.push(ownerId),
      fetch: async ({ ownerId }: { ownerId: string }) => void done.push(ownerId),
    },
    () => slots,
    {
      install: async ({ ownerId }) => {
        if (ownerId === 'carl') throw new Error('no registry')
        await arrived
      },
    },
  )
  const waiting = run(() => activities.install({ ownerId: 'ana' }))
  await run(() => activities.fetch({ ownerId: 'bob' }))
  t.deepEqual(done, ['bob'])
  await t.throwsAsync(
    run(() => activities.install({ ownerId: 'carl' })),
    { message: 'no registry' },
  )
  arrive()
  await waiting
  t.deepEqual(done, ['bob', 'ana'])
  t.truthy(slots.enterNow('dora'))
})

test('before its slot an install step awaits the image of its build, and its operation says so', async t => {
  const { db } = await database
  const make = rows(db)
  await make.host('h1')
  const { app, operationId } = await make.app((await make.user()).id)
  await claimNextOperationFor(db, { type: 'app', id: app.id }, { run: 'lane', step: 1 }, [])
  await recordStep(db, operationId, 'waiting for a build slot')
  const { id: deploymentId } = await db('deployments').where({ app_id: app.id }).first()
  const shown = async () => (await db('operations').where({ id: operationId }).first()).step
  let pull = (_?: Error) => {}
  const ensureImage = (image: string, onProgress: (line: string) => void) =>
    new Promise<void>((resolve, reject) => {
      onProgress(`${image}: pulling`)
      pull = error => (error ? reject(error) : resolve())
    })
  const host = { db, engine: { ensureImage }, traits: { id: 'h1' }, appsDomain: 'x.test', diskMbPer256Mb: 10 }
  const images = buildImages(host as never)
  const step = { appId: app.id, number: 1, deploymentId, operationId }
  for (const error of [undefined, new ImageUnavailable('no registry')]) {
    const waiting = run(() => images.installDependencies(step))
    await comesTrue(async () => /^waiting for a build slot: preparing image node:\d+: pulling$/.test(await shown()))
    pull(error)
    await (error ? t.throwsAsync(waiting, { message: /no registry/ }) : waiting)
    t.is(await shown(), 'waiting for a build slot')
  }
})

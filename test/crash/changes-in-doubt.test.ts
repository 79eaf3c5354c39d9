import test from 'ava'
import { operations } from '../../api/s3/operations.ts'
import { blobEndpoints } from '../../api/v1/endpoints.ts'
import { endpoints } from '../../api/v2/endpoints.ts'
import { openDatabase } from '../../db/database.ts'
import { inDoubtMessage } from '../../policy/errors.ts'
import { openApiFor, type TestApi } from '../kit/actors/api.ts'
import { changes as changesOfEndpoints, stored } from '../kit/crash/change-kit.ts'
import { s3Changes } from '../kit/crash/s3-commands.ts'
import { rows } from '../kit/rows/rows.ts'
import { testDatabase } from '../kit/servers/database.ts'
import { type Loss, type Manner, type PostgresLine, postgresLine } from '../kit/servers/postgres-line.ts'

/** What the list leaves out, and why. */
const others: Record<string, string> = {
  'account.authorize.start': 'what it makes is known to nobody when its answer is lost, and ends by itself',
  'account.captcha': 'as account.session.end; a captcha that was spent may be solved again',
  'account.audit': 'reads',
  'apps.create': 'accepted: commits-in-doubt.test.ts',
  'apps.delete': 'accepted: commits-in-doubt.test.ts',
  'apps.start': 'accepted: commits-in-doubt.test.ts',
  'apps.stop': 'accepted: commits-in-doubt.test.ts',
  'apps.restart': 'accepted: commits-in-doubt.test.ts',
  'apps.commit': 'accepted: commits-in-doubt.test.ts',
  'apps.network.purge_cache': 'answered by the proxies, and harmless if it is repeated: edge-acknowledgements.test.ts',
  'apps.snapshots.create': 'accepted: commits-in-doubt.test.ts',
  'apps.snapshots.restore': 'accepted: commits-in-doubt.test.ts',
  'databases.create': 'accepted: commits-in-doubt.test.ts',
  'databases.delete': 'accepted: commits-in-doubt.test.ts',
  'databases.start': 'accepted: commits-in-doubt.test.ts',
  'databases.stop': 'accepted: commits-in-doubt.test.ts',
  'databases.reset': 'accepted: commits-in-doubt.test.ts',
  'databases.snapshots.create': 'accepted, as apps.snapshots.create',
  'databases.snapshots.restore': 'accepted, as apps.snapshots.restore',
  'git.webhook': 'accepted: commits-in-doubt.test.ts',
  'git.app': 'accepted: commits-in-doubt.test.ts',
  'apps.envs.remove': 'as apps.envs.merge, by the same function',
  'apps.files.write': 'on the disk of a host; the configuration file is accepted',
  'apps.files.move': 'on the disk of a host',
  'apps.files.delete': 'on the disk of a host',
  'apps.link': 'asks the git provider first; as apps.unlink',
  'git.connect.begin': 'writes nothing',
  'git.connect.confirm': 'asks the git provider first; may be repeated',
}

const changes = { ...changesOfEndpoints, ...s3Changes }

const database = testDatabase()
const undo: (() => Promise<unknown>)[] = []
let api: TestApi
let line: PostgresLine

test.before('an API with a line of its own', async () => {
  const { db: near, url } = await database
  await rows(near).host('h1', { memoryMb: 1_000_000 })
  await near('hosts').update({ last_seen_at: '2100-01-01' })
  line = await postgresLine(url)
  const db = openDatabase({ url: line.url, pool: 5, statementTimeoutMs: 1000 })
  undo.push(
    () => line.close(),
    () => db.destroy(),
  )
  api = await openApiFor(await database, { services: () => ({ db }) }, undo)
  Object.assign(api.services.config.blob.s3, { extraBuckets: true })
})
test.serial.after.always('end them', async t => {
  for (const step of undo.reverse()) await step()
  t.deepEqual(api?.breaches ?? [], [])
})

test('every endpoint that changes something is in the list, or has a reason why not', t => {
  const changing = [...endpoints, ...blobEndpoints].filter(({ method, changes, changesNothing }) =>
    method === 'GET' ? changes : !changesNothing,
  )
  const known = [...Object.keys(changes).map(name => name.split(' ')[0]!), ...Object.keys(others)]
  t.deepEqual(
    changing.map(({ name }) => name).filter(name => !known.includes(name)),
    [],
  )
})

test('every operation of S3 that changes something is in the list', t => {
  const changing = operations.filter(({ needs, support }) => needs === 'write' && support === 'supported')
  const known = Object.keys(s3Changes).map(name => name.split(' ')[0]!)
  t.deepEqual(
    changing.map(({ name }) => `s3.${name}`).filter(name => !known.includes(name)),
    [],
  )
})

/** Writes of new objects: one statement without a transaction, which several requests share. */
const inserts = [
  ...['objects.upload large', 'objects.upload small', 's3.PutObject large', 's3.PutObject small'],
  ...['s3.PutObject new', 's3.PostObject large', 's3.PostObject small'],
]

/** Changes whose commit has more than one outcome, or is a single statement. */
const manifold = ['account.sign-in.end', 'account.downgrade confirmed', ...inserts]

/** Changes that give up what had arrived of them, unless their commit took it. */
const arriving = [...inserts, 's3.PutObject replacing', 's3.UploadPart', 's3.CompleteMultipartUpload']

const cases = Object.keys(changes).flatMap((name): (readonly [name: string, manner: Manner, loss: Loss])[] => [
  [name, 'cut', 'answered'],
  ...([...manifold, ...arriving].includes(name) ? ([[name, 'cut', 'lost']] as const) : []),
  ...(arriving.includes(name)
    ? ([
        [name, 'held', 'lost'],
        [name, 'held', 'answered'],
      ] as const)
    : []),
])

for (const [name, manner, loss] of cases) {
  const when = loss === 'lost' ? 'before' : 'after'
  test.serial(`${name}: the answer is true although the commit is ${manner} ${when} the server has it`, async t => {
    const ask = await changes[name]!(api, await api.makeUser())
    const before = await stored(api.db)
    let sprung = false
    const at = inserts.includes(name) ? /objects\.insert/ : /COMMIT;/
    void line.trap({ at, loss, manner }).then(() => {
      sprung = true
    })
    const answer = await ask()
    t.true(sprung, answer.text)
    // What was held arrives now, when the answer is long given.
    await line.release()
    const [result] = answer.body.response?.results ?? []
    const isDone = answer.status < 300 && result?.ok !== false
    const after = await stored(api.db)
    if (isDone) t.notDeepEqual(after, before, answer.text)
    else t.deepEqual(after, before, answer.text)
    // What the server has is done, so nothing less is the truth.
    if (loss === 'answered') t.true(isDone, answer.text)
    if (isDone) return
    const again = await ask()
    t.true(again.status < 300, `asked again: ${again.text}`)
    t.notDeepEqual(await stored(api.db), before)
  })
}

/** One of each wire, and one whose answer is 200 whatever becomes of its objects. */
for (const name of [
  ...['apps.envs.merge', 'workspaces.create', 'shares.create', 'objects.update'],
  ...['s3.PutObject replacing', 's3.CopyObject', 's3.UploadPart', 's3.CompleteMultipartUpload'],
])
  test.serial(
    `${name}: a commit that is cut, and whose outcome cannot be read, is answered 503, which says that it is not known`,
    async t => {
      const ask = await changes[name]!(api, await api.makeUser())
      const before = await stored(api.db)
      void line.trap({ at: /COMMIT;/, loss: 'answered', manner: 'cut' }).then(() => {
        line.silence()
        line.admit(false)
      })
      const answer = await ask()
      line.admit(true)
      await line.release()
      const isS3 = name.startsWith('s3.')
      const error = isS3 ? { code: 'ServiceUnavailable' } : { status: 'error', code: 'DATABASE_UNAVAILABLE' }
      t.like(answer, { status: 503, body: { ...error, message: inDoubtMessage } })
      t.notDeepEqual(await stored(api.db), before, 'it was done')
      // Of these the answer is the same whether the first one was done or not.
      if (isS3) t.is((await ask()).status, 200)
    },
  )

test.serial('after all of that every body that an object or a part refers to is there', async t => {
  const held = ['object_parts', 'upload_parts'].map(table => api.db(table).pluck('segment_id'))
  const referenced = (await Promise.all(held)).flat()
  const stored = await api.db('segments').whereIn('id', referenced).whereNull('bytes').pluck('id')
  t.true(stored.length > 0)
  for (const id of stored) t.truthy(await api.store.head(id), id)
})

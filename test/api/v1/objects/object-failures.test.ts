import test from 'ava'
import { SegmentIds } from '../../../../db/objects/segment-ids.ts'
import { newId } from '../../../../policy/ids.ts'
import { drawnAheadSeconds, upkeepTimes } from '../../../../policy/objects/blob-upkeep.ts'
import { type Answer, testApi } from '../../../kit/actors/api.ts'
import { chunkedAs } from '../../../kit/actors/chunked.ts'
import { sendFile, sent } from '../../../kit/actors/sent-files.ts'

const api = testApi()

const speak = (who: string, method: string, path: string, body: object): Promise<Answer> =>
  api()
    .blobAs(who)
    .request(method, path, { body: JSON.stringify(body) })

/** A table is not where everybody looks for it. */
async function without(table: string, work: () => Promise<void>): Promise<void> {
  await api().db.raw(`alter table ${table} rename to ${table}_elsewhere`)
  try {
    await work()
  } finally {
    await api().db.raw(`alter table ${table}_elsewhere rename to ${table}`)
  }
}

test.serial('an unexpected error has the code of its endpoint and changes nothing', async t => {
  const ana = await api().makeUser()
  const { id: object } = await sent(api(), ana, { name: 'a' })
  await without('objects', async () => {
    const list = await api().blobAs(ana).get('/v1/objects')
    const copy = { source: object, destination: { name: 'b' } }
    const answers: [Answer, string][] = [
      [list, 'LIST_FAILED'],
      [await sendFile(api(), ana, { name: 'b' }), 'UPLOAD_FAILED'],
      [await speak(ana.key, 'DELETE', '/v1/objects', { object }), 'DELETE_FAILED'],
      [await speak(ana.key, 'POST', '/v1/objects/copy', copy), 'COPY_FAILED'],
    ]
    for (const [{ status, body }, code] of answers) t.deepEqual([status, body.code], [500, code])
    const update = async (fields: object) =>
      (await speak(ana.key, 'PATCH', '/v1/objects', { object, ...fields })).body.response.results[0]
    t.deepEqual(await update({ disposition: 'inline' }), { object, ok: false, code: 'UPDATE_FAILED' })
    t.deepEqual(await update({ private: true }), { object, ok: false, code: 'VISIBILITY_CHANGE_FAILED' })
    t.deepEqual(await update({ private: false }), { object, ok: false, code: 'UPDATE_FAILED' })
    const hidden = object.replace('pub/', 'prv/')
    for (const hides of [true, false]) {
      const failed = await update({ object: hidden, private: hides })
      t.deepEqual(failed, { object: hidden, ok: false, code: 'UPDATE_FAILED' }, 'it is not public')
    }
  })
  const { body } = await api().blobAs(ana).get('/v1/objects')
  t.deepEqual(
    body.response.objects.map(({ id }: { id: string }) => id),
    [object],
  )
})

test.serial('an upload is audited and ends its lease in its own commit, or is not stored', async t => {
  const ana = await api().makeUser()
  const { db } = api()
  const recorded = () => db('audit').where({ actor: ana.id, action: 'objects.upload' }).orderBy('id').pluck('resource')
  const sizes = { small: 'x', long: 'x'.repeat(20_000) }
  const ids: string[] = []
  for (const [name, bytes] of Object.entries(sizes))
    for (const more of [undefined, { overwrite: 'true' }])
      ids.push((await sent(api(), ana, { name, ...more }, { bytes })).id as string)
  t.deepEqual(await recorded(), ids)
  t.deepEqual(await db('blob_leases').where({ subject: `upload/${ana.id}` }), [])
  await without('audit', async () => {
    for (const bytes of Object.values(sizes)) {
      const refused = await sendFile(api(), ana, { name: 'unrecorded' }, { bytes })
      t.like(refused, { status: 500, body: { code: 'UPLOAD_FAILED' } })
    }
  })
  t.is((await db('objects').where({ owner_id: ana.id })).length, 2)
  t.deepEqual(await recorded(), ids)
  t.deepEqual(await db('blob_leases').where({ subject: `upload/${ana.id}` }), [])
})

test.serial('a body whose id the sweep has deleted is refused and not stored', async t => {
  const ana = await api().makeUser()
  t.true(
    drawnAheadSeconds < upkeepTimes.drawnSeconds / 2,
    'the sweep leaves ids alone until long after their block is over',
  )
  const { services, store } = api()
  const [before, ids] = [await store.files(), services.segmentIds]
  services.segmentIds = Object.assign(new SegmentIds(api().db), { take: async () => newId() })
  const answer = await sendFile(api(), ana, { name: 'swept' }, { bytes: 'x'.repeat(20_000) })
  services.segmentIds = ids
  t.deepEqual([answer.status, answer.body.code], [500, 'UPLOAD_FAILED'])
  t.is(await store.files(), before)
})

test.serial('a database that does not answer is said of each object of an update, by where that lies', async t => {
  t.timeout(60_000)
  const ana = await api().makeUser()
  const { id: open } = await sent(api(), ana, { name: 'a' })
  const { id: hidden } = await sent(api(), ana, { name: 'b', private: 'true' })
  const holder = await api().db.transaction()
  await holder.raw('lock table objects in access exclusive mode')
  try {
    const update = { objects: [open, hidden], disposition: 'inline' }
    const { status, body } = await speak(ana.key, 'PATCH', '/v1/objects', update)
    t.is(status, 200)
    t.deepEqual(body.response.results, [
      { object: open, ok: false, code: 'PUBLIC_STORAGE_UNAVAILABLE' },
      { object: hidden, ok: false, code: 'PRIVATE_STORAGE_UNAVAILABLE' },
    ])
    t.like(await api().blobAs(ana).get('/v1/objects'), { status: 503, body: { code: 'DATABASE_UNAVAILABLE' } })
  } finally {
    await holder.rollback()
  }
  t.is((await api().blobAs(ana).get('/v1/objects')).status, 200)
})

test.serial(
  'with the store away every route that needs it says so by where the file lies, and the others work',
  async t => {
    const ana = await api().makeUser()
    const { store } = api()
    const long = { bytes: 'x'.repeat(20_000) }
    const open = (await sent(api(), ana, { name: 'open' }, long)) as { id: string; url: string }
    const hidden = await sent(api(), ana, { name: 'hidden', private: 'true' }, long)
    const chunked = chunkedAs(api().blobAs(ana))
    const started = async (fields: Record<string, string>) =>
      (await chunked.init(fields)).body.response.upload as string
    const [openUpload, hiddenUpload] = [await started({}), await started({ private: 'true' })]
    const address = await api()
      .blobAs(ana)
      .get(`/v1/objects/download?redirect=false&object=${encodeURIComponent(hidden.id)}`)
    const link = new URL(address.body.response.url).pathname
    const readOf = async (base: string, path: string) => {
      const answer = await fetch(base + path)
      return [answer.status, answer.headers.get('content-type')?.split(';')[0], answer.headers.has('retry-after')]
    }
    const json = (method: string, path: string, body: object) => speak(ana.key, method, path, body)
    store.away = true
    try {
      const said = Object.entries({
        'upload, public': await sendFile(api(), ana, { name: 'a' }, long),
        'upload, private': await sendFile(api(), ana, { name: 'a', private: 'true' }, long),
        'part, public': await chunked.part(openUpload, 1, 'x'),
        'part, private': await chunked.part(hiddenUpload, 1, 'x'),
        'upload into its row': await sendFile(api(), ana, { name: 'short' }, { bytes: 'x'.repeat(1000) }),
        init: await chunked.init(),
        status: await chunked.status(openUpload),
        complete: await chunked.complete(openUpload),
        abort: await chunked.abort(openUpload),
        list: await api().blobAs(ana).get('/v1/objects'),
        info: await api()
          .blobAs(ana)
          .get(`/v1/objects/info?object=${encodeURIComponent(open.id)}`),
        update: await json('PATCH', '/v1/objects', { object: open.id, disposition: 'inline' }),
        copy: await json('POST', '/v1/objects/copy', { source: open.id, destination: { name: 'copy' } }),
        delete: await json('DELETE', '/v1/objects', { object: `pub/${ana.id}/short.txt` }),
        share: await json('POST', '/v1/shares', { object: open.id }),
      }).map(([route, { status, body }]) => [route, status, body.code])
      t.deepEqual(said, [
        ['upload, public', 503, 'PUBLIC_STORAGE_UNAVAILABLE'],
        ['upload, private', 503, 'PRIVATE_STORAGE_UNAVAILABLE'],
        ['part, public', 503, 'PUBLIC_STORAGE_UNAVAILABLE'],
        ['part, private', 503, 'PRIVATE_STORAGE_UNAVAILABLE'],
        ['upload into its row', 200, undefined],
        ['init', 200, undefined],
        ['status', 200, undefined],
        ['complete', 400, 'NO_CHUNKS_UPLOADED'],
        ['abort', 200, undefined],
        ['list', 200, undefined],
        ['info', 200, undefined],
        ['update', 200, undefined],
        ['copy', 200, undefined],
        ['delete', 200, undefined],
        ['share', 201, undefined],
      ])
      const reported = [503, 'text/plain', true]
      t.deepEqual(await readOf(api().publicUrl, new URL(open.url).pathname), reported, 'a public file')
      t.deepEqual(await readOf(api().filesUrl, link), reported, 'a link')
    } finally {
      store.away = false
    }
    t.is((await fetch(api().filesUrl + link)).status, 200)
  },
)

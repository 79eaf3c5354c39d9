import { randomInt } from 'node:crypto'
import { CreateMultipartUploadCommand } from '@aws-sdk/client-s3'
import test from 'ava'
import fc from 'fast-check'
import { testApi } from '../../kit/actors/api.ts'
import { comesTrue } from '../../kit/comes-true.ts'
import {
  newKey,
  type Pair,
  type RawAnswer,
  type RawRequest,
  sendRaw,
  signed,
  signedChunks,
  signedForm,
  wrongAnswer,
} from '../../kit/fuzz/raw-requests.ts'
import { cutAt, cuts, documents, formFields } from '../../kit/fuzz/s3-bodies.ts'
import { type Known, requests } from '../../kit/fuzz/s3-fuzz.ts'
import { s3Of } from '../../kit/s3/sdk.ts'

const errors: unknown[] = []
const log = { info: () => {}, warn: () => {}, error: (fields: unknown) => void errors.push(fields) }
const api = testApi({ scale: 100_000, services: () => ({ log }) })

const seed = Number(process.env.S3_FUZZ_SEED ?? randomInt(2 ** 31))
/** 300 of each kind take 6 s, and `S3_FUZZ_CASES=20000` a night; `S3_FUZZ_SEED` and `S3_FUZZ_PATH` repeat a failed case. */
const cases = Number(process.env.S3_FUZZ_CASES ?? 300)
const run = {
  seed,
  numRuns: cases,
  endOnFailure: cases > 1000,
  includeErrorInReport: true,
  path: process.env.S3_FUZZ_PATH,
}

interface World extends Known {
  userId: string
  pair: Pair
}

let world: Promise<World> | undefined
/** An account with a few objects and an open upload, and another account with an open upload. */
const opened = (): Promise<World> => (world ??= open())

async function open(): Promise<World> {
  const [user, other] = await Promise.all([api().makeUser(), api().makeUser()])
  const [own, foreign] = await Promise.all([s3Of(api(), user), s3Of(api(), other)])
  const keys = ['a', 'd/b', 'é', 'page.html']
  const pair = own.credentials
  for (const key of keys)
    await send({ method: 'PUT', target: `/private/${encodeURI(key)}`, headers: [], body: Buffer.from(key) }, pair)
  const begin = async ({ send }: typeof own) =>
    (await send(new CreateMultipartUploadCommand({ Bucket: 'private', Key: 'a' }))).UploadId!
  return {
    userId: user.id,
    pair,
    keys: keys.map(encodeURI),
    uploadId: await begin(own),
    foreignUploadId: await begin(foreign),
  }
}

const send = (request: RawRequest, pair: Pair, how: Parameters<typeof signed>[1] = 'header', payload?: string) =>
  sendRaw(api().s3Url, signed(request, how, pair, api().s3Url, payload))

/** Fails unless the answer is one that S3 could give, and nothing was logged as an error. */
function demandAnswer(request: RawRequest, answer: RawAnswer | undefined): void {
  const kind = answer ? `${String(answer.status)[0]}xx` : 'none'
  answers[kind] = (answers[kind] ?? 0) + 1
  const shown = { ...request, body: request.body.subarray(0, 300).toString('latin1') }
  const wrong = answer && wrongAnswer(request, answer)
  const logged = errors.splice(0)
  if (wrong || logged.length > 0)
    throw new Error(
      `${wrong} ${logged.map(one => String((one as { err?: Error }).err?.stack))} to ${JSON.stringify(shown)}`,
    )
}

const answers: Record<string, number> = {}

const get = (target: string, method = 'GET'): RawRequest => ({ method, target, headers: [], body: Buffer.alloc(0) })

/** Fails unless a stored object can be read, and at its public address if it is public. */
async function demandReadable(bucket: string, key: string, { pair, userId }: World): Promise<Buffer> {
  const target = `/${bucket}/${encodeURIComponent(key)}`
  const request = get(target)
  const answer = (await send(request, pair))!
  demandAnswer(request, answer)
  if (answer.status !== 200) throw new Error(`${answer.status} for the stored object ${target}`)
  if (bucket !== 'public') return answer.body
  // Not by `fetch`, which folds a key such as `..` before it sends the address.
  const address = get(`/pub/${userId}/${encodeURIComponent(key)}`)
  const shown = await sendRaw(api().publicUrl, {
    ...address,
    headers: [
      ['Host', 'public.test'],
      ['Connection', 'close'],
    ],
  })
  if (shown?.status !== 200) throw new Error(`${shown?.status} ${shown?.body} for the public file ${target}`)
  return answer.body
}

test.serial('every random request gets a valid S3 answer, and no unsigned one succeeds', async t => {
  t.timeout(3_600_000)
  t.log(`seed ${seed}`)
  const known = await opened()
  const how = fc.constantFrom('header', 'header', 'header', 'query', 'wrong', 'open', 'none')
  await fc.assert(
    fc.asyncProperty(requests(known), how, async (request, signing) => {
      const answer = await send(request, known.pair, signing as 'header')
      demandAnswer(request, answer)
      if (answer && answer.status < 400 && !['header', 'query'].includes(signing) && request.method !== 'OPTIONS')
        throw new Error(`${answer.status} without a signature: ${JSON.stringify(request)}`)
    }),
    { ...run, numRuns: 2 * cases },
  )
  t.pass()
})

test.serial('every nearly valid document gets a valid S3 answer', async t => {
  t.timeout(3_600_000)
  const known = await opened()
  const targets = fc.constantFrom(
    'POST /private?delete',
    `POST /private/a?uploadId=${known.uploadId}`,
    'PUT /private/a?tagging',
  )
  await fc.assert(
    fc.asyncProperty(targets, documents, async (line, body) => {
      const [method = '', target = ''] = line.split(' ')
      const request = { method, target, headers: [], body }
      demandAnswer(request, await send(request, known.pair))
    }),
    run,
  )
  t.pass()
})

test.serial('altered chunk frames never change signed content, nor the length of unsigned content', async t => {
  t.timeout(3_600_000)
  const known = await opened()
  const pieces = fc.array(
    fc.uint8Array({ minLength: 1, maxLength: 40 }).map(bytes => Buffer.from(bytes)),
    { maxLength: 4 },
  )
  await fc.assert(
    fc.asyncProperty(pieces, fc.boolean(), fc.option(cuts), async (chunks, isSigned, cut) => {
      const key = newKey()
      const content = Buffer.concat(chunks)
      const payload = isSigned ? 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD' : 'STREAMING-UNSIGNED-PAYLOAD-TRAILER'
      const frames = (request: RawRequest) =>
        isSigned ? signedChunks(chunks, request, known.pair) : plainChunks(chunks)
      const unframed: RawRequest = {
        method: 'PUT',
        target: `/private/${key}`,
        headers: [['x-amz-decoded-content-length', String(content.length)]],
        body: Buffer.alloc(0),
      }
      // Signatures of chunks follow from that of the headers, which covers the length: it must be known before.
      const sign = (length: number) =>
        signed(
          { ...unframed, headers: [...unframed.headers, ['Content-Length', String(length)]] },
          'header',
          known.pair,
          api().s3Url,
          payload,
        )
      const length = frames(sign(0)).length
      const changed = (bytes: Buffer) => (cut ? cutAt(bytes, cut) : bytes)
      const request = sign(changed(Buffer.alloc(length)).length)
      const body = changed(frames(request))
      const answer = await sendRaw(api().s3Url, { ...request, body })
      demandAnswer(request, answer)
      const rows = await api().db('objects').where({ owner_id: known.userId, key })
      if (rows.length !== (answer?.status === 200 ? 1 : 0))
        throw new Error(`${answer?.status} and ${rows.length} objects`)
      if (rows.length === 0) return void (cut === null && t.fail(`${answer?.body}`))
      const stored = await demandReadable('private', key, known)
      if (stored.length !== content.length || (isSigned && !stored.equals(content)))
        throw new Error(`${stored.toString('hex')} was stored, not ${content.toString('hex')}`)
    }),
    run,
  )
  t.pass()
})

const plainChunks = (pieces: readonly Buffer[]): Buffer =>
  Buffer.concat([
    ...pieces.flatMap(piece => [Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')]),
    Buffer.from('0\r\n\r\n'),
  ])

test.serial('a form stores a readable object, or nothing', async t => {
  t.timeout(3_600_000)
  const known = await opened()
  const bucket = fc.constantFrom('private', 'public')
  await fc.assert(
    fc.asyncProperty(bucket, formFields, fc.option(cuts), async (name, fields, cut) => {
      const key = newKey()
      const file = Buffer.from('file')
      const request = signedForm([['key', key], ...fields], file, { bucket: name, pair: known.pair, url: api().s3Url })
      const body = cut ? cutAt(request.body, cut) : request.body
      const headers = request.headers.filter(([header]) => header !== 'Content-Length')
      const sent = {
        ...request,
        body,
        headers: [...headers, ['Content-Length', String(body.length)]] as RawRequest['headers'],
      }
      const answer = await sendRaw(api().s3Url, sent)
      demandAnswer(sent, answer)
      const isStored = answer !== undefined && answer.status < 400
      const rows = await api()
        .db('objects')
        .where({ owner_id: known.userId, bucket: name })
        .where('key', '>=', key)
        .where('key', '<', `${key}\uffff`)
      if (!isStored && rows.length > 0) throw new Error(`${answer?.status} and an object`)
      for (const row of rows) {
        const stored = await demandReadable(name, row.key, known)
        if (!cut && !stored.equals(file)) throw new Error(`${stored.toString('hex')} was stored`)
      }
    }),
    run,
  )
  t.pass()
})

test.serial('every stored object can be read, and every reference is counted', async t => {
  const { userId, pair } = await opened()
  const { db, store } = api()
  const rows = await db('objects').where({ owner_id: userId }).select('bucket', 'key')
  t.true(rows.length > 0)
  for (const { bucket, key } of rows)
    await t.notThrowsAsync(demandReadable(bucket, key, { pair, userId } as World), key)
  const { rows: miscounted } = await db.raw(
    `select s.id, s.refs, p.n + u.n as counted from segments s
       cross join lateral (select count(*)::integer as n from object_parts where segment_id = s.id) p
       cross join lateral (select count(*)::integer as n from upload_parts where segment_id = s.id) u
      where s.refs <> p.n + u.n`,
  )
  t.deepEqual(miscounted, [])
  // Closed connections are noticed a moment later.
  await comesTrue(async () => (await db('blob_leases').where({ subject: `upload/${userId}` })).length === 0, 5)
  const [{ stored }] = await db('segments')
    .where({ state: 'stored' })
    .whereNull('bytes')
    .select(db.raw('count(*)::integer as stored'))
  t.is(await store.files(), stored, 'no body is left of what was refused')
  t.log(answers)
  // A run that tests nothing would pass too.
  t.true((answers['2xx'] ?? 0) > cases / 2 && (answers.none ?? 0) < cases, JSON.stringify(answers))
})

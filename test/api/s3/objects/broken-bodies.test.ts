import { once } from 'node:events'
import type { ClientRequest } from 'node:http'
import test, { type ExecutionContext } from 'ava'
import { type TestUser, testApi } from '../../../kit/actors/api.ts'
import { comesTrue } from '../../../kit/comes-true.ts'
import { storedFor } from '../../../kit/s3/remains.ts'
import { answerOf, type Frames, type S3Wire, wireOf } from '../../../kit/s3/wire.ts'

const api = testApi()
/** One that is stored with its row, and one in the object store. */
const bodies = [Buffer.from('hello'), Buffer.alloc(400_000, 'x')]

// Serial, as every test counts what is stored.

async function account() {
  const ana = await api().makeUser()
  const wire = await wireOf(api(), ana)
  await wire.send('PUT', '/private/k', { body: 'old' })
  return { ana, wire, before: await storedFor(api(), ana) }
}

async function nothingNew(t: ExecutionContext, { ana, wire, before }: { ana: TestUser; wire: S3Wire; before: object }) {
  await comesTrue(async () => (await storedFor(api(), ana)).slots === 0)
  t.deepEqual(await storedFor(api(), ana), before)
  t.is((await wire.send('GET', '/private/k')).text, 'old')
}

/** With it a client learns that its body is being read. */
const expect = { expect: '100-continue' }

function lost(sending: ClientRequest): void {
  sending.on('error', () => {})
  sending.destroy()
}

test.serial('an interrupted body changes nothing and leaves nothing', async t => {
  for (const body of bodies) {
    const made = await account()
    const sending = made.wire.open('PUT', '/private/k', {
      payload: 'UNSIGNED-PAYLOAD',
      length: body.length + 1,
      headers: expect,
    })
    await once(sending, 'continue')
    sending.write(body)
    lost(sending)
    await nothingNew(t, made)
  }
})

test.serial('an interrupted chunked body changes nothing and leaves nothing', async t => {
  for (const body of bodies)
    for (const signed of [true, false]) {
      const made = await account()
      const { headers, framed } = made.wire.framed('/private/k', body, { signed, size: 1000 }, { headers: expect })
      const sending = made.wire.openRaw('PUT', '/private/k', { ...headers, 'content-length': String(framed.length) })
      await once(sending, 'continue')
      sending.write(framed.subarray(0, -2))
      lost(sending)
      await nothingNew(t, made)
    }
})

const unsigned: Frames = { signed: false }

test.serial('a body with wrong chunks changes nothing and leaves nothing', async t => {
  for (const body of bodies) {
    const made = await account()
    const { wire } = made
    const stated = (length: number) => ({ 'x-amz-decoded-content-length': String(length) })
    const changed = async (signed: boolean, change: (framed: Buffer) => Buffer) => {
      const { headers, framed } = wire.framed('/private/k', body, { signed, size: 1000 })
      const bytes = change(framed)
      return wire.raw('PUT', '/private/k', { ...headers, 'content-length': String(bytes.length) }, bytes)
    }
    const replaced = (from: string, to: string) => (framed: Buffer) =>
      Buffer.from(framed.toString('latin1').replace(from, to), 'latin1')
    const first = body.toString().slice(0, 1)
    const cases = {
      'fewer bytes': [
        await wire.sendFramed('/private/k', body, unsigned, { headers: stated(body.length + 1) }),
        'IncompleteBody',
      ],
      'more bytes': [
        await wire.sendFramed('/private/k', body, unsigned, { headers: stated(body.length - 1) }),
        'IncompleteBody',
      ],
      'no last chunk': [
        await changed(false, framed => framed.subarray(0, framed.lastIndexOf('0\r\n\r\n'))),
        'IncompleteBody',
      ],
      'no end': [await changed(true, framed => framed.subarray(0, -2)), 'IncompleteBody'],
      'bytes after the end': [
        await changed(true, framed => Buffer.concat([framed, Buffer.from('x')])),
        'InvalidRequest',
      ],
      'no frames': [await changed(false, () => Buffer.concat([body, Buffer.from('\r\n')])), 'InvalidRequest'],
      'another byte': [await changed(true, replaced(`\r\n${first}`, '\r\ny')), 'SignatureDoesNotMatch'],
      'another signature': [await changed(true, replaced('signature=', 'signature=0')), 'InvalidRequest'],
      'unsigned chunks': [await changed(true, replaced(';chunk-signature=', ';own=')), 'InvalidRequest'],
    } as const
    for (const [what, [answer, code]] of Object.entries(cases))
      t.deepEqual([answer.status >= 400, answer.code], [true, code], what)
    await nothingNew(t, made)
  }
})

test.serial('the length of a body must be stated', async t => {
  const made = await account()
  const { headers } = made.wire.framed('/private/k', bodies[0]!, unsigned)
  const withoutLength = async (fields: Record<string, string>, body: Buffer) => {
    const sending = made.wire.openRaw('PUT', '/private/k', { ...fields, 'transfer-encoding': 'chunked' })
    sending.end(body)
    return answerOf(sending)
  }
  const presigned = made.wire.presigned('PUT', '/private/k')
  const sending = made.wire.openRaw('PUT', presigned, { 'transfer-encoding': 'chunked' })
  sending.end('hello')
  const refused = await answerOf(sending)
  t.deepEqual([refused.status, refused.code], [411, 'MissingContentLength'])
  for (const length of ['', '-1', '1.5', 'x', '1e3', '9'.repeat(16)]) {
    const own = { 'x-amz-decoded-content-length': length }
    t.is(
      (await made.wire.sendFramed('/private/k', 'hello', unsigned, { headers: own })).code,
      'InvalidArgument',
      length,
    )
  }
  await nothingNew(t, made)
  const { framed } = made.wire.framed('/private/k', bodies[0]!, unsigned)
  t.is((await withoutLength(headers, framed)).status, 200, 'that of the chunks suffices')
})

test.serial('a body of more than 5 GiB is refused before it is sent', async t => {
  const made = await account()
  const sending = made.wire.open('PUT', '/private/k', { payload: 'UNSIGNED-PAYLOAD', length: 5 * 1024 ** 3 + 1 })
  sending.flushHeaders()
  const refused = await answerOf(sending)
  t.deepEqual([refused.status, refused.code], [400, 'EntityTooLarge'])
  lost(sending)
  await nothingNew(t, made)
})

/** The first response to a client that waits for 100 Continue: that, or the status of a refusal. */
async function said(sending: ClientRequest): Promise<'continue' | number> {
  sending.flushHeaders()
  const refused = answerOf(sending).then(({ status }) => status)
  const first = await Promise.race([once(sending, 'continue').then(() => 'continue' as const), refused])
  if (first === 'continue') refused.catch(() => {})
  return first
}

test.serial('the gateway sends 100 Continue only for a body that it accepts', async t => {
  const made = await account()
  const { wire } = made
  const init = (more: Record<string, string> = {}) => ({
    payload: 'UNSIGNED-PAYLOAD',
    length: 2_000_000,
    headers: { ...expect, ...more },
  })
  const forged = wire.framed('/private/k', bodies[1]!, unsigned, { headers: expect }).headers
  const refusals = {
    'an unsigned request': [() => wire.openRaw('PUT', '/private/k', { ...expect, 'content-length': '5' }), 403],
    'a wrong signature': [() => wire.openRaw('PUT', '/private/other', { ...forged, 'content-length': '5' }), 403],
    'a bucket that is not there': [() => wire.open('PUT', '/none/k', init()), 404],
    'a bucket that is not written': [() => wire.open('PUT', '/legacy/k', init()), 403],
    'a digest that is none': [() => wire.open('PUT', '/private/k', init({ 'content-md5': 'x' })), 400],
    'a type that is refused': [() => wire.open('PUT', '/private/k.exe', init()), 403],
    'a document that is too long': [
      () =>
        wire.open('POST', '/private?delete', {
          ...init({ 'content-md5': 'XUFAKrxLKna5cZ2REBfFkg==' }),
          length: 3_000_000,
        }),
      400,
    ],
  } as const
  for (const [what, [send, status]] of Object.entries(refusals)) {
    const sending = send()
    t.is(await said(sending), status, what)
    lost(sending)
  }
  const small = wire.open('PUT', '/private/waited', { body: 'hello', headers: expect })
  const answer = answerOf(small)
  small.flushHeaders()
  await once(small, 'continue')
  small.end('hello')
  t.is((await answer).status, 200)
  t.is((await wire.send('GET', '/private/waited')).text, 'hello')
})

test.serial('a deletion whose document is interrupted deletes nothing', async t => {
  const made = await account()
  const sending = made.wire.open('POST', '/private?delete', {
    payload: 'UNSIGNED-PAYLOAD',
    length: 1000,
    headers: { 'content-md5': 'XUFAKrxLKna5cZ2REBfFkg==' },
  })
  sending.write('<Delete><Object><Key>k</Key></Object></Delete>')
  sending.on('error', () => {})
  await new Promise(resolve => setImmediate(resolve))
  lost(sending)
  await nothingNew(t, made)
})

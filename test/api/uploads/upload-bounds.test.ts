import { request } from 'node:http'
import { PassThrough, Readable } from 'node:stream'
import test from 'ava'
import { boundForm } from '../../../api/uploads/form-bounds.ts'
import { StoreTooSlow, withinStoreTime } from '../../../api/uploads/store-deadline.ts'
import { type TestUser, testApi } from '../../kit/actors/api.ts'
import { comesTrue } from '../../kit/comes-true.ts'

const api = testApi()
const boundary = 'the-boundary'
const file = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\nhello\r\n`
const field = (text: string) => `--${boundary}\r\nContent-Disposition: form-data; name="x"\r\n\r\n${text}\r\n`
const end = `--${boundary}--\r\n`

/** Sends the pieces of a body that says no length of its own; status and code of the answer. */
function send({ key }: TestUser, pieces: Iterable<string>): Promise<{ status: number; code: string | undefined }> {
  const headers = { authorization: key, 'content-type': `multipart/form-data; boundary=${boundary}` }
  return new Promise((resolve, reject) => {
    const sending = request(`${api().blobUrl}/v1/objects`, { method: 'POST', headers })
    sending.on('response', async answer => {
      const text = Buffer.concat(await answer.toArray()).toString()
      resolve({ status: answer.statusCode ?? 0, code: JSON.parse(text).code })
    })
    sending.on('error', reject)
    Readable.from(pieces, { objectMode: false })
      .on('error', () => {})
      .pipe(sending)
  })
}

function* megabytes(first: string, piece: string, last = '') {
  yield first
  for (let sent = 0; sent < 4 * 1024 * 1024; sent += piece.length) yield piece
  yield last
}

const text = 'x'.repeat(64 * 1024 - 2)

test('a form may contain at most a megabyte in addition to its file', async t => {
  const ana = await api().makeUser()
  t.is((await send(ana, [file, end])).status, 200)
  const endless: Record<string, Iterable<string>> = {
    'before the first part': megabytes('', `${text}\r\n`, file + end),
    'after the last part': megabytes(file + end, text),
    'in the headers of a part': megabytes(`--${boundary}\r\nX: `, text, `\r\n\r\nx\r\n${file}${end}`),
    'in a field': megabytes(
      `--${boundary}\r\nContent-Disposition: form-data; name="x"\r\n\r\n`,
      text,
      `\r\n${file}${end}`,
    ),
    'in another file': megabytes(file.replace('"file"', '"other"'), text, `\r\n${file}${end}`),
  }
  for (const [where, pieces] of Object.entries(endless))
    t.like(await send(await api().makeUser(), pieces), { status: 413, code: 'FILE_TOO_LARGE' }, where)
})

test('a form with too many parts is refused', async t => {
  const many = Array.from({ length: 30 }, () => field('x'))
  t.like(await send(await api().makeUser(), [...many, file, end]), { status: 400, code: 'INVALID_FILE' })
})

test('a form that never ends before or after its file is cut by a deadline, but not during the file', async t => {
  const terms = { bytes: 1024 ** 2, seconds: 0.05 }
  let late = 0
  const tooLong = () => {
    late++
  }
  const bounds = boundForm(new PassThrough() as never, { tooMuch: t.fail, tooLong }, terms)
  await comesTrue(() => late === 1)
  const body = new PassThrough()
  bounds.file(body)
  await new Promise(done => setTimeout(done, 200))
  t.is(late, 1)
  body.resume().end()
  await comesTrue(() => late === 2)
  bounds.end()
})

test('a store that does not answer does not hold an upload for ever', async t => {
  const never = new Promise<void>(() => {})
  const terms = { afterBody: 0.05, afterCancel: 0.05 }
  const tooSlow = { instanceOf: StoreTooSlow }
  const arrived = new AbortController()
  const body = Readable.from(['whole']).resume()
  await t.throwsAsync(withinStoreTime(never, body, arrived, terms), tooSlow)
  t.true(arrived.signal.aborted, 'the store is notified')
  const cancelled = new AbortController()
  const waiting = withinStoreTime(never, new PassThrough(), cancelled, terms)
  cancelled.abort()
  await t.throwsAsync(waiting, tooSlow)
  t.is(await withinStoreTime(Promise.resolve(1), Readable.from(['whole']), new AbortController()), 1)
})

import { randomBytes } from 'node:crypto'
import { MiB } from '../../lib/bytes.ts'
import { type Bucket, S3Requests } from './s3-requests.ts'
import { quantile } from './sides.ts'

/**
 * The client of `bench/s3.ts`, in a process of its own so that no server waits for it, and the harness for neither. Takes one task at a
 * time over IPC and tells its figures, or why there are none.
 */
export type Task =
  | { kind: 'create' }
  /** Stores `count` objects `<prefix>0`, `<prefix>1` ... without measuring it. */
  | { kind: 'fill'; prefix: string; count: number; bytes: number }
  /** New objects, or those of a `fill`, for some seconds: `rate` per second, `p99` in ms. */
  | { kind: 'put'; prefix: string; bytes: number; connections: number; seconds: number }
  | { kind: 'get'; prefix: string; count: number; bytes: number; connections: number; seconds: number }
  /** One after another on one connection: `rate` in MB/s. */
  | { kind: 'upload'; prefix: string; bytes: number; files: number }
  | { kind: 'download'; prefix: string; bytes: number; files: number }
  /** Pages of 1,000 keys, the first of the bucket: `ms` at the median. */
  | { kind: 'list'; times: number }
  /** Stores 1,000 objects, then deletes them with one request: `ms`. */
  | { kind: 'delete'; prefix: string; bytes: number }
  /** From the request that begins the upload to the answer of the one that completes it: `rate` in MB/s. */
  | { kind: 'multipart'; key: string; bytes: number; partBytes: number; connections: number }

export type Figures = Record<string, number>
export interface Order {
  bucket: Bucket
  task: Task
}
export type Outcome = { figures: Figures } | { error: string }

/** Keys of a page, and of one DeleteObjects. */
const pageKeys = 1000
const fillConnections = 16
/** A server whose pages take long answers fewer of them. */
const listSeconds = 10

async function perform({ bucket, task }: Order): Promise<Figures> {
  const connections = 'connections' in task ? task.connections : fillConnections
  const s3 = new S3Requests(bucket, connections)
  try {
    if (task.kind === 'create') await s3.send('PUT', '')
    else if (task.kind === 'fill') await fill(s3, task.prefix, task.count, task.bytes)
    else if (task.kind === 'put') return await puts(s3, task)
    else if (task.kind === 'get') return await gets(s3, task)
    else if (task.kind === 'upload') return await uploads(s3, task)
    else if (task.kind === 'download') return await downloads(s3, task)
    else if (task.kind === 'list') return await lists(s3, task.times)
    else if (task.kind === 'delete') return await deletes(s3, task)
    else return await multipart(s3, task)
    return {}
  } finally {
    s3.close()
  }
}

type TaskOf<Kind extends Task['kind']> = Extract<Task, { kind: Kind }>

/** Gives each connection the next number while `more` allows it. */
async function onConnections(
  connections: number,
  more: (n: number) => boolean,
  work: (n: number) => Promise<void>,
): Promise<void> {
  let next = 0
  const one = async () => {
    while (more(next)) await work(next++)
  }
  await Promise.all(Array.from({ length: connections }, one))
}

function fill(s3: S3Requests, prefix: string, count: number, bytes: number): Promise<void> {
  const body = randomBytes(bytes)
  const put = async (n: number) => void (await s3.send('PUT', prefix + n, { body }))
  return onConnections(fillConnections, n => n < count, put)
}

async function forSeconds(connections: number, seconds: number, work: (n: number) => Promise<void>): Promise<Figures> {
  const times: number[] = []
  const began = performance.now()
  const end = began + seconds * 1000
  const timed = async (n: number) => {
    const from = performance.now()
    await work(n)
    times.push(performance.now() - from)
  }
  await onConnections(connections, () => performance.now() < end, timed)
  return { rate: times.length / ((performance.now() - began) / 1000), p99: quantile(times, 0.99) }
}

async function puts(s3: S3Requests, { prefix, bytes, connections, seconds }: TaskOf<'put'>): Promise<Figures> {
  const body = randomBytes(bytes)
  // Makes the folder: rclone fails when several requests do so at once.
  await fill(s3, `${prefix}before-`, 1, bytes)
  return forSeconds(connections, seconds, async n => void (await s3.send('PUT', prefix + n, { body })))
}

function gets(s3: S3Requests, { prefix, count, bytes, connections, seconds }: TaskOf<'get'>): Promise<Figures> {
  return forSeconds(connections, seconds, n => read(s3, prefix + (n % count), bytes))
}

async function read(s3: S3Requests, key: string, bytes: number): Promise<void> {
  const { length } = await s3.send('GET', key, { drop: true })
  if (length !== bytes) throw new Error(`GET ${key} answered ${length} bytes of ${bytes}`)
}

async function uploads(s3: S3Requests, { prefix, bytes, files }: TaskOf<'upload'>): Promise<Figures> {
  const body = randomBytes(bytes)
  const began = performance.now()
  for (let n = 0; n < files; n++) await s3.send('PUT', prefix + n, { body })
  const rate = perSecond(files * bytes, began)
  for (let n = 0; n < files; n++) await s3.send('DELETE', prefix + n)
  return { rate }
}

async function downloads(s3: S3Requests, { prefix, bytes, files }: TaskOf<'download'>): Promise<Figures> {
  await fill(s3, prefix, 1, bytes)
  const began = performance.now()
  for (let n = 0; n < files; n++) await read(s3, `${prefix}0`, bytes)
  const rate = perSecond(files * bytes, began)
  await s3.send('DELETE', `${prefix}0`)
  return { rate }
}

async function lists(s3: S3Requests, times: number): Promise<Figures> {
  const taken: number[] = []
  const until = performance.now() + listSeconds * 1000
  while (taken.length < times && performance.now() < until) {
    const from = performance.now()
    const { text } = await s3.send('GET', '', { query: { 'list-type': '2' } })
    taken.push(performance.now() - from)
    const keys = text.split('<Key>').length - 1
    if (keys !== pageKeys) throw new Error(`a list answered ${keys} keys`)
  }
  return { ms: quantile(taken, 0.5) }
}

async function deletes(s3: S3Requests, { prefix, bytes }: TaskOf<'delete'>): Promise<Figures> {
  await fill(s3, prefix, pageKeys, bytes)
  const keys = Array.from({ length: pageKeys }, (_, n) => `<Object><Key>${prefix}${n}</Key></Object>`)
  const body = `<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${keys.join('')}</Delete>`
  const from = performance.now()
  const { text } = await s3.send('POST', '', { query: { delete: '' }, body })
  const ms = performance.now() - from
  const deleted = text.split('<Deleted>').length - 1
  if (deleted !== pageKeys) throw new Error(`DeleteObjects deleted ${deleted} of ${pageKeys}`)
  return { ms }
}

async function multipart(
  s3: S3Requests,
  { key, bytes, partBytes, connections }: TaskOf<'multipart'>,
): Promise<Figures> {
  const body = randomBytes(partBytes)
  const parts = Math.ceil(bytes / partBytes)
  const etags: string[] = []
  const began = performance.now()
  const { text } = await s3.send('POST', key, { query: { uploads: '' } })
  const uploadId = /<UploadId>(.+?)<\/UploadId>/.exec(text)?.[1]
  if (!uploadId) throw new Error('CreateMultipartUpload answered no id')
  const put = async (n: number) => {
    const { headers } = await s3.send('PUT', key, { query: { partNumber: String(n + 1), uploadId }, body })
    etags[n] = headers.etag!
  }
  await onConnections(connections, n => n < parts, put)
  const listed = etags.map((etag, n) => `<Part><PartNumber>${n + 1}</PartNumber><ETag>${etag}</ETag></Part>`)
  const complete = `<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${listed.join('')}</CompleteMultipartUpload>`
  const { text: completed } = await s3.send('POST', key, { query: { uploadId }, body: complete })
  const rate = perSecond(parts * partBytes, began)
  // An error may come with status 200 here.
  if (!completed.includes('CompleteMultipartUploadResult')) throw new Error(`CompleteMultipartUpload: ${completed}`)
  const { headers } = await s3.send('HEAD', key)
  if (Number(headers['content-length']) !== parts * partBytes)
    throw new Error(`the object has ${headers['content-length']} bytes`)
  await s3.send('DELETE', key)
  return { rate }
}

function perSecond(bytes: number, began: number): number {
  return bytes / MiB / ((performance.now() - began) / 1000)
}

process.on('message', async (order: Order) => {
  const outcome: Outcome = await perform(order).then(
    figures => ({ figures }),
    (error: Error) => ({ error: error.message }),
  )
  process.send?.(outcome)
})
process.on('disconnect', () => process.exit())
process.send?.('ready')

import { randomBytes } from 'node:crypto'
import { residentBytes } from '../activities/child-process/memory.ts'
import { createKey, createUser } from '../db/accounts/accounts.ts'
import { openDatabase } from '../db/database.ts'
import { MiB } from '../lib/bytes.ts'
import { downloadsPerSecond, drain, type FileServer, send, uploadsPerSecond } from './kit/blob-clients.ts'
import { inTurn, quantile, verdict, withSides } from './kit/sides.ts'

/**
 * Uploads and downloads of 4 KiB at 16 connections and of 64 MiB one by one, compared with a bare Node server that writes and syncs the
 * file with one row per upload and one look-up per download; the first 1,000 of 1,000,000 objects; memory at 8 chunked uploads of 6
 * parts of 32 MB, before the rest. In turn, in one run, on one Postgres that syncs. Goals: 60 % of the bare server's small operations, 80 % of its
 * MB/s, a list in 30 ms, 64 MB of growth.
 */
const rounds = Number(process.argv[2] ?? 3)
const seconds = Number(process.argv[3] ?? 5)
const objects = Number(process.argv[4] ?? 1_000_000)
const [small, large] = [4096, 64 * MiB]
const largeFiles = 4

await withSides(async ({ databaseUrl, folder, masterKey, bare, berth }) => {
  const { key, listed } = await seed(databaseUrl, masterKey)
  const bareUrl = await bare('./bare-blob.ts', [`${folder}/bare`])
  const api = await berth({ BLOB_CONCURRENT_UPLOADS: '64' })
  // First: what heavy loads leave in the heap would be taken for what the process needs anyway.
  await memory(api.blobUrl, key, api.child.pid!)
  const floor: FileServer = {
    uploadUrl: bareUrl,
    headers: { 'Content-Type': 'application/octet-stream' },
    body: bytes => randomBytes(bytes),
    urlOf: answer => `${bareUrl}/${JSON.parse(answer).id}`,
  }
  const ours: FileServer = {
    uploadUrl: `${api.blobUrl}/v1/objects`,
    headers: { 'Content-Type': 'multipart/form-data; boundary=bench', Authorization: key },
    body: form,
    urlOf: answer => `${api.publicUrl}/${JSON.parse(answer).response.id}`,
  }
  for (const [what, measure, unit, goal] of [
    ['upload 4 KiB', (server: FileServer) => uploadsPerSecond(server, small, seconds), '/s', 60],
    ['download 4 KiB', smallDownloads, '/s', 60],
    ['upload 64 MiB', largeUploads, ' MB/s', 80],
    ['download 64 MiB', largeDownloads, ' MB/s', 80],
  ] as const) {
    const figures = await inTurn(rounds, { bare: () => measure(floor), berth: () => measure(ours) })
    const [bareMedian, median] = [quantile(figures.bare, 0.5), quantile(figures.berth, 0.5)]
    const percent = (median / bareMedian) * 100
    console.log(
      `${what.padEnd(16)} bare ${bareMedian.toFixed(0)}${unit}   Berth ${median.toFixed(0)}${unit}   ${percent.toFixed(0)} %   ${verdict(`at least ${goal} %`, percent >= goal)}`,
    )
  }
  await list(api.blobUrl, listed)
})

/** A form of one file, as browsers send it. */
function form(bytes: number): Buffer {
  const head =
    '--bench\r\nContent-Disposition: form-data; name="file"; filename="x.bin"\r\nContent-Type: application/octet-stream\r\n\r\n'
  return Buffer.concat([Buffer.from(head), randomBytes(bytes), Buffer.from('\r\n--bench--\r\n')])
}

async function smallDownloads(server: FileServer): Promise<number> {
  const urls: string[] = []
  for (let n = 0; n < 200; n++)
    urls.push(server.urlOf(await send(server.uploadUrl, 'POST', server.headers, server.body(small))))
  return downloadsPerSecond(urls, seconds)
}

async function largeUploads(server: FileServer): Promise<number> {
  const body = server.body(large)
  const began = performance.now()
  for (let n = 0; n < largeFiles; n++) await send(server.uploadUrl, 'POST', server.headers, body)
  return perSecond(largeFiles * large, began)
}

async function largeDownloads(server: FileServer): Promise<number> {
  const address = server.urlOf(await send(server.uploadUrl, 'POST', server.headers, server.body(large)))
  const began = performance.now()
  for (let n = 0; n < largeFiles; n++)
    if ((await drain(address)) !== large) throw new Error('A download was not as long as its file.')
  return perSecond(largeFiles * large, began)
}

function perSecond(bytes: number, began: number): number {
  return bytes / MiB / ((performance.now() - began) / 1000)
}

/** Two accounts that include enough; one has the objects that are listed. */
async function seed(databaseUrl: string, masterKey: string): Promise<{ key: string; listed: string }> {
  const db = openDatabase({ url: databaseUrl, pool: 1, statementTimeoutMs: 300_000 })
  const make = async (name: string) => {
    const user = await createUser(db, { name, email: `${name}@example.org`, plan: 'enterprise-32' })
    return { id: user.id, key: (await createKey(db, masterKey, { userId: user.id })).key }
  }
  const [bench, keeper] = [await make('bench'), await make('keeper')]
  await db.raw(
    `insert into objects (owner_id, bucket, key, generation, birth, size, content_type, etag)
     select ?, 'public', 'folder' || n % 1000 || '/file' || n || '.txt', 'g' || n, 'b', 1, 'text/plain', md5(n::text)
       from generate_series(1, ?::integer) n`,
    [keeper.id, objects],
  )
  await db.raw('vacuum analyze objects')
  await db.destroy()
  return { key: bench.key, listed: keeper.key }
}

async function list(blobUrl: string, key: string): Promise<void> {
  for (const query of ['', '?prefix=folder500', '?delimiter=/']) {
    const times: number[] = []
    for (let n = -5; n < 30; n++) {
      const began = performance.now()
      await drain(`${blobUrl}/v1/objects${query}`, { Authorization: key })
      if (n >= 0) times.push(performance.now() - began)
    }
    const median = quantile(times, 0.5)
    const p95 = quantile(times, 0.95)
    const reported = query === '' ? `   ${verdict('30 ms', median <= 30)}` : ''
    console.log(
      `first 1,000 of ${objects} ${query.padEnd(18)} median ${median.toFixed(1)} ms   p95 ${p95.toFixed(1)} ms${reported}`,
    )
  }
}

/** Eight uploads at once, of whose parts as many are on their way as an account may have. */
async function memory(blobUrl: string, key: string, pid: number): Promise<void> {
  const body = randomBytes(32 * MiB)
  const headers = { Authorization: key, 'Content-Type': 'application/octet-stream' }
  const call = async (method: string, path: string, sent?: Buffer | string) => {
    const answer = await fetch(`${blobUrl}/v1/objects/chunked${path}`, { method, headers, body: sent })
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
    return ((await answer.json()) as { response: { upload: string } }).response
  }
  const uploads: string[] = []
  for (let n = 0; n < 8; n++) uploads.push((await call('POST', `?filename=large-${n}.bin`)).upload)
  const parts = uploads.flatMap(upload => Array.from({ length: 6 }, (_, n) => `?upload=${upload}&part=${n + 1}`))
  await call('PUT', parts.pop()!, body)
  const before = residentBytes(pid)
  let peak = before
  const watch = setInterval(() => {
    peak = Math.max(peak, residentBytes(pid))
  }, 50)
  const sender = async () => {
    for (let part = parts.pop(); part; part = parts.pop()) await call('PUT', part, body)
  }
  const began = performance.now()
  await Promise.all(Array.from({ length: 6 }, sender))
  const rate = perSecond(47 * body.length, began)
  for (const upload of uploads) await call('PATCH', '', JSON.stringify({ upload }))
  clearInterval(watch)
  const grown = (peak - before) / MiB
  console.log(
    `8 uploads of 6 parts of 32 MB: memory ${(before / MiB).toFixed(0)} MB, + ${grown.toFixed(0)} MB at most, ${rate.toFixed(0)} MB/s   ${verdict('under 64 MB', grown < 64)}`,
  )
}

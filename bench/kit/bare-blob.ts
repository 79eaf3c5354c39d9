import { createHash, randomUUID } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, open, readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import pg from 'pg'
import { KiB, MiB } from '../../lib/bytes.ts'

/**
 * The floor of `bench/blob.ts`: a bare Node server that writes a body into a file, hashes it as the answer says it (md5, sha256),
 * syncs the file and inserts one row; a download is one look-up and the file. Takes the database's address and a folder; says its
 * port over IPC.
 */
const [url, folder] = process.argv.slice(2) as [string, string]
const pool = new pg.Pool({ connectionString: url, max: 10 })
await pool.query(
  'create table bare_files (id text primary key, size bigint not null, md5 text not null, sha256 text not null)',
)
await mkdir(folder, { recursive: true })

async function upload(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const id = randomUUID()
  const [md5, sha256] = [createHash('md5'), createHash('sha256')]
  const file = await open(join(folder, id), 'wx')
  let size = 0
  try {
    for await (const piece of request as AsyncIterable<Buffer>) {
      // It is hashed while it is written.
      const written = file.write(piece)
      md5.update(piece)
      sha256.update(piece)
      size += (await written).bytesWritten
    }
    await file.datasync()
  } finally {
    await file.close()
  }
  const facts = [id, size, md5.digest('hex'), sha256.digest('hex')]
  await pool.query({ name: 'put', text: 'insert into bare_files values ($1, $2, $3, $4)', values: facts })
  response.setHeader('Content-Type', 'application/json').end(JSON.stringify({ id, size, sha256: facts[3] }))
}

async function download(id: string, response: ServerResponse): Promise<void> {
  const { rows } = await pool.query({
    name: 'get',
    text: 'select size, md5 from bare_files where id = $1',
    values: [id],
  })
  if (!rows[0]) return void response.writeHead(404).end()
  response.writeHead(200, { 'Content-Length': rows[0].size, ETag: `"${rows[0].md5}"` })
  if (Number(rows[0].size) <= 64 * KiB) response.end(await readFile(join(folder, id)))
  else await pipeline(createReadStream(join(folder, id), { highWaterMark: MiB }), response)
}

const server = createServer((request, response) => {
  const done = request.method === 'POST' ? upload(request, response) : download(request.url!.slice(1), response)
  done.catch(() => response.destroy())
}).listen(0, '127.0.0.1', () => {
  process.send?.({ port: (server.address() as AddressInfo).port })
})
process.on('disconnect', () => process.exit())

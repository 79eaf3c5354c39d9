import { createHash, type Hash } from 'node:crypto'
import { parentPort } from 'node:worker_threads'

// The thread that hashes large bodies of its process, piece by piece, in the order in which the pieces arrive.

/** A piece of a body, which goes back afterwards; or what becomes of it after its last piece. */
export type HashJob =
  | { body: number; piece: ArrayBuffer; length: number; md5: boolean }
  | { body: number; end: 'digest' | 'drop' }

export type HashReply = { body: number; piece: ArrayBuffer } | { body: number; md5: string; sha256: string }

const bodies = new Map<number, { md5: Hash | null; sha256: Hash }>()

function reply(message: HashReply, transferred: ArrayBuffer[] = []): void {
  parentPort!.postMessage(message, transferred)
}

parentPort!.on('message', (job: HashJob) => {
  const { body } = job
  if ('piece' in job) {
    const hashes = bodies.get(body) ?? { md5: job.md5 ? createHash('md5') : null, sha256: createHash('sha256') }
    bodies.set(body, hashes)
    const bytes = new Uint8Array(job.piece, 0, job.length)
    hashes.md5?.update(bytes)
    hashes.sha256.update(bytes)
    return reply({ body, piece: job.piece }, [job.piece])
  }
  const hashes = bodies.get(body)
  bodies.delete(body)
  if (hashes && job.end === 'digest')
    reply({ body, md5: hashes.md5?.digest('hex') ?? '', sha256: hashes.sha256.digest('hex') })
})

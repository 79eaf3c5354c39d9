import { createHash } from 'node:crypto'
import { Worker } from 'node:worker_threads'
import { KiB } from '../../lib/bytes.ts'
import { threadProgram } from '../../lib/thread-program.ts'
import type { HashJob, HashReply } from './hash-thread.ts'

export interface Hashes {
  /** Hex, both. MD5 is empty unless it was requested. */
  md5: string
  sha256: string
}

/** A body of one piece is hashed where it is. */
const pieceBytes = 256 * KiB
/** One is filled while the thread hashes the other. */
const maxPieces = 2

/**
 * MD5, if requested, and SHA-256 of a body, calculated in a thread: they take 2 ms of each megabyte, in which the process would answer no other request. All
 * bodies of a process share the thread, each with two pieces at most, so that a large one delays a small one by milliseconds.
 */
export class BodyHash {
  readonly #id = ++lastId
  readonly #md5: boolean
  #piece: Buffer | undefined
  #length = 0
  #pieces = 0
  readonly #free: Buffer[] = []
  #isSent = false
  #taken: { resolve(): void; reject(error: Error): void } | undefined
  #digested: { resolve(hashes: Hashes): void; reject(error: Error): void } | undefined
  #failure: Error | undefined

  constructor({ md5 } = { md5: true }) {
    this.#md5 = md5
  }

  /** Adds bytes, which may change afterwards. A promise = no more may be added before it resolves. */
  add(bytes: Buffer): Promise<void> | undefined {
    for (let at = 0; at < bytes.length; ) {
      const piece = this.#open()
      if (!piece) return this.#waitFor(bytes.subarray(at))
      const copied = bytes.copy(piece, this.#length, at)
      at += copied
      this.#length += copied
      if (this.#length === pieceBytes) this.#send()
    }
    return undefined
  }

  /** The hashes of all bytes that were added. */
  digest(): Promise<Hashes> {
    if (!this.#isSent) return Promise.resolve(hashesOf(this.#piece?.subarray(0, this.#length) ?? Buffer.alloc(0)))
    if (this.#length > 0) this.#send()
    return new Promise((resolve, reject) => {
      if (this.#failure) return reject(this.#failure)
      this.#digested = { resolve, reject }
      this.#post({ body: this.#id, end: 'digest' })
    })
  }

  /** Forgets what was added, if no digest was requested. */
  drop(): void {
    if (this.#isSent && forget(this.#id)) this.#post({ body: this.#id, end: 'drop' })
  }

  /** What the thread has replied, or why it cannot. */
  take(reply: HashReply | Error): void {
    if (reply instanceof Error) {
      this.#failure = reply
      this.#taken?.reject(reply)
      this.#digested?.reject(reply)
    } else if ('piece' in reply) {
      this.#free.push(Buffer.from(reply.piece))
      this.#taken?.resolve()
    } else {
      forget(this.#id)
      this.#digested?.resolve({ md5: reply.md5, sha256: reply.sha256 })
    }
  }

  #open(): Buffer | undefined {
    if (this.#piece) return this.#piece
    this.#piece = this.#free.pop()
    if (this.#piece || this.#pieces === maxPieces) return this.#piece
    this.#pieces++
    this.#piece = Buffer.allocUnsafeSlow(pieceBytes)
    return this.#piece
  }

  async #waitFor(rest: Buffer): Promise<void> {
    if (this.#failure) throw this.#failure
    await new Promise<void>((resolve, reject) => {
      this.#taken = { resolve, reject }
    })
    this.#taken = undefined
    await this.add(rest)
  }

  #send(): void {
    const piece = this.#piece!.buffer as ArrayBuffer
    bodies.set(this.#id, this)
    this.#isSent = true
    this.#post({ body: this.#id, piece, length: this.#length, md5: this.#md5 }, [piece])
    this.#piece = undefined
    this.#length = 0
  }

  #post(job: HashJob, transferred: ArrayBuffer[] = []): void {
    thread ??= startThread()
    // The process must not end before the thread has replied; otherwise it need not wait for the thread.
    if (bodies.size > 0) thread.ref()
    thread.postMessage(job, transferred)
  }
}

let lastId = 0
/** In megabytes; the pieces are not part of them. */
const resourceLimits = { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 4 }
let thread: Worker | undefined
/** Bodies of which the thread has pieces. */
const bodies = new Map<number, BodyHash>()

/** False for a body of which the thread has nothing. */
function forget(body: number): boolean {
  const isKnown = bodies.delete(body)
  if (bodies.size === 0) thread?.unref()
  return isKnown
}

function startThread(): Worker {
  const worker = new Worker(threadProgram('hash-thread', import.meta.url), { eval: true, env: {}, resourceLimits })
  worker.unref()
  worker.on('message', (reply: HashReply) => bodies.get(reply.body)?.take(reply))
  let cause: unknown
  worker.on('error', error => {
    cause = error
  })
  worker.on('exit', code => {
    thread = undefined
    const error = new Error(`The thread that hashes bodies ended with exit code ${code}.`, { cause })
    for (const body of bodies.values()) body.take(error)
    bodies.clear()
  })
  return worker
}

function hashesOf(bytes: Buffer): Hashes {
  const hex = (algorithm: 'md5' | 'sha256') => createHash(algorithm).update(bytes).digest('hex')
  return { md5: hex('md5'), sha256: hex('sha256') }
}

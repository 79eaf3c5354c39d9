import { withTimeout } from '../../lib/async/timeout.ts'
import { MiB } from '../../lib/bytes.ts'
import type { ChildProcess } from '../../lib/child-process.ts'
import { packageCacheRules } from '../../policy/packages/cache-rules.ts'
import { giveWayLater, startChild } from '../child-process/child-program.ts'
import type {
  CachedRegistry,
  PackageCounts,
  PackageNetwork,
  PackageReply,
  PackageRequest,
  PackageStart,
  UseCounts,
} from './job.ts'

type Asking = PackageRequest extends infer One ? (One extends { id: number } ? Omit<One, 'id'> : never) : never

export interface ChannelEvents {
  /** A request to a registry failed. */
  onWarning(message: string): void
  /** It has ended by itself; `how` is a signal, an exit code, or why it did not start. */
  onEnd(how: string): void
}

/** One document is rewritten at a time; as text and as values it takes many times its size. */
const heapMb = Math.round((packageCacheRules.documentBytes * 32) / MiB)

/** A started process of the cache. It does not keep this process alive, and one that stops answering is ended. */
export class PackageChannel {
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, (reply: PackageReply | Error) => void>()
  #number = 0
  #isEnding = false
  #hasEnded = false

  constructor({ onWarning, onEnd }: ChannelEvents) {
    this.#child = startChild('packages', ['ignore', 'ignore', 'inherit', 'ipc'], [`--max-old-space-size=${heapMb}`])
    const unwatch = giveWayLater(this.#child)
    const watch = setInterval(() => void this.counts().catch(() => this.#child.kill('SIGKILL')), watchMs).unref()
    for (const handle of [this.#child, this.#child.channel]) handle?.unref()
    // It reads what strangers send, so its messages are not trusted.
    this.#child.on('message', (message: PackageReply | { kind: 'warning'; message: unknown } | null) => {
      if (message?.kind === 'warning') onWarning(String(message.message).slice(0, 500))
      else if (message) this.#waiting.get(message.id)?.(message)
    })
    const onExit = (how: string) => {
      if (this.#hasEnded) return
      this.#hasEnded = true
      unwatch()
      clearInterval(watch)
      for (const settle of this.#waiting.values()) settle(new Error(`The process of the cache ended: ${how}.`))
      if (!this.#isEnding) onEnd(how)
    }
    this.#child.once('error', error => onExit(error.message))
    this.#child.once('exit', (code, signal) => onExit(signal ?? `exit code ${code}`))
  }

  async start(start: PackageStart): Promise<void> {
    await this.#ask({ kind: 'start', start }, packageCacheRules.startSeconds)
  }

  /** Resolves to the port at which it stands in for the registry. */
  async serve(registry: CachedRegistry, network: PackageNetwork): Promise<number> {
    const reply = await this.#ask({ kind: 'serve', registry, network })
    const port = reply.kind === 'serving' ? reply.port : 0
    if (!Number.isInteger(port) || port < 1024 || port > 65_535) throw new Error('The cache reports no port.')
    return port
  }

  async counts(): Promise<PackageCounts> {
    const reply = await this.#ask({ kind: 'counts' })
    if (reply.kind !== 'counts') throw new Error('The cache reports no counts.')
    const { bytes, entries, requests, hits, downloads, troubles, passedOn } = reply
    const counts = { bytes, entries, requests, hits, downloads, troubles, passedOn }
    if (!Object.values(counts).every(Number.isSafeInteger)) throw new Error('The cache reports no counts.')
    return counts
  }

  /** From now on it counts what the step with this token has. */
  async beginUse(token: string): Promise<void> {
    await this.#ask({ kind: 'begin', token })
  }

  /** What the step has had. */
  async endUse(token: string): Promise<UseCounts> {
    const reply = await this.#ask({ kind: 'end', token })
    if (reply.kind !== 'ended') throw new Error('The cache reports no counts.')
    const { requests, troubles, passedOn } = reply
    if (![requests, troubles, passedOn].every(Number.isSafeInteger)) throw new Error('The cache reports no counts.')
    return { requests, troubles, passedOn }
  }

  /** Resolves once it has ended. */
  async end(): Promise<void> {
    this.#isEnding = true
    if (this.#hasEnded) return
    const ended = new Promise(resolve => this.#child.once('exit', resolve).once('error', resolve))
    this.#child.ref()
    this.#child.kill('SIGKILL')
    await ended
  }

  #ask(message: Asking, seconds: number = packageCacheRules.openSeconds): Promise<PackageReply> {
    const id = ++this.#number
    const reply = new Promise<PackageReply>((resolve, reject) => {
      this.#waiting.set(id, one => {
        if (one instanceof Error) reject(one)
        else if (one.kind === 'failed') reject(new Error(String(one.message).slice(0, 500)))
        else resolve(one)
      })
      this.#child.send?.({ ...message, id }, error => error && this.#waiting.get(id)?.(error))
    })
    const late = () => new Error('The cache does not answer.')
    return withTimeout(reply, seconds * 1000, late).finally(() => this.#waiting.delete(id))
  }
}

const watchMs = packageCacheRules.openSeconds * 1000

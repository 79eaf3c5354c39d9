import type { Readable } from 'node:stream'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import type { ChildProcess, StdioOptions } from '../../lib/child-process.ts'
import { diskFull } from '../../lib/folders/disk-names.ts'
import { NoSpaceLeft } from '../../lib/folders/no-space-left.ts'
import { giveWayLater, startChild } from './child-program.ts'
import { watchResident } from './memory.ts'

/** What a child answers, as its last message; every other message is a word in between. */
export interface JobReply {
  kind: 'done' | 'refused' | 'corrupt' | 'failed'
}

const replies: readonly string[] = ['done', 'refused', 'corrupt', 'failed'] satisfies JobReply['kind'][]

export interface JobChildOptions {
  /** The job in words, for its end without a reply. */
  what: string
  nodeArguments?: readonly string[]
  /** What the child finds at descriptor 4. */
  descriptor?: number | 'pipe' | 'ignore'
  /** Ends the child; its reason is the outcome. */
  signal?: AbortSignal
  /** Receives every object that is no reply. */
  onWord?: (word: unknown) => void
  /** Why there is no reply, when nobody here ended the child; `how` is a signal, an exit code, or why it did not start. */
  cutOff?: (how: string) => Error
}

export interface JobLimits {
  seconds?: number
  late?: () => Error
  /** Resident bytes. */
  memoryBytes?: number
  large?: () => Error
}

/** The child process of one folder of activities/, for one job. It inherits only the descriptor that it is given, and an empty environment. */
export class JobChild<Job extends object, Reply extends JobReply> {
  readonly process: ChildProcess
  /** Its reply, once it has ended; rejects with why there is none. */
  readonly done: Promise<Reply>
  #why: unknown

  /** Throws the signal's reason when it has aborted. */
  constructor(folder: string, options: JobChildOptions) {
    const { nodeArguments, descriptor, signal } = options
    signal?.throwIfAborted()
    const stdio = ['ignore', 'ignore', 'inherit', 'ipc'] as const
    const given: Extract<StdioOptions, readonly unknown[]> = descriptor === undefined ? [] : [descriptor]
    this.process = startChild(folder, [...stdio, ...given], nodeArguments)
    const cancel = () => this.end(signal?.reason)
    signal?.addEventListener('abort', cancel, { once: true })
    this.done = this.#reply(options).finally(() => signal?.removeEventListener('abort', cancel))
    this.done.catch(ignoreError('reported to the caller that awaits it'))
  }

  /** Gives it its job, once in its life. */
  async run(job: Job, { seconds, late, memoryBytes, large }: JobLimits = {}): Promise<Reply> {
    const { pid } = this.process
    const end = (why?: () => Error) => this.end(why?.())
    const stopWaiting = giveWayLater(this.process)
    const deadline = seconds === undefined ? undefined : setTimeout(end, seconds * 1000, late)
    const unwatch =
      pid === undefined || memoryBytes === undefined ? () => {} : watchResident(pid, memoryBytes, () => end(large))
    this.send(job)
    try {
      return await this.done
    } finally {
      stopWaiting()
      clearTimeout(deadline)
      unwatch()
    }
  }

  send(message: object | string): void {
    this.process.send?.(message, () => {}) // without a channel it did not start, which is its end
  }

  /** What it writes to its descriptor. */
  get output(): Readable | null {
    return (this.process.stdio[4] as Readable | undefined) ?? null
  }

  /** Ends it, for this reason: the first one is the outcome. After its end this has no effect. */
  end(why?: unknown): void {
    this.#why ??= why
    this.process.kill('SIGKILL')
    this.output?.destroy() // nobody reads on, and an open pipe would hold up its end
  }

  #reply({ what, onWord, cutOff }: JobChildOptions): Promise<Reply> {
    return new Promise((resolve, reject) => {
      let reply: Reply | null = null
      const end = (how: string, error?: Error) => {
        if (this.#why) reject(this.#why)
        else if (reply) resolve(reply)
        else reject(cutOff?.(how) ?? error ?? new Error(`${what} was cut off by ${how}.`))
      }
      this.process.once('error', error => end(error.message, error))
      this.process.on('message', message => {
        // A child may have been taken over by what it reads: what it says may be anything.
        if (typeof message !== 'object' || message === null) return
        if (isReply<Reply>(message)) reply = message
        else onWord?.(message)
      })
      // Not at 'exit': its last message may still be on the way then, and so may what it wrote.
      this.process.once('close', (code, signal) => end(signal ?? `exit code ${code}`))
    })
  }
}

function isReply<Reply extends JobReply>(message: object): message is Reply {
  return replies.includes((message as { kind?: string }).kind ?? '')
}

/** The failure that a child replied, as an error with its code. A full disk is NoSpaceLeft, with the given sentence. */
export function failureOf({ code, message }: { code: string | null; message: string }, noSpace: string): Error {
  if (diskFull.has(code ?? '')) return new NoSpaceLeft(noSpace)
  return Object.assign(new Error(message), { code })
}

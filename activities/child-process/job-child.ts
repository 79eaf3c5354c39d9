import type { Readable } from 'node:stream'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import type { ChildProcess, StdioOptions } from '../../lib/child-process.ts'
import { diskFull } from '../../lib/folders/error-codes.ts'
import { NoSpaceLeft } from '../../lib/folders/no-space-left.ts'
import { giveWayLater, startChild } from './child-program.ts'
import { watchResident } from './memory.ts'

/** The last message of a child; every other message is an intermediate one. */
export interface JobReply {
  kind: 'done' | 'refused' | 'corrupt' | 'failed'
}

const replies: readonly string[] = ['done', 'refused', 'corrupt', 'failed'] satisfies JobReply['kind'][]

export interface JobChildOptions {
  /** Name of the job in the error when there is no reply. */
  what: string
  nodeArguments?: readonly string[]
  /** Descriptor 4 of the child. */
  descriptor?: number | 'pipe' | 'ignore'
  /** Ends the child; its reason is the outcome. */
  signal?: AbortSignal
  /** Receives every object that is not the reply. */
  onMessage?: (message: unknown) => void
  /** The error when there is no reply and this process did not end the child; `how` is a signal, an exit code, or why it did not start. */
  cutOff?: (how: string) => Error
}

export interface JobLimits {
  seconds?: number
  late?: () => Error
  /** Resident bytes. */
  memoryBytes?: number
  large?: () => Error
}

/** The child process of one folder of activities/, for one job, with an empty environment and only the given descriptor. */
export class JobChild<Job extends object, Reply extends JobReply> {
  readonly process: ChildProcess
  /** The reply, once the child has ended; rejects with the reason when there is none. */
  readonly done: Promise<Reply>
  #reason: unknown

  /** Throws the signal's reason when it has aborted. */
  constructor(folder: string, options: JobChildOptions) {
    const { nodeArguments, descriptor, signal } = options
    signal?.throwIfAborted()
    const stdio = ['ignore', 'ignore', 'inherit', 'ipc'] as const
    const descriptors: Extract<StdioOptions, readonly unknown[]> = descriptor === undefined ? [] : [descriptor]
    this.process = startChild(folder, [...stdio, ...descriptors], nodeArguments)
    const cancel = () => this.end(signal?.reason)
    signal?.addEventListener('abort', cancel, { once: true })
    this.done = this.#reply(options).finally(() => signal?.removeEventListener('abort', cancel))
    this.done.catch(ignoreError('reported to the caller that awaits it'))
  }

  /** Sends the child its job; call it once. */
  async run(job: Job, { seconds, late, memoryBytes, large }: JobLimits = {}): Promise<Reply> {
    const { pid } = this.process
    const end = (reason?: () => Error) => this.end(reason?.())
    const unwatchPriority = giveWayLater(this.process)
    const deadline = seconds === undefined ? undefined : setTimeout(end, seconds * 1000, late)
    const unwatch =
      pid === undefined || memoryBytes === undefined ? () => {} : watchResident(pid, memoryBytes, () => end(large))
    this.send(job)
    try {
      return await this.done
    } finally {
      unwatchPriority()
      clearTimeout(deadline)
      unwatch()
    }
  }

  send(message: object | string): void {
    this.process.send?.(message, () => {}) // without a channel it did not start, which is reported as its end
  }

  /** Whether it has neither ended nor lost its channel. */
  get isAlive(): boolean {
    const { exitCode, signalCode, connected } = this.process
    return exitCode === null && signalCode === null && connected
  }

  /** A child that is not held does not keep this process alive. */
  hold(isWorking: boolean): this {
    for (const handle of [this.process, this.process.channel]) {
      if (isWorking) handle?.ref()
      else handle?.unref()
    }
    return this
  }

  /** Output of the child at its descriptor. */
  get output(): Readable | null {
    return (this.process.stdio[4] as Readable | undefined) ?? null
  }

  /** Ends the child for this reason; the first reason is the outcome. No effect after its end. */
  end(reason?: unknown): void {
    this.#reason ??= reason
    this.process.kill('SIGKILL')
    this.output?.destroy() // it has no reader any more, and an open pipe would delay 'close'
  }

  #reply({ what, onMessage, cutOff }: JobChildOptions): Promise<Reply> {
    return new Promise((resolve, reject) => {
      let reply: Reply | null = null
      const end = (how: string, error?: Error) => {
        if (this.#reason) reject(this.#reason)
        else if (reply) resolve(reply)
        else reject(cutOff?.(how) ?? error ?? new Error(`${what} was cut off by ${how}.`))
      }
      this.process.once('error', error => end(error.message, error))
      this.process.on('message', message => {
        // A child may have been compromised by what it reads, so its messages are not trusted.
        if (typeof message !== 'object' || message === null) return
        if (isReply<Reply>(message)) reply = message
        else onMessage?.(message)
      })
      // Not at 'exit': its last message and output may still be on the way.
      this.process.once('close', (code, signal) => end(signal ?? `exit code ${code}`))
    })
  }
}

function isReply<Reply extends JobReply>(message: object): message is Reply {
  return replies.includes((message as { kind?: string }).kind ?? '')
}

/** The failure in a child's reply as an error with its code. A full disk becomes NoSpaceLeft with the given message. */
export function failureOf({ code, message }: { code: string | null; message: string }, noSpace: string): Error {
  if (diskFull.has(code ?? '')) return new NoSpaceLeft(noSpace)
  return Object.assign(new Error(message), { code })
}

import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pause } from '../../lib/async/loop.ts'
import { type ChildProcess, startProcess } from '../../lib/child-process.ts'
import { logEnd } from './log-end.ts'
import { removeRecord, signal, writeRecord } from './process-record.ts'

interface Command {
  command: string
  args: string[]
  env: Record<string, string | undefined>
  cwd?: string
  uid?: number
  gid?: number
}

/** How the supervisor runs one process. */
export interface ProcessSpec {
  name: string
  /** Called before every start, so that what a crash left behind (sockets, configuration) is cleaned up first. */
  command(): Promise<Command>
  /** `ipc`: the process sends `{ ready: true }` itself. Otherwise a probe that rejects until the process answers. */
  ready: 'ipc' | (() => Promise<unknown>)
  readySeconds: number
  stopSignal: NodeJS.Signals
  graceSeconds: number
  /** Names of processes that must answer before this one starts, and stop only after it. */
  needs: string[]
}

export interface Surroundings {
  runFolder: string
  logFolder: string
  say(line: string): void
}

/** Milliseconds: a process that dies once restarts immediately, one that keeps dying does not exhaust the machine. */
const delaysMs = [0, 250, 500, 1000, 2000, 5000, 10_000]

/** After this lifetime a process counts as stable: its next death counts as the first. */
const provenAfterMs = 30_000

const probeEveryMs = 25
const startAttempts = 4

/** A child process that is restarted whenever it ends, until `stop`. */
export class SupervisedProcess {
  private child: ChildProcess | null = null
  private stopping = false
  private hasAnswered = false
  private deaths = 0
  private running: Promise<void> = Promise.resolve()
  private readonly wake = new AbortController()

  constructor(
    readonly spec: ProcessSpec,
    private readonly around: Surroundings,
  ) {}

  /** Resolves when the process first answers; rejects after `readySeconds`, or when it keeps ending before that. */
  start(): Promise<void> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => fail(new Error(`no answer within ${this.spec.readySeconds} s`)),
        this.spec.readySeconds * 1000,
      )
      const fail = (error: Error) => {
        clearTimeout(timer)
        const path = join(this.around.logFolder, `${this.spec.name}.log`)
        reject(new Error(`${this.spec.name} did not start: ${error.message}. ${logEnd(path)}`))
      }
      this.running = this.keepRunning(() => {
        clearTimeout(timer)
        resolve()
      }, fail)
    })
  }

  /** Sends the stop signal, kills the process group after the grace, and resolves when the process has ended. */
  async stop(): Promise<void> {
    this.stopping = true
    this.wake.abort()
    const child = this.child
    if (child?.pid) {
      signal(child.pid, this.spec.stopSignal)
      const timer = setTimeout(() => child.pid && signal(-child.pid, 'SIGKILL'), this.spec.graceSeconds * 1000)
      await this.running
      clearTimeout(timer)
    } else await this.running
    removeRecord(this.around.runFolder, this.spec.name)
  }

  /** Kills the process group immediately. */
  kill(): void {
    this.stopping = true
    this.wake.abort()
    if (this.child?.pid) signal(-this.child.pid, 'SIGKILL')
  }

  private async keepRunning(onReady: () => void, onHopeless: (error: Error) => void): Promise<void> {
    while (!this.stopping) {
      const startedAt = Date.now()
      const end = await this.runOnce(onReady).catch(error => `could not be started: ${(error as Error).message}`)
      if (this.stopping) return
      this.deaths = this.hasAnswered && Date.now() - startedAt > provenAfterMs ? 1 : this.deaths + 1
      if (!this.hasAnswered && this.deaths >= startAttempts) onHopeless(new Error(end))
      const delay = restartDelayMs(this.deaths)
      this.around.say(`${this.spec.name} ${end}; starting it again${delay ? ` in ${delay} ms` : ''}`)
      await pause(delay, this.wake.signal)
    }
  }

  /** Runs the process once. Resolves to how it ended, in words. */
  private async runOnce(onReady: () => void): Promise<string> {
    const { command, args, ...options } = await this.spec.command()
    if (this.stopping) return 'was stopped'
    // Directly into the file: after the supervisor's death every line would otherwise hit a broken pipe.
    const log = openSync(join(this.around.logFolder, `${this.spec.name}.log`), 'a', 0o640)
    const stdio = this.spec.ready === 'ipc' ? ['ignore', log, log, 'ipc' as const] : ['ignore', log, log]
    // A process group of its own: Ctrl-C reaches only the supervisor, which then stops everything in order.
    const child = startProcess(command, args, {
      ...options,
      stdio: stdio as never,
      detached: true,
    })
    closeSync(log)
    this.child = child
    const { name, stopSignal, graceSeconds } = this.spec
    const ended = new Promise<string>(resolve => {
      child.once('error', error => resolve(`could not be started: ${error.message}`))
      child.once('exit', (code, by) => resolve(`ended (${by ?? `exit code ${code}`})`))
    })
    if (child.pid) {
      try {
        writeRecord(this.around.runFolder, { name, pid: child.pid, stopSignal, graceSeconds })
      } catch (error) {
        // The process keeps running: on a full disk a second one alongside it would not help.
        this.around.say(`${name} runs, but other commands cannot see it: ${(error as Error).message}`)
      }
      void this.awaitReady(child, ended, onReady)
    }
    const end = await ended
    this.child = null
    // Ends its children too: nginx's workers keep the port of a killed master.
    if (child.pid) signal(-child.pid, 'SIGKILL')
    return end
  }

  private async awaitReady(child: ChildProcess, ended: Promise<string>, onReady: () => void): Promise<void> {
    let hasEnded = false
    void ended.then(() => {
      hasEnded = true
    })
    const onAnswer = () => {
      this.hasAnswered = true
      onReady()
    }
    const { ready } = this.spec
    if (ready === 'ipc') {
      child.on('message', message => (message as { ready?: boolean }).ready && onAnswer())
      return
    }
    while (!hasEnded && !this.stopping) {
      const answers = await ready().then(
        () => true,
        () => false,
      )
      if (answers && !hasEnded) return onAnswer()
      await sleep(probeEveryMs)
    }
  }
}

/** The delay before the next start, after `deaths` deaths in a row (1 = the first). */
export function restartDelayMs(deaths: number): number {
  return delaysMs[Math.min(Math.max(deaths, 1), delaysMs.length) - 1] ?? 0
}

import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { findOpenAiClient } from '../../../cli/test/clients/openai.ts'
import { checkout } from '../command.ts'
import type { Access, OpenAiClient, Outcome } from './openai-client.ts'

/** Classes of the client for Python: one whose calls block, and one whose calls are tasks. */
export const pythonClasses = ['OpenAI', 'AsyncOpenAI'] as const
export type PythonClass = (typeof pythonClasses)[number]

const program = join(checkout, 'test/kit/children/openai_client.py')

/** A program of Python that makes calls with a class of the client. It starts with the first call. */
export class PythonClient implements OpenAiClient {
  readonly #kind: PythonClass
  readonly #waiting = new Map<number, (outcome: Outcome) => void>()
  #child: ChildProcessByStdio<Writable, Readable, null> | undefined
  #calls = 0

  constructor(kind: PythonClass) {
    this.#kind = kind
  }

  complete(access: Access, body: object): Promise<Outcome> {
    return this.#call(access, { do: 'complete', body })
  }

  /** A task is cancelled. A thread cannot be: its program is killed. */
  async leave(access: Access, body: object, once: Promise<unknown>): Promise<void> {
    if (this.#kind === 'AsyncOpenAI') {
      const outcome = this.complete(access, body)
      const id = this.#calls
      await once
      this.#send({ do: 'cancel', id })
      const { error } = await outcome
      if (error?.name !== 'CancelledError') throw new Error(`The call was not left: ${JSON.stringify(await outcome)}`)
      return
    }
    const other = new PythonClient(this.#kind)
    void other.complete(access, body)
    await once
    await other.end()
  }

  listModels(access: Access): Promise<Outcome> {
    return this.#call(access, { do: 'list models' })
  }

  getModel(access: Access, model: string): Promise<Outcome> {
    return this.#call(access, { do: 'get model', model })
  }

  /** Kills the program. Calls in progress stay without an outcome. */
  async end(): Promise<void> {
    const child = this.#child
    if (!child) return
    const exit = new Promise(resolve => child.once('exit', resolve))
    child.kill('SIGKILL')
    await exit
  }

  #call({ baseUrl, apiKey }: Access, what: object): Promise<Outcome> {
    const id = ++this.#calls
    const outcome = new Promise<Outcome>(resolve => this.#waiting.set(id, resolve))
    this.#send({ id, base_url: baseUrl, api_key: apiKey, ...what })
    return outcome
  }

  #send(message: object): void {
    this.#child ??= this.#start()
    this.#child.stdin.write(`${JSON.stringify(message)}\n`)
  }

  #start() {
    const env = { PATH: '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C.UTF-8', PYTHONDONTWRITEBYTECODE: '1' }
    const child = spawn(findOpenAiClient(), [program, this.#kind], { env, stdio: ['pipe', 'pipe', 'inherit'] })
    createInterface({ input: child.stdout }).on('line', line => {
      const { id, ...outcome } = JSON.parse(line) as Outcome & { id: number }
      this.#waiting.get(id)?.(outcome)
      this.#waiting.delete(id)
    })
    return child
  }
}

import type { Trouble } from './host-troubles.ts'

export type Command = 'start' | 'stop' | 'restart' | 'delete'

/** Why a host fails a lane's request, and what the operation's row says about it. */
export interface Refused {
  command: Command
  trouble: Trouble | 'its program has ended'
  code: string
  message: string
}

/** Behaviour of a host for commands of an application: success, unless a test says otherwise. */
export class CommandScript {
  /** Started and ended commands of each application, in order. */
  readonly #calls = new Map<string, string[]>()
  readonly #held = new Map<string, Promise<void>>()
  readonly #refused = new Map<string, Refused>()

  /** From now on. */
  refuses(appId: string, refused: Refused): void {
    this.#refused.set(`${refused.command} ${appId}`, refused)
  }

  /** Until the returned function is called. */
  holds(appId: string, command: Command): () => void {
    let release = () => {}
    const held = new Promise<void>(resolve => {
      release = resolve
    })
    this.#held.set(`${command} ${appId}`, held)
    return release
  }

  /** Called for each request, before the host acts. Resolves to the reason of a failure, or to undefined. */
  async begins(appId: string, command: Command): Promise<Refused | undefined> {
    this.#tell(appId, `${command} begins`)
    await this.#held.get(`${command} ${appId}`)
    return this.#refused.get(`${command} ${appId}`)
  }

  /** Called when a host has carried out a request. */
  ends(appId: string, command: Command): void {
    this.#tell(appId, `${command} ends`)
  }

  calls(appId: string): string[] {
    return this.#calls.get(appId) ?? []
  }

  #tell(appId: string, words: string): void {
    this.#calls.set(appId, [...this.calls(appId), words])
  }
}

import type { Trouble } from './host-troubles.ts'

export type Command = 'start' | 'stop' | 'restart' | 'delete'

/** Why a host does not do what a lane asks it for, and what is left of that in the operation's row. */
export interface Refused {
  command: Command
  trouble: Trouble | 'its program has ended'
  code: string
  message: string
}

/** What a host does when it is asked for a command of an application: success, unless a test says otherwise. */
export class CommandScript {
  /** What was begun and ended for each application, in order. */
  readonly #told = new Map<string, string[]>()
  readonly #held = new Map<string, Promise<void>>()
  readonly #refused = new Map<string, Refused>()

  /** From now on. */
  refuses(appId: string, refused: Refused): void {
    this.#refused.set(`${refused.command} ${appId}`, refused)
  }

  /** Until the function that is given back is called. */
  holds(appId: string, command: Command): () => void {
    let release = () => {}
    const held = new Promise<void>(resolve => {
      release = resolve
    })
    this.#held.set(`${command} ${appId}`, held)
    return release
  }

  /** Called each time that a host is asked, before it does anything. Resolves to why it will not, and to undefined when it will. */
  async begins(appId: string, command: Command): Promise<Refused | undefined> {
    this.#tell(appId, `${command} begins`)
    await this.#held.get(`${command} ${appId}`)
    return this.#refused.get(`${command} ${appId}`)
  }

  /** Called when a host has done what it was asked for. */
  ends(appId: string, command: Command): void {
    this.#tell(appId, `${command} ends`)
  }

  told(appId: string): string[] {
    return this.#told.get(appId) ?? []
  }

  #tell(appId: string, words: string): void {
    this.#told.set(appId, [...this.told(appId), words])
  }
}

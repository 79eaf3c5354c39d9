import type { SnapshotRequest } from './port.ts'

/** The one time that a program stands still for its snapshot: begun, limited and ended. */
export class Pause {
  readonly #request: Pick<SnapshotRequest, 'pause' | 'resume'>
  readonly #seconds: number
  #begun: Promise<number> | null = null
  #ended: Promise<void> | null = null
  #timer: NodeJS.Timeout | undefined
  ms = 0

  constructor(request: Pick<SnapshotRequest, 'pause' | 'resume'>, seconds: number) {
    this.#request = request
    this.#seconds = seconds
  }

  /** Resolves once the program stands still; `onLong` is called when it does so for too long. */
  async begin(onLong: (why: Error) => void): Promise<void> {
    this.#begun = this.#request.pause().then(() => performance.now())
    await this.#begun
    const why = `The program would have stood still for over ${this.#seconds} s: it changes too much while it is copied.`
    this.#timer = setTimeout(() => onLong(new Error(why)), this.#seconds * 1000)
  }

  /** The program goes on, once; also when it was still being brought to stand. Never begun is success. */
  end(): Promise<void> {
    clearTimeout(this.#timer)
    this.#ended ??= this.#resume()
    return this.#ended
  }

  async #resume(): Promise<void> {
    const begun = await this.#begun?.catch(() => null)
    clearTimeout(this.#timer)
    if (begun == null) return
    await this.#request.resume()
    this.ms = Math.round(performance.now() - begun)
  }
}

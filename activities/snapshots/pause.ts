import { FreezeTooLong, type SnapshotRequest } from './port.ts'

/** The one freeze of a program for its snapshot, with its time limit. */
export class Pause {
  readonly #request: Pick<SnapshotRequest, 'pause' | 'resume'>
  readonly #seconds: number
  #startedAt: Promise<number> | null = null
  #ended: Promise<void> | null = null
  #timer: NodeJS.Timeout | undefined
  ms = 0

  constructor(request: Pick<SnapshotRequest, 'pause' | 'resume'>, seconds: number) {
    this.#request = request
    this.#seconds = seconds
  }

  /** Resolves once the program is frozen; calls `onTimeout` when the freeze takes too long. */
  async begin(onTimeout: (error: Error) => void): Promise<void> {
    this.#startedAt = this.#request.pause().then(() => performance.now())
    await this.#startedAt
    const message = `The program would be frozen for over ${this.#seconds} s: it changes too much while it is copied.`
    this.#timer = setTimeout(() => onTimeout(new FreezeTooLong(message)), this.#seconds * 1000)
  }

  /** Resumes the program, once, also if it is still being frozen. Never frozen is success. */
  end(): Promise<void> {
    clearTimeout(this.#timer)
    this.#ended ??= this.#resume()
    return this.#ended
  }

  async #resume(): Promise<void> {
    const startedAt = await this.#startedAt?.catch(() => null)
    clearTimeout(this.#timer)
    if (startedAt == null) return
    await this.#request.resume()
    this.ms = Math.round(performance.now() - startedAt)
  }
}

import { setTimeout as sleep } from 'node:timers/promises'
import type { FillMessage } from './job.ts'

/** A file to which another process appends. */
export interface GrowingFile {
  path: string
  isPacked: boolean
  /** Nothing is added any more. */
  isWhole: boolean
}

/** Bytes are looked for again after this time, in ms. */
const lookEveryMs = 5

/** Files of a folder that is filled, in the order in which they begin; ends once the folder has everything. */
export class GrowingFiles {
  readonly #files = new Map<string, GrowingFile>()
  #isFilled = false

  /** `listen` is called immediately, with what takes the messages. */
  constructor(listen: (take: (message: FillMessage) => void) => unknown) {
    listen(message => {
      if (message.kind === 'filled') this.#isFilled = true
      else if (message.kind === 'begins') this.#files.set(message.path, { ...message, isWhole: false })
      else {
        const file = this.#files.get(message.path)
        if (file) file.isWhole = true
      }
    })
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<GrowingFile> {
    for (;;) {
      const [file] = this.#files.values()
      if (file) {
        yield file
        this.#files.delete(file.path)
      } else if (this.#isFilled) return
      else await sleep(lookEveryMs)
    }
  }
}

/** Fills a buffer from a growing file: with less only at its end. `read` resolves to the bytes that it has put into a buffer. */
export async function readGrowing(
  file: Pick<GrowingFile, 'isWhole'>,
  into: Buffer,
  read: (rest: Buffer) => number,
): Promise<number> {
  for (let length = 0; ; ) {
    // Before the look: what was added until then is seen by it.
    const { isWhole } = file
    const added = read(into.subarray(length))
    length += added
    if (length === into.length || (added === 0 && isWhole)) return length
    if (added === 0) await sleep(lookEveryMs)
  }
}

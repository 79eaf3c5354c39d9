import { write, writeSync } from 'node:fs'
import { MiB } from '../lib/bytes.ts'

/** Maximum size of lines that wait for a write, in bytes; further lines are lost. */
const maxWaitingBytes = MiB

/** Delay before a full pipe is tried again. */
const retryMs = 50
/** Lines of this time are written together: a write wakes another thread, which a request would wait for. */
const gatherMs = 5

/**
 * The output of a log. A line that cannot be written is lost, without further effect: a full disk, or a reader that has ended, neither
 * ends nor blocks the process, not even at its exit, where pino's own output does.
 */
export function logOutput(fd: number): { write(line: string): void; flushSync(): void } {
  let waiting: string[] = []
  let bytes = 0
  let writing = false

  function take(): Buffer {
    const chunk = Buffer.from(waiting.join(''))
    waiting = []
    bytes = 0
    return chunk
  }

  function next(): void {
    if (writing) return
    writing = true
    setTimeout(() => send(take()), gatherMs).unref()
  }

  function send(chunk: Buffer): void {
    write(fd, chunk, (error, written) => {
      if (error?.code === 'EAGAIN') return void setTimeout(send, retryMs, chunk)
      if (!error && written < chunk.length) return send(chunk.subarray(written))
      writing = false
      if (waiting.length > 0) next()
    })
  }

  const output = {
    write(line: string): void {
      if (bytes > maxWaitingBytes) return
      waiting.push(line)
      bytes += Buffer.byteLength(line)
      next()
    },
    /** Tries to write the waiting lines, at the exit of a process. */
    flushSync(): void {
      try {
        if (waiting.length > 0) writeSync(fd, take())
      } catch {
        // The process ends, and there is nowhere else to report it.
      }
    },
  }
  process.once('exit', output.flushSync)
  return output
}

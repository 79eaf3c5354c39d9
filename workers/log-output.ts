import { write, writeSync } from 'node:fs'
import { MiB } from '../lib/bytes.ts'

/** Lines that wait while one write is under way, in bytes; what comes beyond is lost. */
const waitingBytes = MiB

/** A pipe that cannot take more is tried again after this time. */
const retryMs = 50

/**
 * Where a log is written to. A line that cannot be written is lost and nothing else: a full disk, or a reader that is gone, ends no
 * process and holds none up, also not at its end, which pino's own output does.
 */
export function logOutput(fd: number): { write(line: string): void; flushSync(): void } {
  let waiting: string[] = []
  let bytes = 0
  let writing = false

  function take(): Buffer {
    const piece = Buffer.from(waiting.join(''))
    waiting = []
    bytes = 0
    return piece
  }

  function next(): void {
    if (writing || waiting.length === 0) return
    writing = true
    send(take())
  }

  function send(piece: Buffer): void {
    write(fd, piece, (error, written) => {
      if (error?.code === 'EAGAIN') return void setTimeout(send, retryMs, piece)
      if (!error && written < piece.length) return send(piece.subarray(written))
      writing = false
      next()
    })
  }

  const output = {
    write(line: string): void {
      if (bytes > waitingBytes) return
      waiting.push(line)
      bytes += Buffer.byteLength(line)
      next()
    },
    /** What waits is tried once more; for the end of a process. */
    flushSync(): void {
      try {
        if (waiting.length > 0) writeSync(fd, take())
      } catch {}
    },
  }
  process.once('exit', output.flushSync)
  return output
}

import { setTimeout as sleep } from 'node:timers/promises'
import { ignoreError } from '../../lib/async/ignore-error.ts'
import { storable } from '../../lib/storable-text.ts'
import { deploymentLogs } from '../../policy/apps/deployment-logs.ts'
import { outputCost } from '../../policy/apps/output-pace.ts'
import { newest } from '../containers/output.ts'

export interface DeploymentLog {
  /** Adds output. Wait until this has settled before adding more; it never rejects. */
  add(text: string): Promise<void>
  /** Writes what is pending and, when output was dropped, how many bytes and the last lines of it. Never rejects. */
  close(): Promise<void>
}

/** Appends a text to the log unless the whole log would exceed `maxBytes`; false when there was no room. */
export type AppendLog = (text: string, maxBytes: number) => Promise<boolean>

/**
 * Buffers output and writes it in order, with bounded memory: the producer waits for the database, and output that
 * exceeds the log's size, or cannot be written, is dropped.
 */
export function deploymentLog(append: AppendLog, limits = deploymentLogs): DeploymentLog {
  let pending = ''
  let pendingBytes = 0
  let last = ''
  let full = false
  let droppedBytes = 0
  let writing: Promise<void> | null = null
  let second = { startedAt: 0, bytes: 0 }

  async function write(): Promise<void> {
    const text = pending
    const bytes = pendingBytes
    hold('')
    try {
      if (await append(text, limits.outputBytes)) return
      full = true
      droppedBytes += bytes
    } catch {
      // The newest part of it is tried again with the next output.
      const retained = newest(text + pending, limits.pieceBytes)
      droppedBytes += bytes + pendingBytes - Buffer.byteLength(retained)
      hold(retained)
    }
  }

  function hold(text: string): void {
    pending = text
    pendingBytes = Buffer.byteLength(text)
  }

  /** Starts a write unless one is running; settles when the running one does. */
  function flush(): Promise<void> {
    if (!pending) return writing ?? Promise.resolve()
    writing ??= write().finally(() => {
      writing = null
    })
    return writing
  }

  async function keepPace(bytes: number): Promise<void> {
    const now = performance.now()
    if (now - second.startedAt >= 1000) second = { startedAt: now, bytes: 0 }
    second.bytes += bytes
    if (second.bytes >= limits.bytesPerSecond) await sleep(second.startedAt + 1000 - now)
  }

  const timer = setInterval(flush, limits.flushMs)
  return {
    async add(text) {
      const clean = storable(text)
      const bytes = Buffer.byteLength(clean)
      last = (last + clean).slice(-limits.lastCharacters)
      // A producer that does not wait is bounded too.
      if (full || pendingBytes > 2 * limits.pieceBytes) droppedBytes += bytes
      else {
        pending += clean
        pendingBytes += bytes
      }
      if (pendingBytes >= limits.pieceBytes) await flush()
      await keepPace(outputCost(Buffer.from(text)))
    },
    async close() {
      clearInterval(timer)
      await writing
      await flush()
      if (droppedBytes === 0) return
      const note = `\n[${droppedBytes} bytes of output are left out. The last lines:]\n${full ? last : ''}`
      await append(note, limits.wholeBytes).catch(ignoreError('a missing line of the log fails no deployment'))
    },
  }
}
